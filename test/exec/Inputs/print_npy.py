#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""print_npy.py FILE.npy...: name, type, dimensions and numbers of each array, on a line."""

import array
import ast
import pathlib
import sys

for path in map(pathlib.Path, sys.argv[1:]):
    data = path.read_bytes()
    end = 10 + int.from_bytes(data[8:10], "little")
    assert data[:8] == b"\x93NUMPY\x01\x00" and end % 64 == 0, path
    head = ast.literal_eval(data[10:end].decode())
    kind = head["descr"][1:]
    numbers = array.array({"f4": "f", "f8": "d", "i8": "q", "i4": "i", "b1": "B"}[kind], data[end:])
    print(path.stem, kind, f"{head['shape']}:", *numbers)
