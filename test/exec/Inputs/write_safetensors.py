#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""write_safetensors.py FILE [NAME DIMS VALUE,VALUE...]...: f32 tensors of these dims ("2x3")."""

import json
import struct
import sys

path, *rest = sys.argv[1:]
header, data = {}, b""
for name, dims, values in zip(rest[::3], rest[1::3], rest[2::3]):
    numbers = [float(v) for v in values.split(",")]
    start = len(data)
    data += struct.pack(f"<{len(numbers)}f", *numbers)
    header[name] = {"dtype": "F32", "shape": [int(d) for d in dims.split("x")], "data_offsets": [start, len(data)]}
head = json.dumps(header).encode()
with open(path, "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + data)
