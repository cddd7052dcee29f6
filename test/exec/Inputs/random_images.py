#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""random_images.py DIR SAMPLES CHANNELS SIZE CLASSES SEED: images.npy, of multiples of 1/64 in [-2, 2), and labels.npy."""
import pathlib
import random
import subprocess
import sys

folder, samples, channels, size, classes, seed = sys.argv[1], *map(int, sys.argv[2:])
random.seed(seed)
folder = pathlib.Path(folder)
folder.mkdir(parents=True, exist_ok=True)
write = pathlib.Path(__file__).parent / "write_npy.py"
pixels = random.randbytes(samples * channels * size * size)
for name, kind, dims, values in (
        ("images", "f32", f"{samples}x{channels}x{size}x{size}", ((p - 128) / 64 for p in pixels)),
        ("labels", "i64", f"{samples}", (random.randrange(classes) for _ in range(samples)))):
    subprocess.run([sys.executable, write, folder / f"{name}.npy", kind, dims, "-"], check=True, text=True,
                   input=" ".join(map(repr, values)))
