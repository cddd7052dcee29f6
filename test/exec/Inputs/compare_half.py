#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_half.py LOG.jsonl GOLDEN.jsonl bf16|fp16: losses of a 16-bit run of dsexec against PyTorch's fp32 run.

The mean distance may be at most 1.5 times that of PyTorch's own 16-bit run. No update may be skipped.
"""

import json
import sys


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def main(log, golden, kind):
    ours, theirs = read(log), read(golden)
    if len(ours) != len(theirs) or not theirs:
        sys.exit(f"{log} has {len(ours)} updates, {golden} {len(theirs)}")
    if any(row["skipped"] for row in ours):
        sys.exit("an update was skipped")

    def apart(losses):
        return sum(abs(a - b["loss"]) for a, b in zip(losses, theirs)) / len(theirs)

    mine, torch = apart([row["loss"] for row in ours]), apart([row[f"loss_{kind}"] for row in theirs])
    print(f"{kind}: mean distance from PyTorch's fp32 losses {mine:.2e}, of PyTorch's own {kind} run {torch:.2e}: "
          f"ratio {mine / torch:.2f}")
    if not mine <= 1.5 * torch:
        sys.exit("more than 1.5 times as far as PyTorch")


main(*sys.argv[1:])
