#!/usr/bin/env python3
"""60 requests/s on an engine that serves exactly 50. See README.md."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h


def main():
    print(h.machine())
    rows, good = [], True
    for arrival in ("constant:60/s", "poisson:60/s"):
        for seed in (1, 2):
            with h.engine("capacity-50") as server:
                document, code, _ = h.bench(
                    "--target", f"openai-chat=http://127.0.0.1:{server.port}", "--arrival", arrival, "--duration",
                    "10s", "--warm-up", "2s", "--drain", "10s", "--seed", str(seed), "--no-ceiling",
                )
            rates, found = document["rates"], h.codes(document)
            good = good and abs(rates["throughput"] - 50) <= 0.5 and "backlog-growing" in found
            rows.append(
                [arrival, seed, rates["offered"], rates["achieved"], rates["throughput"],
                 h.at(document, "ttft", "p50"), h.at(document, "scheduling_error", "p99"), document["valid"], code, found]
            )
    h.table(
        ["arrival", "seed", "offered /s", "achieved /s", "throughput /s", "ttft p50 ms", "sched. error p99 ms",
         "valid", "exit", "findings"],
        rows,
    )
    print("throughput 50 +- 0.5 and a growing backlog in every run:", "yes" if good else "NO")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
