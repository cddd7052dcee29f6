#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_npy.py FILE.npy ROWS COLUMNS SEED [INFINITE-ROW]: f32 numbers in [-1, 1); one row may be infinite."""
import pathlib
import random
import subprocess
import sys

path, rows, columns, seed, *infinite = sys.argv[1:]
random.seed(int(seed))
values = [[random.uniform(-1, 1) for _ in range(int(columns))] for _ in range(int(rows))]
if infinite:
    values[int(infinite[0])] = [float("inf")] * int(columns)
subprocess.run([pathlib.Path(__file__).parent / "write_npy.py", path, "f32", f"{rows}x{columns}",
                *(repr(v) for row in values for v in row)], check=True)
