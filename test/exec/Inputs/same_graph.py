#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""same_graph.py A.onnx B.onnx: the files have the same bytes but for the data of initializers and where it is."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "conformance"))
from protos import fields  # noqa: E402

DATA = {4, 5, 7, 9, 10, 11, 13, 14}  # fields of a tensor that are or place its data


def bare(path):
    model = list(fields(open(path, "rb").read()))
    graph = [[(n, v) for n, v in fields(value) if n not in DATA] if number == 5 else (number, value)
             for number, value in fields(next(v for n, v in model if n == 7))]
    return [(n, v) for n, v in model if n != 7], graph


same = bare(sys.argv[1]) == bare(sys.argv[2])
print("graph unchanged" if same else "graph CHANGED")
sys.exit(not same)
