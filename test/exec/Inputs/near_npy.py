#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""near_npy.py OURS THEIRS ALLOWED: folders with the same f32 arrays, as L2 distances relative to THEIRS' norm."""

import array
import ast
import math
import pathlib
import sys


def read(path):
    raw = path.read_bytes()
    end = 10 + int.from_bytes(raw[8:10], "little")
    header = ast.literal_eval(raw[10:end].decode())
    if header["descr"] != "<f4":
        sys.exit(f"{path}: {header['descr']}, expected f32")
    return header["shape"], array.array("f", raw[end:])


def main(ours, theirs, allowed):
    names = [sorted(p.name for p in pathlib.Path(d).glob("*.npy")) for d in (ours, theirs)]
    if names[0] != names[1] or not names[0]:
        sys.exit(f"different arrays: {names}")
    for name in names[0]:
        (shape, a), (want, b) = read(pathlib.Path(ours) / name), read(pathlib.Path(theirs) / name)
        if shape != want:
            sys.exit(f"{name}: {shape}, expected {want}")
        distance = math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b)))
        norm = math.sqrt(math.fsum(y * y for y in b))
        if not norm > 0 or not distance <= float(allowed) * norm:
            sys.exit(f"{name}: differs by {distance} of {norm}")


main(*sys.argv[1:])
