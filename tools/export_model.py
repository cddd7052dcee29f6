#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export a PyTorch model to ONNX so that it can be trained: `export()` for any module, and a command for GPT-2.

What makes an export trainable, and what this script therefore does:

  * --no-optimize (the default): torch's graph optimiser merges small weights with equal values, drops zero biases and
    folds weights away, so a fresh model would come back with its LayerNorm scales tied together;
  * data inputs and logits only: no attention mask, no key/value cache, no loss;
  * parameters keep their state_dict names, and the metadata that the exporter records (module paths, which tensors
    are parameters) stays, except Python stack traces;
  * weights go to model.onnx.data, beside model.onnx.

The weights are a seeded random initialisation; nothing is downloaded. DIR receives model.onnx, model.onnx.data and
config.json (the Hugging Face configuration, from which the same module can be built again).
Needs the packages of tools/requirements-export.txt.
"""

import argparse
import contextlib
import dataclasses
import logging
import os
import pathlib
import sys
import warnings

REQUIREMENTS = "tools/requirements-export.txt"


@dataclasses.dataclass(frozen=True)
class Gpt2Shape:
    layers: int
    hidden: int
    heads: int
    vocab: int
    context: int


GPT2_PRESETS = {
    "tiny": Gpt2Shape(layers=2, hidden=32, heads=2, vocab=64, context=16),
    "small": Gpt2Shape(layers=4, hidden=128, heads=4, vocab=86, context=128),
    "124M": Gpt2Shape(layers=12, hidden=768, heads=12, vocab=50257, context=1024),
}


def build_gpt2(shape, seed=0, attention="eager", dropout=0.0):
    """A GPT2LMHeadModel (tied embedding) with seeded random weights that maps token ids to logits."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    class Gpt2(GPT2LMHeadModel):  # a subclass, not a wrapper, which would prefix every parameter name
        def forward(self, input_ids):
            return super().forward(input_ids, use_cache=False).logits

    Gpt2.__module__, Gpt2.__qualname__ = GPT2LMHeadModel.__module__, GPT2LMHeadModel.__qualname__  # as exports name it

    config = GPT2Config(
        n_layer=shape.layers, n_embd=shape.hidden, n_head=shape.heads, vocab_size=shape.vocab,
        n_positions=shape.context, embd_pdrop=dropout, attn_pdrop=dropout, resid_pdrop=dropout, use_cache=False,
        bos_token_id=0, eos_token_id=0, attn_implementation=attention)
    torch.manual_seed(seed)
    return Gpt2(config).train(dropout > 0)


def export(model, inputs, path, *, input_names=("input_ids",), output_names=("logits",), exporter="dynamo",
           optimize=False, opset=20, dynamic=None, external_data=True, stack_traces=False):
    """Write `model` called with the tuple `inputs` to `path`, and its weights to `path` + ".data".

    exporter   "dynamo" (torch.export) or "torchscript" (the older tracer).
    optimize   let the exporter fold and merge constants; for training this loses parameters.
    dynamic    symbolic dimensions per input name: {"input_ids": {0: "batch", 1: "seq"}}. The example inputs must then
               be larger than 1 along these dimensions, or torch.export takes the size for a constant.
    external_data=False keeps the weights inside `path` (2 GB at most).
    stack_traces=True keeps each node's Python stack: most of the file, and full of this machine's paths.
    """
    import onnx
    import torch

    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = path.with_name(path.name + ".data")
    data.unlink(missing_ok=True)  # onnx appends to a data file that is already there
    names = dict(input_names=list(input_names), output_names=list(output_names), opset_version=opset)

    if exporter == "dynamo":
        shapes = dynamic and tuple(
            {axis: torch.export.Dim(dim, min=2) for axis, dim in dynamic.get(name, {}).items()} for name in input_names)
        program = torch.onnx.export(model, tuple(inputs), dynamo=True, optimize=optimize, dynamic_shapes=shapes,
                                    verbose=False, **names)
        if not stack_traces:
            for graph in (program.model.graph, *program.model.functions.values()):
                for node in graph.all_nodes():
                    node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
        program.save(str(path), external_data=external_data)
    elif exporter == "torchscript":
        mode = torch.onnx.TrainingMode.EVAL if optimize else torch.onnx.TrainingMode.TRAINING
        with _no_packed_sequences(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this exporter is the older one, and that traces are traces
            torch.onnx.export(model, tuple(inputs), str(path), dynamo=False, do_constant_folding=optimize,
                              training=mode, dynamic_axes=dynamic, **names)
        if external_data:
            onnx.save_model(onnx.load(str(path)), str(path), save_as_external_data=True, location=data.name,
                            size_threshold=256)
            data.chmod(path.stat().st_mode)
    else:
        raise ValueError(f"exporter '{exporter}': must be 'dynamo' or 'torchscript'")
    sizes = {dim: example.shape[axis] for name, example in zip(input_names, inputs)
             for axis, dim in (dynamic or {}).get(name, {}).items()}
    if sizes:  # what dsplan takes where nobody says otherwise
        proto = onnx.load(str(path), load_external_data=False)
        for dim, size in sizes.items():
            proto.metadata_props.add(key=f"dim.{dim}", value=str(size))
        onnx.save_model(proto, str(path))


@contextlib.contextmanager
def _no_packed_sequences():
    """Hugging Face's masks look for packed sequences, by operators that the tracer exports wrongly or not at all."""
    import transformers.masking_utils as masks

    find = masks.find_packed_sequence_indices
    masks.find_packed_sequence_indices = lambda position_ids: None
    try:
        yield
    finally:
        masks.find_packed_sequence_indices = find


def check(model, inputs, path, tolerance=1e-4):
    """Largest difference between the output of `model` and of ONNX Runtime on the written file."""
    import numpy
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        want = model(*inputs).numpy()
    feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
    difference = float(numpy.abs(session.run(None, feed)[0] - want).max())
    if not difference <= tolerance:
        raise RuntimeError(f"{path}: ONNX Runtime and PyTorch differ by {difference:.3g} (more than {tolerance:g})")
    return difference


def gpt2(args, parser):
    shape = GPT2_PRESETS[args.preset]
    given = {f.name: getattr(args, f.name) for f in dataclasses.fields(shape) if getattr(args, f.name) is not None}
    shape = dataclasses.replace(shape, **given)
    seq = args.seq or shape.context
    for name, value in {**dataclasses.asdict(shape), "batch": args.batch, "seq": seq}.items():
        if value < 1:
            parser.error(f"--{name} {value}: must be at least 1")
    if shape.hidden % shape.heads:
        parser.error(f"--hidden {shape.hidden} is not a multiple of --heads {shape.heads}")
    if seq > shape.context:
        parser.error(f"--seq {seq} is longer than --context {shape.context}")
    if args.dynamic and min(args.batch, seq) < 2:
        parser.error("--dynamic needs --batch and --seq of 2 or more: a size of 1 is taken for a constant")
    if not 0 <= args.dropout < 1:
        parser.error(f"--dropout {args.dropout}: must be at least 0 and less than 1")

    import torch

    torch.set_num_threads(2)
    model = build_gpt2(shape, args.seed, args.attention, args.dropout)
    ids = torch.randint(shape.vocab, (args.batch, seq), generator=torch.Generator().manual_seed(args.seed))
    path = args.out / "model.onnx"
    export(model, (ids,), path, exporter=args.exporter, optimize=args.optimize, opset=args.opset,
           dynamic={"input_ids": {0: "batch", 1: "seq"}} if args.dynamic else None, external_data=args.external_data,
           stack_traces=args.stack_traces)
    model.config.save_pretrained(args.out)
    count = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{f.name} {f.stat().st_size} bytes" for f in sorted(args.out.glob("model.onnx*")))
    print(f"{args.out}: {count} parameters; {sizes}")
    if args.check and not args.dropout:
        shapes = (ids, ids[:1, :-1]) if args.dynamic else (ids,)
        print(f"{args.out}: differs from PyTorch by at most {max(check(model, (x,), path) for x in shapes):.3g}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
               "  tools/export_model.py gpt2 --preset small --dynamic --batch 8 --seq 64 --out models/gpt2-small\n"
               "  tools/export_model.py gpt2 --layers 6 --hidden 384 --heads 6 --vocab 96 --context 256 --out /tmp/m\n"
               "  tools/export_model.py gpt2 --preset 124M --dynamic --batch 4 --seq 256 --out /tmp/gpt2-124m")
    commands = parser.add_subparsers(dest="command", required=True, metavar="MODEL")
    p = commands.add_parser("gpt2", help="GPT-2 with a tied embedding (Hugging Face GPT2LMHeadModel)",
                            formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    model = p.add_argument_group("model (each option replaces that of the preset)")
    model.add_argument("--preset", choices=GPT2_PRESETS, default="small", help="sizes to start from")
    for name in ("layers", "hidden", "heads", "vocab"):
        model.add_argument(f"--{name}", type=int, metavar="N", default=argparse.SUPPRESS)
    model.add_argument("--context", type=int, metavar="N", default=argparse.SUPPRESS, help="rows of the position table")
    model.add_argument("--attention", choices=("eager", "sdpa"), default="eager", help="attention implementation")
    model.add_argument("--dropout", type=float, metavar="P", default=0.0,
                       help="dropout ratio; above 0 the model is exported in training mode")
    model.add_argument("--seed", type=int, metavar="S", default=0, help="seed of the random weights")
    graph = p.add_argument_group("graph")
    graph.add_argument("--batch", type=int, metavar="N", default=8, help="rows of the example input")
    graph.add_argument("--seq", type=int, metavar="N", default=argparse.SUPPRESS,
                       help="tokens per row (default: the context)")
    graph.add_argument("--dynamic", action="store_true", help="name batch and seq instead of fixing their sizes")
    graph.add_argument("--exporter", choices=("dynamo", "torchscript"), default="dynamo", help="torch's exporter")
    graph.add_argument("--optimize", action=argparse.BooleanOptionalAction, default=False,
                       help="fold and merge constants; not for training")
    graph.add_argument("--opset", type=int, choices=range(17, 24), metavar="17..23", default=20, help="ONNX opset")
    out = p.add_argument_group("output")
    out.add_argument("--out", type=pathlib.Path, metavar="DIR", required=True, default=argparse.SUPPRESS,
                     help="folder of the written files")
    out.add_argument("--external-data", action=argparse.BooleanOptionalAction, default=True,
                     help="weights in model.onnx.data, or inside model.onnx")
    out.add_argument("--stack-traces", action="store_true", help="keep each node's Python stack (dynamo)")
    out.add_argument("--check", action=argparse.BooleanOptionalAction, default=True,
                     help="compare the file with PyTorch by running it in ONNX Runtime")
    args = parser.parse_args()
    for name in ("layers", "hidden", "heads", "vocab", "context", "seq"):
        args.__dict__.setdefault(name, None)

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    try:
        import onnx, onnxruntime, onnxscript, torch, transformers  # noqa: E401, F401  fail before any work
    except ImportError as error:
        sys.exit(f"export_model.py: error: {error}; install the packages of {REQUIREMENTS}: "
                 f"pip install -r {REQUIREMENTS}")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    {"gpt2": gpt2}[args.command](args, p)


if __name__ == "__main__":
    main()
