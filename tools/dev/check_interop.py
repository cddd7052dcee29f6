#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that models written by dsexec are what others read: trains, writes ONNX and safetensors with --save-model, and
compares the loss of one batch as dsexec, ONNX Runtime and Hugging Face's from_pretrained compute it from these files.

  tools/dev/check_interop.py [--bin build/release/bin] [--updates 20] [MODEL-FOLDER...]

Needs onnx, onnxruntime, torch, transformers and safetensors. Without folders: the bundled model and all exports of test/models.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-5  # of the loss: f32 sums in another order


def dsexec(folder, model, arguments):
    command = [folder / "dsexec", model, "--optimizer", "adamw", "--loss", "ce:logits=logits,labels=labels",
               "--no-shuffle", *arguments]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")


def our_loss(folder, model, common, scratch):
    """Of the first rows, with the weights as they are in the file."""
    dsexec(folder, model, [*common, "--steps", 1, "--log-json", scratch / "loss.jsonl"])
    return json.loads((scratch / "loss.jsonl").read_text().splitlines()[0])["loss"]


def cross_entropy(logits, labels):
    return torch.nn.functional.cross_entropy(torch.tensor(logits).double().flatten(0, 1), torch.tensor(labels).flatten()).item()


def onnx_loss(model, ids, labels):
    onnx.checker.check_model(str(model))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    feeds = {i.name: ids for i in session.get_inputs()}
    return cross_entropy(session.run(["logits"], feeds)[0], labels)


def hf_loss(weights, config, ids, labels, scratch):
    folder = scratch / "hf"
    folder.mkdir()
    shutil.copy(config, folder / "config.json")
    shutil.copy(weights, folder / "model.safetensors")
    model, report = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    missing = sorted(report["missing_keys"])
    if missing:
        sys.exit(f"{weights}: from_pretrained misses {missing}")
    model.eval()
    with torch.no_grad():
        return cross_entropy(model(torch.tensor(ids)).logits.numpy(), labels)


def unchanged(before, after):
    """Everything but the data of tensors, and where it is."""
    def bare(path):
        model = onnx.load(path, load_external_data=False)
        for t in model.graph.initializer:
            for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
                          "external_data", "data_location"):
                t.ClearField(field)
        return model.SerializeToString(deterministic=True)
    return bare(before) == bare(after)


def batch(source, bundled):
    """Arguments that feed dsexec the first rows of a token file, and these rows."""
    stream = ROOT / ("data/train.bin" if bundled else "test/golden/gpt2-tiny/tokens.bin")
    dims = onnx.load(source, load_external_data=False).graph.input[0].type.tensor_type.shape.dim
    dynamic = bool(dims[0].dim_param)
    rows, seq = (8, 64) if dynamic else (dims[0].dim_value, dims[1].dim_value)
    tokens = np.fromfile(stream, dtype=np.uint16).astype(np.int64)
    window = lambda shift: np.stack([tokens[r * seq + shift:(r + 1) * seq + shift] for r in range(rows)])
    arguments = ["--data", f"tokens:{stream}", "--micro-batch", rows, *(["--dim", f"seq={seq}"] if dynamic else [])]
    return arguments, window(0), window(1)


def check(folder, bin_folder, updates):
    source = folder / "model.onnx"
    # An optimised export has merged parameters, and names that the exporter made: no file for from_pretrained.
    optimised = folder.name.endswith("-opt")
    config = json.loads((folder / "config.json").read_text())
    common, ids, labels = batch(source, config["vocab_size"] == 86)
    common += ["--tie-policy", "keep"] if optimised else []
    with tempfile.TemporaryDirectory() as d:
        scratch = pathlib.Path(d)
        written, weights = scratch / "out.onnx", scratch / "weights.safetensors"
        for path in (written, weights):
            dsexec(bin_folder, source, [*common, "--steps", updates, "--lr", 1e-3, "--save-model", path])
        losses = {
            "before": our_loss(bin_folder, source, common, scratch),
            "ours": our_loss(bin_folder, written, common, scratch),
            "ONNX Runtime": onnx_loss(written, ids, labels),
        }
        if not optimised:
            losses["Hugging Face"] = hf_loss(weights, folder / "config.json", ids, labels, scratch)
        same = unchanged(source, written)
    worst = max(abs(loss - losses["ours"]) / losses["ours"] for name, loss in losses.items() if name != "before")
    print(f"{folder.relative_to(ROOT)}: " + ", ".join(f"{k} {v:.7f}" for k, v in losses.items()) +
          f"; worst {worst:.1e}; graph {'unchanged' if same else 'CHANGED'}")
    return worst <= TOLERANCE and same and losses["ours"] < losses["before"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--updates", type=int, default=20)
    o = parser.parse_args()
    folders = o.folders or [ROOT / "models/gpt2-small", *sorted((ROOT / "test/models/gpt2-tiny").iterdir())]
    results = [check(f.resolve(), o.bin, o.updates) for f in folders]
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
