#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write PyTorch's answers for ResNets of torchvision's own blocks, trained with batch normalisation.

`resnet-tiny` is exported to test/models/resnet-tiny by both exporters, one block per stage and 4 channels in the first; its
answers go to resnet-tiny/. `resnet18-narrow` is ResNet-18 with a sixteenth of its channels, by one exporter and with losses
alone as answers. Labels are random: what is compared is arithmetic. A run of more than one rank does as
DistributedDataParallel does: every rank normalises by its own rows and all keep the first rank's running statistics.

    RUN.jsonl                per update: loss, gradient norm, learning rate; _f64: the same run in f64
    RUN.weights.safetensors  weights and running statistics behind the last update
    RUN.eval.jsonl           the loss over all samples by the running statistics, behind the last update

`--full DIR` does the same with torchvision's ResNet-18: it leaves model and answers in DIR, which are too large to keep.
Needs the packages of tools/requirements-export.txt.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from export_families import FAMILIES  # noqa: E402
from export_model import build, export  # noqa: E402
from make_gpt2 import distance, make_optimizer, norm, write_lines, write_safetensors  # noqa: E402

UPDATES, CLASSES = 20, 10
# Ranks and learning rate: few rows per rank make noise grow fast.
RUNS = {"sgd": (1, 0.02), "sgd-4-ranks": (4, 0.004)}
NARROW_RUNS = {"sgd": (1, 0.001), "sgd-2-ranks": (2, 0.001), "sgd-4-ranks": (4, 0.001)}


def make_module(preset, size=None):
    shape = FAMILIES["resnet"].presets[preset]
    return build("resnet", dataclasses.replace(shape, labels=CLASSES, image=size or shape.image))


def backward(model, images, labels, ranks):
    """The mean loss; gradients of the mean over ranks; the first rank's running statistics stay."""
    model.zero_grad(set_to_none=True)
    before = {name: b.clone() for name, b in model.named_buffers()}
    first, total = {}, 0.0
    for rank in range(ranks):
        with torch.no_grad():
            for name, b in model.named_buffers():
                b.copy_(before[name])
        rows = slice(rank * len(images) // ranks, (rank + 1) * len(images) // ranks)
        loss = torch.nn.functional.cross_entropy(model(images[rows]), labels[rows]) / ranks
        loss.backward()
        total += loss.item()
        first = first or {name: b.clone() for name, b in model.named_buffers()}
    with torch.no_grad():
        for name, b in model.named_buffers():
            b.copy_(first[name])
    return total


def evaluate(model, images, labels):
    model.eval()
    with torch.no_grad():
        return torch.nn.functional.cross_entropy(model(images), labels).item()


def train(make_model, samples, config, ranks, dtype):
    model = make_model().to(dtype).train()
    images, labels = (torch.from_numpy(numpy.load(samples / f"{name}.npy")) for name in ("images", "labels"))
    images, rows = images.to(dtype), config["train_batch_size"]
    parameters = dict(model.named_parameters())
    optimizer = make_optimizer(config, list(parameters.values()))
    curve = []
    for update in range(UPDATES):
        first = update % (len(images) // rows) * rows
        loss = backward(model, images[first:first + rows], labels[first:first + rows], ranks)
        curve.append({"step": update + 1, "loss": loss, "grad_norm": norm([p.grad for p in parameters.values()]),
                      "lr": config["optimizer"]["params"]["lr"]})
        optimizer.step()
    tensors = {name: t for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}
    return curve, tensors, evaluate(model, images, labels)


def make(make_model, size, rows, samples, exports, out, data, runs=None, slower=1, weights=True):
    subprocess.run([sys.executable, ROOT / "test/exec/Inputs/random_images.py", data, str(samples), "3", str(size),
                    str(CLASSES), "1"], check=True)
    for exporter, folder in exports.items():
        export(make_model().eval(), (torch.zeros(rows, 3, size, size),), folder / "model.onnx", input_names=("images",),
               dynamic={"images": {0: "batch"}}, exporter=exporter, external_data=exporter == "dynamo", label=False)
    for run, (ranks, rate) in (runs or RUNS).items():
        config = {"train_batch_size": rows,
                  "optimizer": {"type": "SGD", "params": {"lr": rate / slower, "momentum": 0.9}},
                  "zero_allow_untested_optimizer": True, "gradient_clipping": 0.0}
        (out / f"{run}.ds_config.json").write_text(json.dumps(config, indent=2) + "\n")
        single, final, held = train(make_model, data, config, ranks, torch.float32)
        double, final64, held64 = train(make_model, data, config, ranks, torch.float64)
        write_lines(out / f"{run}.jsonl",
                    [{**s, "loss_f64": d["loss"], "grad_norm_f64": d["grad_norm"]} for s, d in zip(single, double)])
        if weights:
            write_lines(out / f"{run}.eval.jsonl", [{"loss": held, "loss_f64": held64}])
            write_safetensors(out / f"{run}.weights.safetensors", final)
        noise = max(abs(s["loss"] - d["loss"]) / d["loss"] for s, d in zip(single, double))
        print(f"{out.name} {run}: loss {single[0]['loss']:.4f} -> {single[-1]['loss']:.4f}, fp32 within {noise:.1e} of f64 "
              f"(weights {distance(final, final64):.1e}), evaluated {held:.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", type=pathlib.Path, metavar="DIR", help="ResNet-18 instead, into this folder")
    parser.add_argument("--size", type=int, default=64, metavar="N", help="extent of ResNet-18's images (default 64)")
    args = parser.parse_args()
    torch.set_num_threads(2)
    if args.full:
        args.full.mkdir(parents=True, exist_ok=True)
        make(lambda: make_module("18", args.size), args.size, 32, 64, {"dynamo": args.full}, args.full, args.full / "data",
             slower=16)
    else:
        for name in ("resnet-tiny", "resnet18-narrow"):
            (HERE / name).mkdir(exist_ok=True)
        tiny, narrow = HERE.parent / "models/resnet-tiny", HERE.parent / "models/resnet18-narrow"
        with tempfile.TemporaryDirectory() as data:
            make(lambda: make_module("tiny"), 32, 32, 64, {"dynamo": tiny, "torchscript": tiny / "torchscript"},
                 HERE / "resnet-tiny", pathlib.Path(data))
            make(lambda: make_module("18-narrow"), 64, 32, 64, {"dynamo": narrow}, HERE / "resnet18-narrow",
                 pathlib.Path(data), runs=NARROW_RUNS, weights=False)


if __name__ == "__main__":
    main()
