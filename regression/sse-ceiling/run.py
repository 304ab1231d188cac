#!/usr/bin/env python3
"""How many streamed requests and events per second the generator takes. See README.md."""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--duration", type=int, default=5)
    options = options.parse_args()
    print(h.machine())
    rows = []
    for name, arrival, tokens in (
        ("flat", "closed:16", 64), ("flat", "closed:64", 64), ("flat", "closed:128", 64), ("flat", "closed:256", 64),
        ("flat", "closed:64", 1), ("flat", "closed:256", 1),
    ):
        with h.engine(name) as server:
            before = server.cpu_seconds()
            document, code, cpu = h.bench(
                "--target", f"openai-chat=http://127.0.0.1:{server.port}", "--arrival", arrival, "--duration",
                f"{options.duration}s", "--warm-up", "1s", "--drain", "5s", "--output-tokens", str(tokens),
                "--input-tokens", "128", "--seed", "1", "--no-record",
            )
            used = server.cpu_seconds() - before
            phases = document["phases"]
            truth = h.get(
                server.port, f"/truth?from_ns={phases['measured_from_ns']}&to_ns={phases['measured_to_ns']}"
            )
        figures, generator = document["rates"], document["generator"]
        # Busy time of the loop over all operations, spread over the events of an answer.
        per_request = generator["cpu_us_per_operation"]
        rows.append(
            [arrival, tokens, figures["throughput"], figures["output_tokens"], generator["cpu_busy"][0], per_request,
             per_request / tokens, cpu * 1e6 / (figures["output_tokens"] * (options.duration + 1)),
             used * 1e6 / (figures["output_tokens"] * (options.duration + 1)), generator["loopback_ceiling"],
             generator["coalesced_share"], h.at(document, "itl", "p50"), truth["itl"]["p50"] / 1e6 if tokens > 1 else None,
             document["valid"], h.codes(document)]
        )
    h.table(
        ["arrival", "tokens", "requests/s", "events/s", "busy", "loop us/request", "loop us/event",
         "process us/event", "engine us/event", "loopback ceiling req/s", "coalesced", "itl p50", "truth itl p50",
         "valid", "findings"],
        rows,
    )


if __name__ == "__main__":
    main()
