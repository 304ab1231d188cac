#!/usr/bin/env python3
"""Publish and receive through a real NATS server at a constant rate. See README.md."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rates", default="100000,100000,100000,200000,300000,400000,500000,700000")
    options.add_argument("--duration", type=int, default=10)
    options.add_argument("--bytes", type=int, default=128)
    options = options.parse_args()
    print(h.machine())
    rows = []
    for rate in options.rates.split(","):
        with h.nats() as server:
            before = server.cpu_seconds()
            document, code, cpu = h.bench(
                "--target", f"nats=127.0.0.1:{server.port}", "--arrival", f"constant:{rate}/s", "--duration",
                f"{options.duration}s", "--warm-up", "2s", "--drain", "5s", "--message-bytes", str(options.bytes),
                "--seed", "1", "--no-record",
            )
            used = server.cpu_seconds() - before
        counts, figures, generator = document["counts"], document["rates"], document["generator"]
        messages = int(rate) * (options.duration + 2)
        late = generator["scheduling_error_ms"]
        rows.append(
            [int(rate), figures["achieved"], figures["throughput"], counts["lost"], counts["duplicated"],
             counts["reordered"], h.at(document, "end_to_end_latency", "p50"),
             h.at(document, "end_to_end_latency", "p99"), late["p50"], late["p99"], generator["cpu_busy"][0],
             generator["cpu_us_per_operation"], cpu * 1e6 / messages, used * 1e6 / messages, document["valid"], code,
             h.codes(document)]
        )
    h.table(
        ["rate", "achieved", "received /s", "lost", "dup.", "reord.", "e2e p50 ms", "p99 ms", "sched. error p50",
         "p99 ms", "busy", "loop us/msg", "process us/msg", "server us/msg", "valid", "exit", "findings"],
        rows,
    )


if __name__ == "__main__":
    main()
