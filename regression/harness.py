"""What the regression cases share: processes that are started and stopped, CPU time, quantiles, tables.

Only the standard library. Nothing here judges; each case prints its numbers and says what it asks of them.
"""

import atexit
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICKS = os.sysconf("SC_CLK_TCK")


def binary():
    """The release binary: $TOUCHSTONE, or target/release/touchstone."""
    path = os.environ.get("TOUCHSTONE", os.path.join(ROOT, "target", "release", "touchstone"))
    if not os.access(path, os.X_OK):
        sys.exit(f"no binary at {path}: run `cargo build --release -p touchstone`, or set TOUCHSTONE")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def machine():
    """One line about this machine."""
    model = "unknown processor"
    try:
        with open("/proc/cpuinfo") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {model}, {platform.system()} {platform.release()}"


def waited_us():
    """Time during which some task waited for a processor, since boot, us; 0 where the kernel does not say."""
    try:
        with open("/proc/pressure/cpu") as pressure:
            return int(pressure.readline().rsplit("total=", 1)[1])
    except (OSError, IndexError, ValueError):
        return 0


class Crowding:
    """How crowded the machine was since this was made: others' load makes figures worse, never better."""

    def __init__(self):
        self.began, self.waited = time.monotonic(), waited_us()

    def share(self):
        """Share of the time in which some task waited for a processor."""
        return (waited_us() - self.waited) / 1e6 / max(time.monotonic() - self.began, 1e-9)


CROWDING = Crowding()


@atexit.register
def crowding():
    if len(sys.argv) and sys.argv[0].endswith("run.py"):
        print(f"some task waited for a processor in {100 * CROWDING.share():.0f} % of the time")


def need(program):
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        sys.exit(f"{program} is not on this machine")
    return path


class Process:
    """A server that was started here and is stopped here, by its process id."""

    def __init__(self, command, port, cpus=None):
        self.folder = tempfile.mkdtemp(prefix="regression-")
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.port = port
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log
        )
        if cpus is not None:
            os.sched_setaffinity(self.process.pid, cpus)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        self.stop()
        sys.exit(f"{command[0]} did not open its port")

    def cpu_seconds(self):
        """CPU time of the process so far, over all its threads."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def engine(profile, *more, cpus=None):
    port = free_port()
    return Process([binary(), "engine", "--profile", profile, "--port", str(port), *more], port, cpus)


def redis(cpus=None):
    port = free_port()
    command = [need("redis-server"), "--port", str(port), "--save", "", "--appendonly", "no"]
    return Process(command, port, cpus)


def nats(cpus=None):
    port = free_port()
    return Process([need("nats-server"), "-a", "127.0.0.1", "-p", str(port)], port, cpus)


def run(command):
    """Runs a command to its end. Gives (standard output, exit code, its CPU seconds)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text = out.read().decode()
        if process.returncode not in (0, 1, 3):
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}: {err.read().decode()}")
        return text, process.returncode, usage.ru_utime + usage.ru_stime


def bench(*options):
    """`touchstone bench ... --json -`. Gives (document, exit code, CPU seconds of the whole process)."""
    folder = tempfile.mkdtemp(prefix="regression-")
    try:
        text, code, cpu = run([binary(), "bench", *options, "--json", "-", "--quiet", "--out", folder])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return json.loads(text), code, cpu


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return json.loads(answer.read())


def codes(document):
    """The finding codes of a run."""
    return [finding["code"] for finding in document["findings"]]


def at(document, metric, quantile):
    """A quantile of a metric in ms; none where it was not measured."""
    summary = document["metrics"].get(metric)
    return None if summary is None else summary[quantile]


def show(value, digits=3):
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def table(head, rows):
    """Prints a Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "|".join(" --- " for _ in head) + "|")
    for row in rows:
        print("| " + " | ".join(show(cell) for cell in row) + " |")
    print(flush=True)


def number(pattern, text):
    found = re.search(pattern, text)
    return None if found is None else float(found.group(1))
