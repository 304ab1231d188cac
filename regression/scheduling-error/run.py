#!/usr/bin/env python3
"""The generator's own lateness at three rates. See README.md."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--duration", type=int, default=10)
    options.add_argument("--repeats", type=int, default=3)
    options = options.parse_args()
    print(h.machine())
    rows = []
    for arrival in ("constant:10/s", "poisson:1000/s", "constant:50000/s"):
        for repeat in range(options.repeats):
            with h.redis() as server:
                document, code, cpu = h.bench(
                    "--target", f"resp=127.0.0.1:{server.port}", "--arrival", arrival, "--duration",
                    f"{options.duration}s", "--warm-up", "1s", "--connections", "50", "--seed", str(repeat + 1),
                    "--no-ceiling", "--no-record",
                )
            error = document["metrics"]["scheduling_error"]
            rows.append(
                [arrival, repeat + 1, error["n"]] + [1000 * error[q] for q in ("p50", "p90", "p99", "p999", "max")]
                + [document["generator"]["cpu_busy"][0], document["valid"], h.codes(document)]
            )
    h.table(["arrival", "run", "n", "p50 us", "p90", "p99", "p99.9", "max", "busy", "valid", "findings"], rows)


if __name__ == "__main__":
    main()
