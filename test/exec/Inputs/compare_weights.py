#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_weights.py OURS.safetensors GOLDEN.safetensors ALLOWED [SKIP]: f32 tensors by name, as L2 distances.

Relative to the golden tensor's norm; names that contain SKIP are left out. Prints the worst as a percentage of ALLOWED.
"""

import array
import json
import math
import struct
import sys


def read(path):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), f.read()
    header.pop("__metadata__", None)
    return {name: array.array("f", data[t["data_offsets"][0]:t["data_offsets"][1]]) for name, t in header.items()}


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def main(ours, golden, allowed, skip=None):
    ours, golden = read(ours), read(golden)
    if set(ours) != set(golden) or not golden:
        sys.exit(f"different tensors: {sorted(set(ours) ^ set(golden))[:10]}")
    worst = (-1.0, "")
    for name, want in golden.items():
        if len(ours[name]) != len(want):
            sys.exit(f"{name}: {len(ours[name])} elements, PyTorch {len(want)}")
        if skip is None or skip not in name:
            difference = norm(a - b for a, b in zip(ours[name], want)) / max(norm(want), 1e-30)
            worst = max(worst, (difference if difference == difference else math.inf, name))
    print(f"{len(golden)} tensors, worst {100 * worst[0] / float(allowed):.3g} % of {allowed}, {worst[1]}")
    if not worst[0] <= float(allowed):
        sys.exit("too far from PyTorch")


main(*sys.argv[1:])
