#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same_state.py A B [TOLERANCE]: two checkpoint folders hold the same weights, states and scalars, whatever their ranks:
to the last bit, or floats within a tolerance relative to the tensor's largest element. Prints how many and the step."""
import json
import pathlib
import struct
import sys

CODES = {"f32": ("f", "F32"), "f64": ("d", "F64"), "i64": ("q", None)}


def numbers(code, data):
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def read(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    state = {s["name"]: numbers(CODES[s["dtype"]][0], bytes.fromhex(s["hex"])) for s in manifest["scalars"]}
    for t in manifest["tensors"]:
        code, dtype = CODES[t["dtype"]]
        values = []
        for begin, end, file in t["pieces"]:
            data = (folder / file).read_bytes()
            size = 8 + int.from_bytes(data[:8], "little")
            entry = json.loads(data[8:size])[f"{t['slot']}/{t['param']}"]
            assert entry["dtype"] == dtype and entry["shape"] == [end - begin] and begin == len(values)
            first, last = entry["data_offsets"]
            values += numbers(code, data[size + first:size + last])
        state[f"{t['slot']}/{t['param']}"] = tuple(values)
    return state


a, b = (read(pathlib.Path(p)) for p in sys.argv[1:3])
tolerance = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
if a.keys() != b.keys():
    sys.exit(f"{sorted(a)}, and {sorted(b)}")
for key in a:
    limit = tolerance * max(map(abs, b[key]))
    if len(a[key]) != len(b[key]) or any(not abs(x - y) <= limit for x, y in zip(a[key], b[key])):
        sys.exit(f"{key} is {a[key]}, and {b[key]}")
print(f"{len(a)} equal, step {a['step'][0]}")
