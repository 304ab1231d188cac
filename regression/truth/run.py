#!/usr/bin/env python3
"""Client figures against the embedded engine's own account of the same window. See README.md."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h

LIMIT_MS = 0.3
PAIRS = [("ttft_from_send", "ttft_from_receive"), ("itl", "itl"), ("icl", "itl")]


def once(profile, rate, duration, input_tokens, output_tokens, seed):
    with h.engine(profile) as server:
        before, crowding = server.cpu_seconds(), h.Crowding()
        document, _, _ = h.bench(
            "--target", f"openai-chat=http://127.0.0.1:{server.port}", "--arrival", f"poisson:{rate}/s",
            "--duration", f"{duration}s", "--warm-up", "2s", "--drain", "5s", "--input-tokens", str(input_tokens),
            "--output-tokens", str(output_tokens), "--seed", str(seed), "--no-ceiling",
        )
        # The engine idles while the generator starts and drains; what counts is the time under load.
        cpu = (server.cpu_seconds() - before) / (duration + 2)
        phases = document["phases"]
        truth = h.get(server.port, f"/truth?from_ns={phases['measured_from_ns']}&to_ns={phases['measured_to_ns']}")
    return document, truth, cpu, crowding.share()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--profile", default="flat")
    options.add_argument("--rate", type=float, default=1000.0)
    options.add_argument("--duration", type=int, default=10)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--input-tokens", type=int, default=128)
    options.add_argument("--output-tokens", type=int, default=64)
    options = options.parse_args()
    print(h.machine())
    rows, worst = [], 0.0
    for repeat in range(options.repeats):
        document, truth, cpu, crowded = once(
            options.profile, options.rate, options.duration, options.input_tokens, options.output_tokens, repeat + 1
        )
        late = document["generator"]["scheduling_error_ms"] or {}
        for metric, theirs in PAIRS:
            row = [repeat + 1, f"{100 * cpu:.0f} %", f"{100 * crowded:.0f} %", metric]
            for quantile in ("p50", "p99"):
                ours, true = h.at(document, metric, quantile), truth[theirs][quantile] / 1e6
                difference = None if ours is None else ours - true
                worst = max(worst, abs(difference) if difference is not None else float("inf"))
                row += [ours, true, difference]
            row += [document["metrics"][metric]["n"], truth[theirs]["n"], late.get("p99"),
                    document["generator"]["cpu_busy"][0], h.codes(document)]
            rows.append(row)
    h.table(
        ["run", "engine CPU", "crowded", "metric", "p50", "truth", "diff", "p99", "truth", "diff", "n", "truth n",
         "sched. error p99", "busy", "findings"],
        rows,
    )
    print(f"greatest difference: {worst:.3f} ms (must be below {LIMIT_MS} ms)")
    sys.exit(0 if worst < LIMIT_MS else 1)


if __name__ == "__main__":
    main()
