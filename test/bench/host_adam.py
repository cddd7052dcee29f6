#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The host optimizer against STREAM's triad and PyTorch's fused AdamW on the CPU, on one vector of parameters.

Takes turns: triad, ours, PyTorch, and again; prints medians. How bytes are counted: test/bench/HostAdamBench.cpp.
  PYTHON_WITH_TORCH test/bench/host_adam.py --bench build/release/bin/bench
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import torch


def ours(args):
    """Medians by name: ms, and GB/s."""
    env = {**os.environ, "DS_BENCH_ELEMS": str(args.elems), "DS_BENCH_THREADS": str(args.threads)}
    out = subprocess.run([args.bench, "--benchmark_filter=^host", "--benchmark_format=json",
                          f"--benchmark_min_time={args.seconds}"], check=True, env=env, stdout=subprocess.PIPE).stdout
    rows = {b["name"].split("/")[1]: b for b in json.loads(out)["benchmarks"]}
    return {name: row["ms"] for name, row in rows.items()}, {name: row["GB/s"] for name, row in rows.items()}


class Theirs:
    def __init__(self, args):
        torch.set_num_threads(args.threads)
        self.p = torch.nn.Parameter(torch.rand(args.elems) - 0.5)
        self.p.grad = torch.rand(args.elems) - 0.5
        self.optimizer = torch.optim.AdamW([self.p], lr=1e-3, weight_decay=0.1, fused=True)
        self.optimizer.step()

    def ms(self, seconds):
        times, begin = [], time.perf_counter()
        while len(times) < 3 or time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            self.optimizer.step()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default="build/release/bin/bench")
    for name, value in (("elems", 64 << 20), ("threads", 2), ("rounds", 7)):
        p.add_argument("--" + name, type=int, default=value, metavar="N")
    p.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    args = p.parse_args()
    theirs = Theirs(args)
    times, rates = [], []
    for i in range(args.rounds):
        ms, rate = ours(args)
        ms["torch"] = theirs.ms(args.seconds)
        rate["torch"] = args.elems * 28 / ms["torch"] / 1e6
        times.append(ms)
        rates.append(rate)
        print(f"round {i + 1}: " + ", ".join(f"{n} {ms[n]:.1f} ms {rate[n]:.1f} GB/s" for n in ms), flush=True)

    def median(rows, name):
        return statistics.median(row[name] for row in rows)

    def ratio(name, to):
        return statistics.median(row[name] / row[to] for row in rates)

    print(f"{args.elems} parameters, {args.threads} threads, medians: "
          + ", ".join(f"{n} {median(times, n):.1f} ms {median(rates, n):.1f} GB/s" for n in times[0]))
    print(f"adam: {100 * ratio('adam', 'triad'):.0f} % of triad, {100 * ratio('adam', 'triad_streamed'):.0f} % of the "
          f"streamed triad; {ratio('adam', 'torch'):.2f} times as fast as PyTorch's fused AdamW")


if __name__ == "__main__":
    main()
