#!/usr/bin/env python3
"""One million requests in one run, and ten thousand open streams at once: memory, CPU, and that nothing is lost. See README.md."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness as h

SERVER = os.path.join(os.path.dirname(HERE), "peers", "server.c")


def resident_mib(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS")), 0.0)
    except OSError:
        return 0.0


def measured(folder, port, *options):
    """A recorded bench with its resident memory every 0.2 s. Gives (document, CPU s, samples as (s, MiB), bytes of log)."""
    out = os.path.join(folder, "out")
    document = os.path.join(folder, "run.json")
    command = [h.binary(), "bench", "--target", f"openai-chat=http://127.0.0.1:{port}", "--model", "m", "--seed", "1",
               "--no-ceiling", "--no-server-metrics", "--quiet", "--json", document, "--out", out, *options]
    began, samples = time.monotonic(), []
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Event()

    def watch():
        while not ended.wait(0.2):
            samples.append((time.monotonic() - began, resident_mib(process.pid)))

    thread = threading.Thread(target=watch)
    thread.start()
    _, _, usage = os.wait4(process.pid, 0)
    ended.set()
    thread.join()
    log = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(out) for name in names
              if name.endswith(".tslog"))
    with open(document) as file:
        found = json.load(file)
    shutil.rmtree(out, ignore_errors=True)
    return found, usage.ru_utime + usage.ru_stime, samples, log, usage.ru_maxrss / 1024


def at_share(samples, share):
    return samples[min(int(len(samples) * share), len(samples) - 1)][1] if samples else None


def main():
    print(h.machine())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = tempfile.mkdtemp(prefix="regression-")
    program = os.path.join(folder, "server")
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    subprocess.run([compiler, "-O2", "-w", "-D_GNU_SOURCE", "-o", program, SERVER], check=True)
    rows = []
    for name, pace, tokens, options in (
        ("1,000,000 requests", 0, 128, ("--arrival", "closed:64", "--requests", "1000000", "--input-tokens", "64")),
        ("10,000 open streams", 200_000, 32, ("--arrival", "closed:10000", "--connections", "10000", "--duration", "15s",
                                              "--warm-up", "8s", "--input-tokens", "16")),
    ):
        port = h.free_port()
        with h.Process([program, str(port), str(pace), str(tokens), "1"], port):
            document, cpu, samples, log, peak = measured(folder, port, "--output-tokens", str(tokens), *options)
        counts = document["counts"]
        rows.append([name, counts["completed"], counts["failed"], counts["output_tokens"],
                     max(window["in_flight"] for window in document["windows"]), document["rates"]["output_tokens"],
                     at_share(samples, 0.25), at_share(samples, 0.5), at_share(samples, 0.75), peak, log / 2**20, cpu,
                     document["valid"], ", ".join(h.codes(document))])
    h.table(["case", "completed", "failed", "output tokens", "open at once", "tokens/s", "MiB at 25 %", "at 50 %", "at 75 %",
             "peak MiB", "log MiB", "CPU s", "valid", "findings"], rows)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
