#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""write_npy.py FILE.npy f32|f64|i64 DIMS VALUE...: an array of these dims ("4x3"); a single value fills it, and - reads
all from standard input."""

import struct
import sys

path, kind, dims, *values = sys.argv[1:]
values = sys.stdin.read().split() if values == ["-"] else values
shape = tuple(int(d) for d in dims.split("x"))
count = 1
for d in shape:
    count *= d
if len(values) == 1:
    values *= count
assert len(values) == count, f"{path}: {len(values)} values for {count} elements"
descr, code, number = {"f32": ("<f4", "f", float), "f64": ("<f8", "d", float), "i64": ("<i8", "q", int)}[kind]
header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(path, "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
    f.write(struct.pack(f"<{count}{code}", *(number(v) for v in values)))
