#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write PyTorch's answers for the tiny models of test/models other than GPT-2: losses and final weights of 20 updates.

As make_gpt2.py, whose pieces it uses, in the same formats. FAMILY-tiny holds the runs of one family: SGD with momentum
and AdamW, 8 samples per update, taken in order and from the start again at the end. Token models read
gpt2-tiny/tokens.bin; the others have their samples in FAMILY-tiny/samples, an array per input and one of labels: windows
of that text, and pictures of noise with a bright row that tells their class. With --model, answers for a larger export.
Needs the packages of tools/requirements-export.txt.
"""

import argparse
import copy
import json
import pathlib
import sys

import numpy
import onnx
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools"))
from export_families import FAMILIES  # noqa: E402
from make_gpt2 import batch, distance, make_optimizer, norm, write_lines, write_safetensors  # noqa: E402

ROWS, SAMPLES, UPDATES, SEQ = 8, 64, 20, 16
TOKENS = ("llama", "mlp")
CONFIGS = {
    "sgd": {"optimizer": {"type": "SGD", "params": {"lr": 0.05, "momentum": 0.9}}, "zero_allow_untested_optimizer": True},
    "adamw": {"optimizer": {"type": "AdamW", "params": {"lr": 0.002, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}}},
}

RATES = {("vit", "sgd"): 0.1}  # instead of those


def load_model(name, folder, dtype):
    """The module of an export, with its weights, and its parameters by exported name."""
    family = FAMILIES[name]
    architecture = family.architecture()
    if hasattr(architecture, "config_class"):
        config = architecture.config_class.from_json_file(folder / "config.json")
        config._attn_implementation = "eager"
    else:
        config = type(next(iter(family.presets.values())))(**json.loads((folder / "config.json").read_text()))
    model = architecture(config).eval().to(dtype)
    named = dict(model.named_parameters(remove_duplicate=False))
    parameters = {}
    with torch.no_grad():
        for tensor in onnx.load(folder / "model.onnx").graph.initializer:
            if tensor.name in named:
                named[tensor.name].copy_(torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy()))
                parameters[tensor.name] = named[tensor.name]
    if {id(p) for p in parameters.values()} != {id(p) for p in model.parameters()}:
        sys.exit(f"make_models.py: error: {folder}/model.onnx does not hold every parameter; export it without --optimize")
    return model, parameters, config


def make_samples(name, folder, config):
    """Inputs and labels of SAMPLES samples as .npy files."""
    random = torch.Generator().manual_seed(1)
    samples = FAMILIES[name].inputs(config, SAMPLES, SEQ, random)
    if name == "vit":  # noise of two classes, and a bright row where the label says
        labels = torch.randint(2, (SAMPLES,), generator=random)
        samples["pixel_values"][torch.arange(SAMPLES), :, labels] += 3
    else:
        text = numpy.fromfile(HERE / "gpt2-tiny/tokens.bin", dtype="<u2")[:SAMPLES * SEQ]
        ids = torch.from_numpy(text.reshape(SAMPLES, SEQ).astype(numpy.int64)) % config.vocab_size
        labels = ids[:, 0] % config.num_labels
        if name == "bert":  # a sixth of the tokens is hidden, and asked for
            asked = (torch.rand(ids.shape, generator=random) < 1 / 6) & samples["attention_mask"].bool()
            asked[:, 0] = True
            labels, ids = torch.where(asked, ids, -100), torch.where(asked, 0, ids)
        samples["input_ids"] = ids
    folder.mkdir(parents=True, exist_ok=True)
    for key, value in {**samples, "labels": labels}.items():
        numpy.save(folder / f"{key}.npy", value.numpy())


def take(samples, update):
    if isinstance(samples, numpy.ndarray):
        inputs, labels = batch(samples, SEQ, update, ROWS)
        return (inputs,), labels
    first = update % (SAMPLES // ROWS) * ROWS
    rows = {name: torch.from_numpy(array[first:first + ROWS]) for name, array in samples.items()}
    labels = rows.pop("labels")
    return tuple(rows.values()), labels


def train(name, folder, samples, config, dtype):
    model, parameters, _ = load_model(name, folder, dtype)
    optimizer = make_optimizer(config, list(parameters.values()))
    curve = []
    for update in range(UPDATES):
        inputs, labels = take(samples, update)
        logits = model(*(x.to(dtype) if x.is_floating_point() else x for x in inputs))
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        curve.append({"step": update + 1, "loss": loss.item(), "grad_norm": norm([p.grad for p in parameters.values()]),
                      "lr": config["optimizer"]["params"]["lr"]})
        optimizer.step()
    return curve, parameters


def make(name, folder, out, whole):
    _, _, config = load_model(name, folder, torch.float32)
    if name in TOKENS:
        samples = numpy.fromfile(HERE / "gpt2-tiny/tokens.bin", dtype="<u2") % config.vocab_size
    else:
        make_samples(name, out / "samples", config)
        names = [*FAMILIES[name].inputs(config, 1, SEQ, None), "labels"]
        samples = {key: numpy.load(out / "samples" / f"{key}.npy") for key in names}
    out.mkdir(parents=True, exist_ok=True)
    for run, settings in CONFIGS.items():
        settings = {"train_batch_size": ROWS, **copy.deepcopy(settings), "gradient_clipping": 0.0}
        params = settings["optimizer"]["params"]
        params["lr"] = RATES.get((name, run), params["lr"])
        (out / f"{run}.ds_config.json").write_text(json.dumps(settings, indent=2) + "\n")
        single, final = train(name, folder, samples, settings, torch.float32)
        double, final64 = train(name, folder, samples, settings, torch.float64)
        write_lines(out / f"{run}.jsonl",
                    [{**s, "loss_f64": d["loss"], "grad_norm_f64": d["grad_norm"]} for s, d in zip(single, double)])
        if whole:
            write_safetensors(out / f"{run}.weights.safetensors", final)
        noise = max(abs(s["loss"] - d["loss"]) / d["loss"] for s, d in zip(single, double))
        print(f"{name} {run}: loss {single[0]['loss']:.4f} -> {single[-1]['loss']:.4f}, fp32 within {noise:.1e} of f64 "
              f"(weights {distance(final, final64):.1e})", flush=True)


def main():
    known = [name for name in FAMILIES if name not in ("gpt2", "resnet")]  # these have scripts of their own
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  test/golden/make_models.py llama bert\n"
               "  tools/export_model.py bert --preset small --batch 2 --seq 16 --out /tmp/bert\n"
               "  test/golden/make_models.py bert --model /tmp/bert --out /tmp/bert/golden")
    parser.add_argument("families", nargs="+", choices=known, metavar="FAMILY", help=", ".join(known))
    parser.add_argument("--model", type=pathlib.Path, metavar="DIR", help="another export than test/models/FAMILY-tiny")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="for its answers, without weights")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="torch threads (default 2)")
    args = parser.parse_args()
    if bool(args.model) != bool(args.out):
        parser.error("--model and --out go together")
    torch.set_num_threads(args.threads)
    for name in args.families:
        folder = args.model or HERE.parent / f"models/{name}-tiny/dynamo"
        make(name, folder, args.out or HERE / f"{name}-tiny", not args.out)


if __name__ == "__main__":
    main()
