#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same_log.py A.jsonl B.jsonl [TOLERANCE]: the same updates with the same losses, norms, rates and samples; losses and
norms within a relative tolerance, or to the last digit."""
import json
import sys

a, b = ([json.loads(line) for line in open(path)] for path in sys.argv[1:3])
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
if len(a) != len(b) or not a:
    sys.exit(f"{len(a)} updates, and {len(b)}")
for x, y in zip(a, b):
    for key in ("step", "lr", "skipped", "samples", "tokens"):
        if x[key] != y[key]:
            sys.exit(f"step {x['step']}: {key} is {x[key]}, and {y[key]}")
    for key in ("loss", "grad_norm"):
        if x[key] is None and y[key] is None:  # not finite, in a skipped update
            continue
        if not abs(x[key] - y[key]) <= tolerance * abs(y[key]):
            sys.exit(f"step {x['step']}: {key} is {x[key]}, and {y[key]}")
