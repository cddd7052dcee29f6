#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""print_weights.py FILE.safetensors: one line per tensor, its name and its f32 or f64 values, shortest form."""

import json
import struct
import sys


def shortest(value, kind):
    """The fewest digits that give the same number of that type again."""
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if struct.pack(kind, float(text)) == struct.pack(kind, value):
            return text
    return repr(value)


with open(sys.argv[1], "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    data = f.read()
for name, tensor in sorted(header.items()):
    if name == "__metadata__":
        continue
    begin, end = tensor["data_offsets"]
    kind = {"F32": "<f", "F64": "<d"}[tensor["dtype"]]
    values = [v for (v,) in struct.iter_unpack(kind, data[begin:end])]
    print(name, *(shortest(v, kind) for v in values))
