#!/usr/bin/env python3
"""Side by side with redis-benchmark on a real Redis, and the constant rate of the acceptance. See README.md."""

import argparse
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness as h

KEYS = 100_000


def peer(server, depth, seconds_worth):
    """redis-benchmark: (operations/s, p50 ms, client CPU us per operation, server CPU us per operation)."""
    before = server.cpu_seconds()
    text, _, cpu = h.run(
        [h.need("redis-benchmark"), "-p", str(server.port), "-c", "50", "-n", str(seconds_worth), "-d", "64", "-r",
         str(KEYS), "-P", str(depth), "-t", "get", "--csv"]
    )
    used = server.cpu_seconds() - before
    line = next(line for line in text.splitlines() if line.startswith('"GET"'))
    fields = [field.strip('"') for field in line.split(",")]
    return float(fields[1]), float(fields[4]), cpu * 1e6 / seconds_worth, used * 1e6 / seconds_worth


def ours(server, depth, seconds):
    """The same figures of a closed loop that fills every pipeline slot."""
    before = server.cpu_seconds()
    document, _, cpu = h.bench(
        "--target", f"resp=127.0.0.1:{server.port}", "--arrival", f"closed:{50 * depth}", "--duration", f"{seconds}s",
        "--warm-up", "0s", "--drain", "2s", "--read-ratio", "1", "--keys", str(KEYS), "--value-bytes", "64",
        "--pipeline", str(depth), "--connections", "50", "--no-ceiling", "--no-record", "--seed", "1",
    )
    used = server.cpu_seconds() - before
    operations = document["counts"]["completed"]
    # The process also loads the keys first, draws plots and writes the document; that is in its CPU time.
    return (
        document["rates"]["throughput"], h.at(document, "e2e", "p50"), cpu * 1e6 / operations,
        used * 1e6 / operations, document["generator"]["cpu_us_per_operation"],
    )


def closed(repeats, seconds):
    rows = []
    for depth in (1, 16):
        theirs, mine = [], []
        with h.redis() as server:
            # The peer reads keys of its own: without this its lookups would all miss, which is cheaper.
            h.run([h.need("redis-benchmark"), "-p", str(server.port), "-c", "50", "-n", str(10 * KEYS), "-d", "64",
                   "-r", str(KEYS), "-P", "16", "-t", "set", "-q"])
            ours(server, depth, 1)
            for _ in range(repeats):
                theirs.append(peer(server, depth, int((70_000 if depth == 1 else 700_000) * seconds)))
                mine.append(ours(server, depth, seconds))
        ratio = [a[0] / b[0] for a, b in zip(mine, theirs)]
        middle = lambda runs, field: statistics.median(run[field] for run in runs)
        for name, runs in (("redis-benchmark", theirs), ("touchstone", mine)):
            rows.append(
                [f"P{depth}", name, middle(runs, 0), min(r[0] for r in runs), max(r[0] for r in runs), middle(runs, 1),
                 middle(runs, 2), middle(runs, 4) if name == "touchstone" else None, middle(runs, 3)]
            )
        rows.append([f"P{depth}", "ratio, pair by pair", statistics.median(ratio), min(ratio), max(ratio), None,
                     middle(mine, 2) / middle(theirs, 2), None, middle(mine, 3) / middle(theirs, 3)])
    h.table(
        ["", "tool", "ops/s median", "min", "max", "p50 ms", "client CPU us/op", "loop only us/op", "server CPU us/op"],
        rows,
    )


def constant(repeats, rates):
    rows = []
    for rate in rates:
        for _ in range(repeats):
            with h.redis() as server:
                document, code, cpu = h.bench(
                    "--target", f"resp=127.0.0.1:{server.port}", "--arrival", f"constant:{rate}/s", "--duration",
                    "10s", "--warm-up", "2s", "--read-ratio", "0.9", "--keys", str(KEYS), "--value-bytes", "64",
                    "--pipeline", "1", "--connections", "50", "--seed", "1",
                )
            late, figures = document["generator"]["scheduling_error_ms"], document["rates"]
            rows.append(
                [rate, figures["offered"], figures["achieved"], figures["throughput"], late["p50"], late["p99"],
                 h.at(document, "slot_wait", "p99"), h.at(document, "service_time", "p50"),
                 h.at(document, "service_time", "p99"), h.at(document, "e2e", "p99"),
                 document["generator"]["cpu_busy"][0], document["generator"]["loopback_ceiling"], document["valid"],
                 code, h.codes(document)]
            )
    h.table(
        ["rate", "offered", "achieved", "throughput", "sched. error p50", "p99 ms", "slot wait p99", "service p50",
         "service p99", "e2e p99", "busy", "loopback ceiling", "valid", "exit", "findings"],
        rows,
    )


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--only", choices=["closed", "constant"])
    options = options.parse_args()
    print(h.machine())
    if options.only != "constant":
        closed(options.repeats, options.seconds)
    if options.only != "closed":
        constant(3, [50_000])


if __name__ == "__main__":
    main()
