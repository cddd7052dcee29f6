#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake_gpu_programs.py DIR: programs for tools/gpu_check that go wrong: one row takes the device down, training hangs and leaves a
child behind that holds its output, and every Python package with libraries is empty but for one."""

import pathlib
import sys

KERNELS = """#!/bin/sh
echo '{"device": "Fake H200", "memory": 1024, "emulated": false}'
case "$*" in
"parity neg") exit 0;;
"parity -good -bad"*) echo '{"begin": "last"}'; echo '{"row": "last", "cases": 3, "failure": null}'; exit 0;;
parity*) echo '{"begin": "good"}'; echo '{"row": "good", "cases": 2, "failure": null}'; echo '{"begin": "bad"}'
  echo 'gpu_kernels: error: an illegal memory access' >&2; exit 3;;
esac
kill -SEGV $$
"""
TRAIN = """#!/bin/sh
case "$*" in
*--verbose*) echo "device cuda: Fake H200; cuBLASLt is missing, so"; echo "path $LD_LIBRARY_PATH"; exit 0;;
esac
sleep 300 &
echo $! > "$FAKE_CHILD"
exit 5
"""

root = pathlib.Path(sys.argv[1])
for name, text in (("bin/gpu_kernels", KERNELS), ("bin/dsexec", TRAIN), ("site/nvidia/cublas/lib/libcublasLt.so.13", "")):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
