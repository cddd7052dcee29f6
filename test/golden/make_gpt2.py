#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write PyTorch's answers for the exported GPT-2 models: loss curves, gradients, final weights (formats: README.md).

Weights come from the exported model.onnx, not from a seed. Each run is described by a ds_config.json, which this script
follows as DeepSpeed does: AdamW and Adam are decoupled unless adam_w_mode is false, the norm is taken before clipping, and
update k (from 1) runs at scheduler tick max(0, k - 2). Samples are taken in order: update u (from 0) of B rows uses windows
u*B ... u*B+B-1 and starts again where an epoch cannot fill one more, window i being tokens i*T ... i*T+T (T inputs, the
labels one further).
Every run is done twice, in fp32 and in f64: the distance between the two is the noise that a comparison must allow.
Needs the packages of tools/requirements-export.txt.
"""

import argparse
import json
import math
import pathlib
import sys
import time

import numpy
import onnx
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UPDATES = 50
SAMPLED = 16  # entries kept per tensor of the small model


class Case:
    """A model, its token stream and its sequence length."""

    def __init__(self, name, model, tokens, seq, gradient_rows):
        self.name, self.model, self.tokens, self.seq, self.gradient_rows = name, model, tokens, seq, gradient_rows
        self.folder = HERE / name


CASES = {c.name: c for c in (
    Case("gpt2-tiny", ROOT / "test/models/gpt2-tiny/dynamo", HERE / "gpt2-tiny/tokens.bin", 16, 2),
    Case("gpt2-small", ROOT / "models/gpt2-small", ROOT / "data/train.bin", 64, 8),
)}


def load_model(folder, dtype):
    """The module of an exported GPT-2 and its parameters by exported name, which for the tied one may be the head's."""
    model = GPT2LMHeadModel(GPT2Config.from_json_file(folder / "config.json")).eval().to(dtype)
    named = dict(model.named_parameters(remove_duplicate=False))
    parameters = {}
    with torch.no_grad():
        for tensor in onnx.load(folder / "model.onnx").graph.initializer:
            named[tensor.name].copy_(torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()))
            parameters[tensor.name] = named[tensor.name]
    if {id(p) for p in parameters.values()} != {id(p) for p in model.parameters()}:
        sys.exit(f"make_gpt2.py: error: {folder}/model.onnx does not hold every parameter; export it without --optimize")
    return model, parameters


def batch(tokens, seq, update, rows):
    samples = (len(tokens) - 1) // seq
    first = update % (samples // rows) * rows  # an epoch's last samples that do not fill an update are dropped
    windows = [tokens[i * seq:i * seq + seq + 1] for i in range(first, first + rows)]
    window = torch.from_numpy(numpy.stack(windows).astype(numpy.int64))
    return window[:, :-1], window[:, 1:]


def backward(model, inputs, labels):
    logits = model(input_ids=inputs, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    model.zero_grad(set_to_none=True)
    loss.backward()
    return loss.item()


def norm(tensors):
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(t) for t in tensors])).item()


def learning_rate(config, update):
    """The rate of update `update` (from 1): DeepSpeed's WarmupLR at tick max(0, update - 2), or the constant rate."""
    rate = config["optimizer"]["params"]["lr"]
    if "scheduler" not in config:
        return rate
    scheduler = config["scheduler"]
    if scheduler["type"] != "WarmupLR":
        sys.exit(f"make_gpt2.py: error: scheduler '{scheduler['type']}' is not known here")
    params = scheduler["params"]
    low, high = params.get("warmup_min_lr", 0), params.get("warmup_max_lr", rate)
    steps, tick = max(2, params.get("warmup_num_steps", 1000)), max(0, update - 2)
    ramp = tick / steps if params.get("warmup_type", "log") == "linear" else math.log(tick + 1) / math.log(steps)
    return low + (high - low) * (ramp if tick < steps else 1)


def make_optimizer(config, parameters):
    kind, params = config["optimizer"]["type"].lower(), dict(config["optimizer"]["params"])
    if kind == "sgd":
        return torch.optim.SGD(parameters, foreach=False, **params)
    decoupled = params.pop("adam_w_mode", True) or kind == "adamw"
    adam = torch.optim.AdamW if decoupled else torch.optim.Adam
    return adam(parameters, foreach=False, **{"weight_decay": 0, **params})  # DeepSpeed's default, not torch's


def train(case, config, updates, dtype, after=lambda *_: None):
    model, parameters = load_model(case.model, dtype)
    tokens = numpy.fromfile(case.tokens, dtype="<u2")
    optimizer = make_optimizer(config, list(parameters.values()))
    clip = config.get("gradient_clipping", 1.0)  # DeepSpeed's default
    curve = []
    for update in range(updates):
        loss = backward(model, *batch(tokens, case.seq, update, config["train_batch_size"]))
        total = norm([p.grad for p in parameters.values()])
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters.values(), clip, foreach=False)
        rate = learning_rate(config, update + 1)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        curve.append({"step": update + 1, "loss": loss, "grad_norm": total, "lr": rate})
        after(curve[-1])
    return curve, model, parameters


def train_half(case, config, updates, half):
    """The losses of 16-bit training as DeepSpeed does it: a model of 16 bits, fp32 master weights in the optimizer. fp16
    has the fixed loss scale 1024."""
    model, parameters = load_model(case.model, torch.float32)
    masters = {n: torch.nn.Parameter(p.detach().clone()) for n, p in parameters.items()}
    model.to(half)
    parameters = {n: p for n, p in model.named_parameters(remove_duplicate=False) if n in masters}
    scale = 1024.0 if half == torch.float16 else 1.0
    tokens = numpy.fromfile(case.tokens, dtype="<u2")
    optimizer = make_optimizer(config, list(masters.values()))
    losses = []
    for update in range(updates):
        inputs, labels = batch(tokens, case.seq, update, config["train_batch_size"])
        logits = model(input_ids=inputs, use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        model.zero_grad(set_to_none=True)
        (loss * scale).backward()
        for name, master in masters.items():
            master.grad = parameters[name].grad.float() / scale
        optimizer.step()
        with torch.no_grad():
            for name, master in masters.items():
                parameters[name].copy_(master)
        losses.append(loss.item())
    return losses


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def sampled(name, single, double):
    """Norm and evenly spaced entries of a tensor, first and last included."""
    one, two = single.detach().flatten(), double.detach().flatten()
    index = [round(i * (one.numel() - 1) / (SAMPLED - 1)) for i in range(SAMPLED)]
    return {"name": name, "shape": list(single.shape), "norm": norm([one]), "norm_f64": norm([two]), "index": index,
            "value": one[index].tolist(), "value_f64": two[index].tolist()}


def write_safetensors(path, tensors):
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)


def distance(single, double):
    return max((single[n].double() - double[n]).abs().max().item() for n in single)


def make_gradients(case):
    tokens = numpy.fromfile(case.tokens, dtype="<u2")
    grads = {}
    for dtype in (torch.float32, torch.float64):
        model, parameters = load_model(case.model, dtype)
        loss = backward(model, *batch(tokens, case.seq, 0, case.gradient_rows))
        grads[dtype] = {n: p.grad for n, p in parameters.items()}
        print(f"{case.name} gradients {dtype}: loss {loss!r} norm {norm(grads[dtype].values())!r}")
    single, double = grads[torch.float32], grads[torch.float64]
    print(f"{case.name} gradients: fp32 within {distance(single, double):.1e} of f64")
    if case.name == "gpt2-tiny":
        write_safetensors(case.folder / "gradients.f32.safetensors", single)
        write_safetensors(case.folder / "gradients.f64.safetensors", double)
    else:
        write_lines(case.folder / "gradients.jsonl", [sampled(n, single[n], double[n]) for n in single])


def make_run(case, path, weights):
    config = json.loads(path.read_text())
    stem = path.name.removesuffix(".ds_config.json")
    start = time.perf_counter()
    single, _, final = train(case, config, UPDATES, torch.float32)
    seconds = time.perf_counter() - start
    double, _, final64 = train(case, config, UPDATES, torch.float64)
    rows = [{**s, "loss_f64": d["loss"], "grad_norm_f64": d["grad_norm"]} for s, d in zip(single, double)]
    if stem.endswith("-half"):
        for half, key in ((torch.bfloat16, "loss_bf16"), (torch.float16, "loss_fp16")):
            losses = train_half(case, config, UPDATES, half)
            for row, loss in zip(rows, losses):
                row[key] = loss
            apart = sum(abs(row["loss"] - row[key]) for row in rows) / len(rows)
            print(f"{case.name} {stem}: {key} lies {apart:.2e} from fp32 on average")
    write_lines(case.folder / f"{stem}.jsonl", rows)
    if case.name == "gpt2-tiny":
        write_safetensors(case.folder / f"{stem}.weights.safetensors", final)
    else:
        write_lines(case.folder / f"{stem}.weights.jsonl", [sampled(n, final[n], final64[n]) for n in final])
    if weights:
        write_safetensors(weights / f"{case.name}-{stem}.safetensors", final)
    noise = max(abs(s["loss"] - d["loss"]) for s, d in zip(single, double))
    drop = 1 - single[-1]["loss"] / single[0]["loss"]
    print(f"{case.name} {stem}: loss {single[0]['loss']:.4f} -> {single[-1]['loss']:.4f} ({drop:.0%} less), norm "
          f"{single[0]['grad_norm']:.3f} -> {single[-1]['grad_norm']:.3f}, fp32 within {noise:.1e} of f64 "
          f"(weights {distance(final, final64):.1e}), {seconds:.1f} s")


def evaluate(model, tokens, seq, rows=32):
    samples = (len(tokens) - 1) // seq
    total = 0.0
    with torch.no_grad():
        for first in range(0, samples, rows):
            count = min(rows, samples - first)
            inputs, labels = batch(tokens[first * seq:], seq, 0, count)
            logits = model(input_ids=inputs, use_cache=False).logits
            total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).item() * count
    return total / samples


def make_demo(updates):
    """The curve of models/gpt2-small/ds_config.json on 4 ranks, in fp32 only."""
    case = CASES["gpt2-small"]
    config = json.loads((case.model / "ds_config.json").read_text())
    config["train_batch_size"] = 4 * config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"]
    start = time.perf_counter()
    curve, model, _ = train(case, config, updates, torch.float32)
    seconds = time.perf_counter() - start
    write_lines(case.model / "golden-demo.jsonl", curve)
    last = sum(row["loss"] for row in curve[-20:]) / 20
    held_out = evaluate(model, numpy.fromfile(ROOT / "data/val.bin", dtype="<u2"), case.seq)
    print(f"demo: {updates} updates of {config['train_batch_size']} rows, loss {curve[0]['loss']:.4f} -> "
          f"{curve[-1]['loss']:.4f}, mean of the last 20 {last:.4f}, val.bin {held_out:.4f}, {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  test/golden/make_gpt2.py all\n  test/golden/make_gpt2.py gpt2-tiny --only adamw\n"
               "  test/golden/make_gpt2.py gpt2-small --weights build/golden")
    parser.add_argument("what", choices=("all", *CASES, "demo"), help="which files to write")
    parser.add_argument("--only", metavar="RUN", help="one run, named after its .ds_config.json")
    parser.add_argument("--weights", type=pathlib.Path, metavar="DIR", help="also write all final weights of each run here")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="torch threads (default 2)")
    parser.add_argument("--demo-updates", type=int, default=400, metavar="N", help="length of the demo (default 400)")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for case in CASES.values():
        if args.what not in ("all", case.name):
            continue
        runs = sorted(case.folder.glob((args.only or "*") + ".ds_config.json"))
        if not runs:
            parser.error(f"{case.folder} has no {args.only or '*'}.ds_config.json")
        if case.name == "gpt2-tiny":  # the first characters of the text, folded into the tiny vocabulary
            (numpy.fromfile(ROOT / "data/train.bin", dtype="<u2")[:8192] % 64).astype("<u2").tofile(case.tokens)
        if not args.only:
            make_gradients(case)
        for path in runs:
            make_run(case, path, args.weights)
    if args.what in ("all", "demo"):
        make_demo(args.demo_updates)


if __name__ == "__main__":
    main()
