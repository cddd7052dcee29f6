# SPDX-License-Identifier: Apache-2.0
"""What tools/gpu_check carries to a machine that cannot build: programs, their libraries, models and golden values, as one .tar.gz."""

import pathlib
import re
import subprocess
import tarfile
import tempfile

from session import ROOT

PROGRAMS = ("dsexec", "dsplan", "gpu_kernels")
FILES = ("tools/gpu_check", "tools/export_families.py", "test/gpu", "test/bench/big_models.py", "test/bench/torch_gpt2.py",
         "test/exec/Inputs/compare_log.py", "test/exec/Inputs/random_images.py", "test/exec/Inputs/write_npy.py",
         "test/models/gpt2-tiny", "test/models/resnet18-narrow", "test/golden/gpt2-tiny", "test/golden/gpt2-small",
         "test/golden/resnet18-narrow", "models", "data")
# Every Linux has these, and they must be its own.
SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcuda|libresolv)[.\-]")
LIMIT = 64 << 20


def libraries(program):
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if found and not SYSTEM.match(found[1]):
            yield found[1], pathlib.Path(found[2]).resolve()


def pack(bin_dir, target):
    """Writes the file; says how large it is, and complains where it is too large to carry."""
    plugin = bin_dir.parent / "lib/libdscuda.so"
    missing = [str(p) for p in [plugin, *(bin_dir / name for name in PROGRAMS)] if not p.exists()]
    if missing:
        raise SystemExit(f"gpu_check: error: {', '.join(missing)}: not built (nvcc builds the plugin)")
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(target, "w:gz", compresslevel=6) as tar:
        def add(path, name):
            stripped = pathlib.Path(scratch) / "stripped"
            subprocess.run(["strip", "-o", stripped, path], check=True)
            tar.add(stripped, f"gpu_check/{name}")

        carried = {}
        for name in PROGRAMS:
            add(bin_dir / name, f"bin/{name}")
            carried.update(libraries(bin_dir / name))
        add(plugin, "lib/libdscuda.so")
        for name, path in sorted(carried.items()):
            add(path, f"lib/carried/{name}")
        for name in FILES:
            tar.add(ROOT / name, f"gpu_check/{name}", filter=lambda i: None if "__pycache__" in i.name else i)
    size = pathlib.Path(target).stat().st_size
    print(f"{target}: {size / 2**20:.1f} MiB; there: tar xzf {pathlib.Path(target).name} && python3 gpu_check/tools/gpu_check")
    if size > LIMIT:
        raise SystemExit(f"gpu_check: error: {target}: more than {LIMIT >> 20} MiB")
