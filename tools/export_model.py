#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Export a PyTorch model to ONNX so that it can be trained: `export()` for any module, and a command for each family.

What makes an export trainable, and what this script therefore does:

  * --no-optimize (the default): torch's graph optimiser merges small weights with equal values, drops zero biases and
    folds weights away, so a fresh model would come back with its LayerNorm scales tied together;
  * data inputs and logits only: no key/value cache, no loss;
  * parameters keep their state_dict names, and the metadata that the exporter records (module paths, which tensors
    are parameters) stays, except Python stack traces;
  * weights go to model.onnx.data, beside model.onnx.

The weights are a seeded random initialisation, or those of a Hugging Face folder (--from); nothing is downloaded. DIR
receives model.onnx, model.onnx.data and config.json (the configuration, from which the same module can be built again).
Families and their presets are rows of export_families.py. Needs the packages of tools/requirements-export.txt.
"""

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from export_families import FAMILIES, Options  # noqa: E402

REQUIREMENTS = "tools/requirements-export.txt"


def export(model, inputs, path, *, input_names=("input_ids",), output_names=("logits",), exporter="dynamo",
           optimize=False, opset=20, dynamic=None, limits=None, external_data=True, stack_traces=False, label=True):
    """Write `model` called with the tuple `inputs` to `path`, and its weights to `path` + ".data".

    exporter   "dynamo" (torch.export) or "torchscript" (the older tracer).
    optimize   let the exporter fold and merge constants; for training this loses parameters.
    dynamic    symbolic dimensions per input name: {"input_ids": {0: "batch", 1: "seq"}}. The example inputs must then
               be larger than 1 along these dimensions, or torch.export takes the size for a constant.
    limits     the largest size of a symbolic dimension, where the model has one: {"seq": 1024}.
    external_data=False keeps the weights inside `path` (2 GB at most).
    stack_traces=True keeps each node's Python stack: most of the file, and full of this machine's paths.
    label      say which tensors are parameters, as torch.export does by itself ("torchscript").
    Parameters made by without_weights() become references to a data file that is not written (dynamo).
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
            {axis: torch.export.Dim(dim, min=2, max=(limits or {}).get(dim)) for axis, dim in dynamic.get(name, {}).items()}
            for name in input_names)
        program = torch.onnx.export(model, tuple(inputs), dynamo=True, optimize=optimize, dynamic_shapes=shapes,
                                    verbose=False, **names)
        if not stack_traces:
            for graph in (program.model.graph, *program.model.functions.values()):
                for node in graph.all_nodes():
                    node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
        if _refer_to_missing_data(program.model, data.name):
            import onnx_ir

            onnx_ir.save(program.model, path)  # program.save would copy the weights to another file
        else:
            program.save(str(path), external_data=external_data)
    elif exporter == "torchscript":
        mode = torch.onnx.TrainingMode.EVAL if optimize else torch.onnx.TrainingMode.TRAINING
        with _no_packed_sequences(), _restored_buffers(model) as moved, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this exporter is the older one, and that traces are traces
            torch.onnx.export(model, tuple(inputs), str(path), dynamo=False, do_constant_folding=optimize,
                              training=mode, dynamic_axes=dynamic, **names)
        proto = onnx.load(str(path))
        for tensor in proto.graph.initializer:
            if tensor.name in moved:
                tensor.CopyFrom(onnx.numpy_helper.from_array(moved[tensor.name].numpy(), tensor.name))
        if label:
            _label(proto, model)
        onnx.save_model(proto, str(path), save_as_external_data=external_data, location=data.name, size_threshold=256)
        if external_data:
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


def _label(proto, model):
    """Give initializers the labels that torch.export gives: without them a reader has to guess."""
    kinds = {name: "BUFFER" for name, _ in model.named_buffers(remove_duplicate=False)}
    kinds |= {name: "PARAMETER" for name, _ in model.named_parameters(remove_duplicate=False)}
    for tensor in proto.graph.initializer:
        if tensor.name in kinds:
            tensor.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kinds[tensor.name])
    proto.ir_version = max(proto.ir_version, 10)  # the first that has such properties


@contextlib.contextmanager
def _restored_buffers(model):
    """Tracing in training mode moves running statistics: those that it moved, by name, as they were and are again."""
    before, moved = {name: buffer.clone() for name, buffer in model.named_buffers()}, {}
    try:
        yield moved
    finally:
        for name, buffer in model.named_buffers():
            if not buffer.equal(before[name]):
                moved[name] = buffer.copy_(before[name])


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
    import copy

    import numpy
    import onnx
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    # ConstantSharing makes equal vectors one, and batch normalisation in training mode writes its statistics in place: into
    # the scale and bias of a fresh model.
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"],
                                           disabled_optimizers=["ConstantSharing"])
    # The older exporter writes batch normalisation as training computes it, so that none is folded into a convolution.
    graph = onnx.load(path, load_external_data=False).graph
    trains = any(a.name == "training_mode" and a.i for n in graph.node if n.op_type == "BatchNormalization"
                 for a in n.attribute)
    compared = copy.deepcopy(model).train() if trains else model
    with torch.no_grad():
        want = compared(*inputs).numpy()
    feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
    difference = float(numpy.abs(session.run(None, feed)[0] - want).max())
    if not difference <= tolerance:
        raise RuntimeError(f"{path}: ONNX Runtime and PyTorch differ by {difference:.3g} (more than {tolerance:g})")
    return difference


def build(family, config, *, seed=0, weights=True):
    """A module of the configuration with seeded random weights, or with shapes alone."""
    import torch

    torch.manual_seed(seed)
    with contextlib.nullcontext() if weights else without_weights():
        return FAMILIES[family].architecture()(config)


@contextlib.contextmanager
def without_weights():
    """Parameters of modules that are made meanwhile have shapes, but no storage; buffers keep their values."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    mode, register = FakeTensorMode(allow_non_fake_inputs=True), torch.nn.Module.register_parameter

    def register_fake(module, name, parameter):
        if parameter is not None and not isinstance(parameter, FakeTensor):  # a tied one comes twice
            with mode:
                parameter = torch.nn.Parameter(torch.empty_like(parameter, device="cpu"), parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = register_fake
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def _refer_to_missing_data(model, location):
    """Initializers without storage become references into `location`, one behind the other; their number."""
    import onnx_ir
    from torch._subclasses.fake_tensor import FakeTensor

    offset = count = 0
    for value in model.graph.initializers.values():
        if isinstance(value.const_value.raw, FakeTensor):
            size = value.const_value.nbytes
            value.const_value = onnx_ir.ExternalTensor(
                location, offset, size, dtype=value.dtype, shape=value.const_value.shape, name=value.name)
            offset, count = offset + size, count + 1
    return count


def check_sizes(args, shape, parser):
    for name, value in {**(dataclasses.asdict(shape) if shape else {}), "batch": args.batch}.items():
        if value < 1:
            parser.error(f"--{name.replace('_', '-')} {value}: must be at least 1")
    for whole, part in (("hidden", "heads"), ("heads", "kv_heads"), ("image", "patch")):
        have, by = getattr(shape, whole, 0), getattr(shape, part, 1)
        if have % by:
            parser.error(f"--{whole} {have} is not a multiple of --{part.replace('_', '-')} {by}")
    if not 0 <= args.dropout < 1:
        parser.error(f"--dropout {args.dropout}: must be at least 0 and less than 1")
    if args.no_weights and args.exporter != "dynamo":
        parser.error("--no-weights needs --exporter dynamo: the tracer runs the model")


def configure(family, args, parser):
    """The configuration that the options ask for."""
    options = Options(args.attention, args.dropout)
    given = {name: getattr(args, name) for name in vars(args) if name in args.size_names}
    if not args.source:
        shape = dataclasses.replace(family.presets[args.preset], **given)
        check_sizes(args, shape, parser)
        return family.config(shape, options)
    check_sizes(args, None, parser)
    if given:
        parser.error(f"--{next(iter(given)).replace('_', '-')} and --from {args.source}: sizes are those of the folder")
    config_class = getattr(family.architecture(), "config_class", None)
    if not config_class:
        parser.error(f"--from {args.source}: {args.family} is no model of Hugging Face")
    if not (args.source / "config.json").is_file():
        parser.error(f"--from {args.source}: there is no config.json")
    return config_class.from_pretrained(args.source, attn_implementation=options.attention, local_files_only=True)


def make(args, config):
    if args.source and not args.no_weights:
        return FAMILIES[args.family].architecture().from_pretrained(args.source, config=config, local_files_only=True)
    return build(args.family, config, seed=args.seed, weights=not args.no_weights)


def save_config(config, folder):
    if hasattr(config, "save_pretrained"):
        config.save_pretrained(folder)
    else:
        (folder / "config.json").write_text(json.dumps(dataclasses.asdict(config), indent=2) + "\n")


def run(args, parser):
    import torch

    torch.set_num_threads(2)
    family = FAMILIES[args.family]
    config = configure(family, args, parser)
    longest = getattr(config, "max_position_embeddings", None)
    seq = args.seq or longest or 128
    if seq < 1 or longest and seq > longest:
        parser.error(f"--seq {seq}: must be at least 1" + (f" and at most {longest}, the context" if longest else ""))
    if args.dynamic and (args.batch < 2 or seq < 2):
        parser.error("--dynamic needs --batch and --seq of 2 or more: a size of 1 is taken for a constant")

    model = make(args, config).train(args.dropout > 0)
    examples = family.inputs(config, args.batch, seq, torch.Generator().manual_seed(args.seed))
    inputs = tuple(examples.values())
    path = args.out / "model.onnx"
    export(model, inputs, path, input_names=tuple(examples), exporter=args.exporter, optimize=args.optimize,
           opset=args.opset, dynamic=family.dims if args.dynamic else None, limits={"seq": longest} if longest else None,
           external_data=args.external_data, stack_traces=args.stack_traces, label=args.label)
    save_config(config, args.out)
    count = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{f.name} {f.stat().st_size} bytes" for f in sorted(args.out.glob("model.onnx*")))
    print(f"{args.out}: {count} parameters; {sizes}")
    if args.check and not args.dropout and not args.no_weights:
        tried = [inputs]
        if args.dynamic:
            axes = [family.dims[name] for name in examples]
            tried.append(tuple(x[tuple(slice(0, -1) if a in ax else slice(None) for a in range(x.dim()))]
                               for x, ax in zip(inputs, axes)))
        print(f"{args.out}: differs from PyTorch by at most {max(check(model, x, path) for x in tried):.3g}")


def add_command(commands, name, family):
    p = commands.add_parser(name, help=family.summary, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    model = p.add_argument_group("model (each option replaces that of the preset)")
    first = "small" if "small" in family.presets else next(iter(family.presets))
    model.add_argument("--preset", choices=family.presets, default=first, help="sizes to start from")
    sizes = [f.name for f in dataclasses.fields(family.presets[first])]
    for size in sizes:
        model.add_argument("--" + size.replace("_", "-"), type=int, metavar="N", default=argparse.SUPPRESS)
    p.set_defaults(size_names=sizes, attention="eager", dropout=0.0, seq=None, source=None)
    model.add_argument("--from", dest="source", type=pathlib.Path, metavar="DIR", default=argparse.SUPPRESS,
                       help="a Hugging Face folder instead: its config.json, and its weights")
    model.add_argument("--no-weights", action="store_true",
                       help="shapes alone: model.onnx refers to a data file that is not written (dynamo)")
    if "attention" in family.features:
        model.add_argument("--attention", choices=("eager", "sdpa"), default="eager", help="attention implementation")
    if "dropout" in family.features:
        model.add_argument("--dropout", type=float, metavar="P", default=0.0,
                           help="dropout ratio; above 0 the model is exported in training mode")
    model.add_argument("--seed", type=int, metavar="S", default=0, help="seed of the random weights")
    graph = p.add_argument_group("graph")
    graph.add_argument("--batch", type=int, metavar="N", default=8, help="rows of the example input")
    if "tokens" in family.features:
        graph.add_argument("--seq", type=int, metavar="N", default=argparse.SUPPRESS,
                           help="tokens per row (default: the context, or 128)")
    named = sorted({dim for axes in family.dims.values() for dim in axes.values()})
    graph.add_argument("--dynamic", action="store_true", help=f"name {' and '.join(named)} instead of fixing the size")
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
    out.add_argument("--label", action=argparse.BooleanOptionalAction, default=True,
                     help="say which tensors are parameters (torchscript)")
    out.add_argument("--check", action=argparse.BooleanOptionalAction, default=True,
                     help="compare the file with PyTorch by running it in ONNX Runtime")
    return p


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
               "  tools/export_model.py gpt2 --preset small --dynamic --batch 8 --seq 64 --out models/gpt2-small\n"
               "  tools/export_model.py gpt2 --layers 6 --hidden 384 --heads 6 --vocab 96 --context 256 --out /tmp/m\n"
               "  tools/export_model.py llama --preset llama-70b --no-weights --batch 1 --out /tmp/llama-70b")
    commands = parser.add_subparsers(dest="family", required=True, metavar="MODEL")
    parsers = {name: add_command(commands, name, family) for name, family in FAMILIES.items()}
    args = parser.parse_args()

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    try:
        import onnx, onnxruntime, onnxscript, torch, transformers  # noqa: E401, F401  fail before any work
    except ImportError as error:
        sys.exit(f"export_model.py: error: {error}; install the packages of {REQUIREMENTS}: "
                 f"pip install -r {REQUIREMENTS}")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    run(args, parsers[args.family])


if __name__ == "__main__":
    main()
