#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that includes go one way: frontend -> ir -> passes -> schedule -> runtime -> kernels.

Every C++ file belongs to one layer, by folder and name. A layer may include the project headers and the outside
libraries listed for it here, and nothing else; `core`, `runtime` and `kernels` so never see LLVM.
"""

import pathlib
import re
import subprocess
import sys

SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".def"}

# layer: (folder/name pattern); the first match wins.
LAYERS = [
    ("graph", r"ir/Graph[^/]*$"),
    ("core", r"ir/"),
    ("onnx_import", r"frontend/Onnx[^/]*$"),
    ("config", r"frontend/"),
    ("passes", r"passes/"),
    ("kernels_ref", r"kernels/ref/"),
    ("kernels_cpu", r"kernels/cpu/"),
    ("kernels_cuda", r"kernels/cuda/"),
    ("kernels_common", r"kernels/"),
    ("runtime", r"runtime/"),
    ("tools", r"tools/"),
    ("test", r"test/"),
]

# What kernels may take from core: element types and the quantum, the error type, the binned sum of norms, random numbers,
# the mark of arithmetic that devices share, bodies of pointwise ops.
KERNEL_CORE = r"ir/(DType|DTypes|Type|Status|Bins|Philox|HostDevice|PointwiseBody)\.(h|def)$"

# layer: layers it may include besides itself.
MAY_INCLUDE = {
    "core": [],
    "graph": ["core"],
    "config": ["core"],
    "onnx_import": ["core", "graph", "config"],
    "passes": ["core", "graph", "config"],
    "kernels_common": [],
    "kernels_ref": ["kernels_common"],
    "kernels_cpu": ["kernels_common"],
    "kernels_cuda": ["kernels_common"],
    "runtime": ["core"],
    "tools": None,  # all
    "test": None,
}

# Single headers that a layer may include besides.
EXTRA = {
    "kernels_common": KERNEL_CORE,
    "kernels_ref": KERNEL_CORE,
    "kernels_cpu": KERNEL_CORE,
    "kernels_cuda": KERNEL_CORE,
    "runtime": r"kernels/Kernel\.h$",
}

# Outside libraries: include pattern, and the layers that may use it. tools and test may use everything.
OUTSIDE = [
    (r"llvm(-c)?/", {"graph", "config", "onnx_import", "passes"}),
    (r"onnx/", {"onnx_import"}),
    (r"google/protobuf/", {"onnx_import", "runtime"}),
    (r"fmt/", {"passes", "runtime"}),
    (r"(oneapi/dnnl/|dnnl)", {"kernels_cpu"}),
    (r"hwy/", {"kernels_cpu"}),
    (r"omp\.h$", {"kernels_cpu", "runtime"}),
    (r"(mpi\.h|liburing)", {"runtime"}),
    (r"(cuda|cublas|cudnn|nccl|cub/|nvtx)", {"kernels_cuda"}),
]

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def layer_of(path):
    return next((layer for layer, pattern in LAYERS if re.match(pattern, path)), None)


def problem(path, layer, quote, header):
    target = layer_of(header)
    if target is not None:
        allowed = MAY_INCLUDE[layer]
        if target == layer or allowed is None or target in allowed:
            return None
        if layer in EXTRA and re.match(EXTRA[layer], header):
            return None
        return f"{layer} includes {header} of {target}"
    for pattern, users in OUTSIDE:
        if re.match(pattern, header):
            if layer in users or layer in ("tools", "test"):
                return None
            return f"{layer} includes {header}; only {', '.join(sorted(users))} may"
    if quote == '"' and pathlib.Path(path).parent.joinpath(header).exists():
        return f'"{header}" is relative; includes start at the repository root'
    return None


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    files = errors = 0
    for path in listed.stdout.splitlines():
        layer = layer_of(path)
        if layer is None or pathlib.PurePath(path).suffix not in SUFFIXES or not (root / path).exists():
            continue
        files += 1
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            text = match and problem(root / path, layer, *match.groups())
            if text:
                print(f"{path}:{number}: error: {text}")
                errors += 1
    print(f"check-layers: {files} files, {errors} error{'s' * (errors != 1)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
