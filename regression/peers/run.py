#!/usr/bin/env python3
"""CPU per streamed token of touchstone, of other load generators, and of a raw socket reader of the same bytes. See README.md."""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness as h

TOKENS = 128
CONNECTIONS = 64


def compile_c(folder, name):
    program = os.path.join(folder, name)
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    subprocess.run([compiler, "-O2", "-w", "-D_GNU_SOURCE", "-o", program, os.path.join(HERE, f"{name}.c")], check=True)
    return program


def answer_length(port):
    """Bytes of one answer, as the server sends it."""
    body = b'{"stream":true}'
    ask = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(ask)
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += stream.recv(65536)
    return len(answer)


def own_cpu(port, requests):
    document, _, cpu = h.bench(
        "--target", f"openai-chat=http://127.0.0.1:{port}", "--model", "m", "--arrival", f"closed:{CONNECTIONS}",
        "--requests", str(requests), "--input-tokens", "64", "--output-tokens", str(TOKENS), "--seed", "1", "--no-record",
        "--no-ceiling",
    )
    if document["counts"]["completed"] != requests or document["counts"]["output_tokens"] != requests * TOKENS:
        sys.exit(f"touchstone lost requests or tokens: {document['counts']}")
    return cpu, document


def peer_command(peer, python_bin, port, tokenizer, requests, out):
    url = f"http://127.0.0.1:{port}"
    n, t = str(requests), str(TOKENS)
    if peer == "vllm":
        return [
            f"{python_bin}/vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", url, "--endpoint",
            "/v1/chat/completions", "--model", "m", "--tokenizer", tokenizer, "--dataset-name", "random",
            "--random-input-len", "64", "--random-output-len", t, "--num-prompts", n, "--max-concurrency",
            str(CONNECTIONS), "--ignore-eos", "--seed", "1", "--disable-tqdm",
        ]
    if peer == "evalscope":
        return [
            f"{python_bin}/evalscope", "perf", "--model", "m", "--url", f"{url}/v1/chat/completions", "--api", "openai",
            "--dataset", "random", "--tokenizer-path", tokenizer, "--min-prompt-length", "64", "--max-prompt-length",
            "64", "--prefix-length", "0", "--max-tokens", t, "--min-tokens", t, "--parallel", str(CONNECTIONS),
            "--number", n, "--extra-args", '{"ignore_eos": true}', "--outputs-dir", out,
        ]
    if peer == "aiperf":
        return [
            f"{python_bin}/aiperf", "profile", "--model", "m", "--url", url, "--endpoint-type", "chat", "--streaming",
            "--tokenizer", tokenizer, "--use-server-token-count", "--synthetic-input-tokens-mean", "64",
            "--synthetic-input-tokens-stddev", "0", "--output-tokens-mean", t, "--output-tokens-stddev", "0",
            "--extra-inputs", "ignore_eos:true", "--concurrency", str(CONNECTIONS), "--request-count", n,
            "--random-seed", "1", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry", "--output-artifact-dir", out,
        ]
    config = os.path.join(out, "ip.yml")
    lengths = lambda tokens: f"{{min: {tokens}, max: {tokens}, mean: {tokens}, std_dev: 0, total_count: {requests + 100}}}"
    with open(config, "w") as file:
        file.write(
            f"load: {{type: concurrent, num_workers: 1, base_seed: 1, stages: [{{num_requests: {n}, concurrency_level: {CONNECTIONS}}}]}}\n"
            "api: {type: completion, streaming: true}\n"
            f'server: {{type: vllm, model_name: m, base_url: "{url}", ignore_eos: true}}\n'
            f"tokenizer: {{pretrained_model_name_or_path: {tokenizer}}}\n"
            f"data: {{type: random, input_distribution: {lengths(64)}, output_distribution: {lengths(TOKENS)}}}\n"
            f"storage: {{local_storage: {{path: {out}/ip}}}}\n"
        )
    return [f"{python_bin}/inference-perf", "--config_file", config]


def peer_cpu(peer, python_bin, port, tokenizer, requests):
    """CPU seconds of a whole run of a peer, all its processes together."""
    out = tempfile.mkdtemp(prefix="regression-")
    environment = dict(os.environ, VLLM_NO_USAGE_STATS="1", TRANSFORMERS_VERBOSITY="error", DO_NOT_TRACK="1")
    if peer != "aiperf":
        environment["HF_HUB_OFFLINE"] = "1"
    before = os.times()
    command = peer_command(peer, python_bin, port, tokenizer, requests, out)
    done = subprocess.run(command, cwd=out, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    after = os.times()
    shutil.rmtree(out, ignore_errors=True)
    if done.returncode:
        print(f"{peer} ended with {done.returncode}: {done.stderr[-400:]}", file=sys.stderr)
        return None
    return after.children_user + after.children_system - before.children_user - before.children_system


def per_token(cpu, few, many):
    """us per token between a short run and a long one, so that what a run costs once does not count."""
    short, long = cpu(few), cpu(many)
    if short is None or long is None:
        return None
    return (long - short) * 1e6 / ((many - few) * TOKENS)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--peers", help="folder with a Python environment for each peer: vllm, evalscope, aiperf, inference-perf")
    options.add_argument("--tokenizer", help="folder with tokenizer.json for the peers")
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    print(h.machine())
    names = ("vllm", "evalscope", "aiperf", "inference-perf") if options.peers else ()
    peers = {name: os.path.join(options.peers, name, "bin") for name in names}
    peers = {name: path for name, path in peers.items() if os.path.isdir(path)}
    folder = tempfile.mkdtemp(prefix="regression-")
    server, floor = compile_c(folder, "server"), compile_c(folder, "floor")
    rows = []
    for mode, pace, own, other in (("whole answers in one write", 0, (20_000, 220_000), (400, 2800)),
                                   ("64 paced streams, one token a write", 5000, (640, 6400), (200, 1400))):
        figures = {"raw reader": [], "touchstone": [], **{peer: [] for peer in peers}}
        coalesced = None
        for _ in range(options.rounds):
            port = h.free_port()
            with h.Process([server, str(port), str(pace), str(TOKENS), "1"], port):
                length = answer_length(port)

                def floor_cpu(requests):
                    text, _, _ = h.run([floor, str(port), str(CONNECTIONS), str(requests), str(length)])
                    return json.loads(text)["cpu_s"]

                def touchstone_cpu(requests):
                    nonlocal coalesced
                    cpu, document = own_cpu(port, requests)
                    coalesced = document["generator"]["coalesced_share"]
                    return cpu

                figures["raw reader"].append(per_token(floor_cpu, *own))
                figures["touchstone"].append(per_token(touchstone_cpu, *own))
                for peer, path in peers.items():
                    cpu = lambda requests: peer_cpu(peer, path, port, options.tokenizer, requests)
                    figures[peer].append(per_token(cpu, *other))
        middle = {}
        for name, values in figures.items():
            values = sorted(value for value in values if value is not None)
            middle[name] = values[len(values) // 2] if values else None
        for name, values in figures.items():
            value, us = middle[name], middle["touchstone"]
            spread = ", ".join(h.show(value) for value in values)
            ratio = None if value is None else value / us
            rows.append([mode, name, value, spread, None if value is None else int(1e6 / value), ratio,
                         coalesced if name == "touchstone" else None])
    h.table(["server", "client", "CPU us/token (middle)", "rounds", "tokens per CPU s", "CPU against touchstone",
             "coalesced"], rows)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
