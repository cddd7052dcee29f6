#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_log.py LOG.jsonl GOLDEN.jsonl [FALL [UPDATES]]: losses and gradient norms of dsexec --log-json against PyTorch's.

Relative differences: losses 1e-5 for the first 10 updates and 1e-4 for all, norms 1e-3; the learning rate is the
same number. Prints the worst of each as a percentage of what is allowed, and fails above 100 %, or if the loss falls
by less than FALL percent (20). With UPDATES, only so many were run: the first of the golden ones are meant, and no fall.
"""

import json
import math
import sys


def read(path):
    with open(path) as lines:
        return [json.loads(line) for line in lines]


def main(log, golden, least="20", updates=None):
    ours, theirs = read(log), read(golden)
    if updates:
        theirs = theirs[: int(updates)]
    if len(ours) != len(theirs) or not theirs:
        sys.exit(f"{log} has {len(ours)} updates, {golden} {len(theirs)}")
    worst = {}

    def compare(what, update, key, allowed):
        a, b = ours[update][key], theirs[update][key]
        part = abs(a - b) / (allowed * abs(b)) if a != b else 0.0
        part = math.inf if math.isnan(part) else part
        if part > worst.get(what, (-1,))[0]:
            worst[what] = (part, update + 1, a, b)

    for u in range(len(theirs)):
        if ours[u]["skipped"]:
            sys.exit(f"update {u + 1} was skipped")
        if u < 10:
            compare("first 10 losses, 1e-5", u, "loss", 1e-5)
        compare("losses, 1e-4", u, "loss", 1e-4)
        compare("gradient norms, 1e-3", u, "grad_norm", 1e-3)
        compare("learning rates, 1e-12", u, "lr", 1e-12)
    for what, (part, update, a, b) in worst.items():
        print(f"{what}: worst {100 * part:.3g} % of the allowance, update {update}: {a!r}, PyTorch {b!r}")
    fall = 1 - theirs[-1]["loss"] / theirs[0]["loss"]
    print(f"the loss falls by {100 * fall:.0f} %, to {ours[-1]['loss']:.4f}")
    if not updates and 100 * fall < float(least):
        sys.exit(f"the loss does not fall by {least} %")
    if not all(part <= 1 for part, *_ in worst.values()):
        sys.exit("too far from PyTorch")


main(*sys.argv[1:])
