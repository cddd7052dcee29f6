#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export one tiny model of each family in every way, and compare what the importer makes of them.

For each family: both exporters, opsets 18 and 20, fixed and named dimensions, optimised or not. The first (torch.export, opset 20, not optimised) is
the reference; the others must be the same canonical graph up to names of values (test/frontend/Inputs/canonical.py), but
for optimised ones, of which the difference and the importer's warnings are printed. --write also writes the models that
are part of the tree, FAMILY-tiny/{dynamo,torchscript}. Needs the packages of tools/requirements-export.txt.

    test/models/make_exports.py --bin build/release/bin            # all families
    test/models/make_exports.py llama --write
"""

import argparse
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import export_model  # noqa: E402
from export_families import FAMILIES, Options  # noqa: E402

TIED = {"bert": "bert.embeddings.word_embeddings.weight=cls.predictions.decoder.weight",
        "gpt2": "transformer.wte.weight=lm_head.weight"}
WRITTEN = [name for name in FAMILIES if name not in ("gpt2", "resnet")]  # these have scripts of their own


# exporter, opset, named dimensions, optimised
SETTINGS = [(exporter, opset, named, optimize)
            for opset, named, optimize in ((20, False, False), (18, False, False), (20, True, False), (20, False, True),
                                           (18, False, True))
            for exporter in ("dynamo", "torchscript")]


def make(name, folder, exporter, opset, named, optimize):
    import torch

    family = FAMILIES[name]
    config = family.config(family.presets["tiny"], Options())
    model = export_model.build(name, config).eval()
    values = {key: value.clone() for key, value in model.state_dict().items()}
    examples = family.inputs(config, 2, 16, torch.Generator().manual_seed(0))
    export_model.export(model, examples.values(), folder / "model.onnx", input_names=tuple(examples), exporter=exporter,
                        opset=opset, optimize=optimize, external_data=exporter == "dynamo",
                        dynamic=family.dims if named else None, limits={"seq": 16},
                        label=name == "vit")  # two of its parameters have no role that would tell
    export_model.save_config(config, folder)
    export_model.check(model, tuple(examples.values()), folder / "model.onnx")
    if not optimize:
        check_values(values, folder / "model.onnx")


def check_values(values, path):
    """The tensors of the file are those the model had before it was exported, which may have run it."""
    import numpy
    import onnx

    for tensor in onnx.load(path).graph.initializer:
        if tensor.name in values and not numpy.array_equal(onnx.numpy_helper.to_array(tensor), values[tensor.name]):
            raise RuntimeError(f"{path}: {tensor.name} is not what the model has")


def imported(dsopt, name, folder):
    """The canonical module's file, and what the importer warns of."""
    out = folder / "canonical.dsir"
    sizes = {"batch": 2, "seq": 16}
    named = {dim for axes in FAMILIES[name].dims.values() for dim in axes.values()} if "named" in folder.name else ()
    command = [dsopt, folder / "model.onnx", *(f"--dim={dim}={sizes[dim]}" for dim in sorted(named))]
    with open(out, "w") as f:
        subprocess.run([*command, "--passes=canonicalize"], stdout=f, check=True)
    report = subprocess.run([*command, "--import-report"], capture_output=True, text=True, check=True)
    return out, [line for line in (report.stderr + report.stdout).splitlines() if "warning" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES), metavar="FAMILY")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of dsopt")
    parser.add_argument("--write", action="store_true", help="write the models of the tree")
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.families:
            reference = None
            for exporter, opset, named, optimize in SETTINGS:
                setting = f"{exporter} opset {opset}{' named' if named else ''}{' optimised' if optimize else ''}"
                folder = pathlib.Path(temporary) / name / setting.replace(" ", "-")
                make(name, folder, exporter, opset, named, optimize)
                if args.write and (opset, named, optimize) == (20, False, False) and name in WRITTEN:
                    target = ROOT / f"test/models/{name}-tiny/{exporter}"
                    shutil.rmtree(target, ignore_errors=True)
                    shutil.copytree(folder, target)
                graph, losses = imported(args.bin / "dsopt", name, folder)
                reference = reference or graph
                tied = ["--tied", TIED[name]] if name in TIED else []
                p = subprocess.run([ROOT / "test/frontend/Inputs/canonical.py", reference, graph, *tied],
                                   capture_output=True, text=True)
                print(f"{name}, {setting}: {'same' if p.returncode == 0 else 'differs'}", flush=True)
                for line in losses:
                    print(f"    {line}")
                if p.returncode and not optimize:
                    print("    " + "\n    ".join(p.stderr.splitlines()[2:22]))
                    failed = True
    if failed:
        sys.exit("exports that lose nothing differ")


if __name__ == "__main__":
    main()
