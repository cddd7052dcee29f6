#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cuda_golden.py PLUGINS OUT MODEL RUN UPDATES WORLD,... STAGE,...: the golden losses on the emulated CUDA device.

Trains test/models/MODEL by the golden configuration RUN for its first UPDATES updates on each number of ranks and stage,
compares losses and norms with PyTorch's, and the weights bit by bit: all stages where an update is one micro-batch,
else 0 with 1 and 2 with 3. Then, on the first number of ranks and the last stage, with recomputation, and with optimizer
states, updates, parameters and activations in host memory or on nvme: the same bits.
"""

import os
import pathlib
import subprocess
import sys

TEST = pathlib.Path(__file__).resolve().parents[2]
ROWS = 2  # of a micro-batch, in every export but the ResNets'
IMAGES = {"resnet-tiny": 32, "resnet18-narrow": 64}  # their extents


def main(plugins, out, model, run, updates, worlds, stages):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    images = IMAGES.get(model)
    data = f"tokens:{TEST}/golden/gpt2-tiny/tokens.bin"
    path = TEST / "models" / model / "dynamo" / "model.onnx"
    if images:
        subprocess.run([TEST / "exec/Inputs/random_images.py", out / "data", "64", "3", str(images), "10", "1"],
                       check=True)
        data, path = f"npy:{out}/data", TEST / "models" / model / "model.onnx"
    golden = TEST / "golden" / model
    batch = 32 if images else 8

    def train(name, world, stage, *flags):
        # A ResNet normalises by the rows of a micro-batch: as many as PyTorch had on one rank.
        rows = batch // world if images else ROWS
        log, weights = out / f"{name}.jsonl", out / f"{name}.safetensors"
        log.unlink(missing_ok=True)
        command = [
            "dsexec", path, "--config", golden / f"{run}.ds_config.json", "--world-size", world, "--stage", stage,
            "--micro-batch", rows, "--grad-accum", batch // world // rows, "--set", "stage3_param_persistence_threshold=0",
            "--loss", "ce:logits=logits,labels=labels", "--data", data, "--no-shuffle", "--steps", updates,
            "--device", "cuda", "--reduction", "exact", "--log-json", log, "--save-model", weights, *flags,
        ]  # fmt: skip
        env = dict(os.environ, DS_PLUGIN_DIR=plugins, DS_EMULATED_CHECKS="0")
        done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True)
        if done.returncode != 0 or "emulated on the CPU" not in done.stdout + done.stderr:
            sys.exit(f"{name}: {' '.join(map(str, command))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        subprocess.run([TEST / "exec/Inputs/compare_log.py", log, golden / f"{run}.jsonl", "0", str(updates)], check=True)
        return weights.read_bytes()

    def same(a, b, what):
        if a != b:
            sys.exit(f"{model}: {what}: the weights differ")
        print(f"{model}: {what}: equal bits")

    for world in worlds:
        bits = {s: train(f"{world}-{s}", world, s) for s in stages}
        one = images or batch == world * ROWS
        for a, b in zip(stages, stages[1:]):
            if one or {a, b} in ({0, 1}, {2, 3}):
                same(bits[a], bits[b], f"{world} ranks, stages {a} and {b}")
    world, stage = worlds[0], stages[-1]
    plain = (out / f"{world}-{stage}.safetensors").read_bytes()
    variants = {
        "recompute": ["--recompute", "layers"],
        "host": ["--offload-optimizer", "cpu", "--offload-param", "cpu", "--offload-activations", "."],
        "nvme": ["--offload-optimizer", "nvme", "--nvme-path", out],
    }
    for name, flags in variants.items():
        same(train(name, world, stage, *flags), plain, f"{world} ranks, stage {stage}, {name}")


numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
main(*sys.argv[1:5], int(sys.argv[5]), numbers(sys.argv[6]), numbers(sys.argv[7]))
