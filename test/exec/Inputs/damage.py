#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damage.py flip|cut FILE: changes one bit of the last byte, or takes the last byte away."""
import sys

how, path = sys.argv[1:]
data = bytearray(open(path, "rb").read())
if how == "flip":
    data[-1] ^= 1
else:
    del data[-1]
open(path, "wb").write(data)
