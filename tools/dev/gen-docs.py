#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md, kernels.md, config.md and targets.md from the tables (*.def); --check only compares."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"b": "bool", "i": "int", "f": "float", "s": "text", "is": "ints"}

OPS_HEAD = """# Core ops

Written by `tools/dev/gen-docs.py` from `ir/Ops.def`. What an op refuses stands at its shape rule (`ir/Shapes*.cpp`);
the message ends with the rule's label, such as `[matmul_2]`. Operands never convert and never broadcast unless the
meaning says so; the arithmetic and comparing ops of two operands, `where` and the logical ops broadcast as in numpy.
`float` is any floating-point type, `int` any integer type, `any` every type of `ir/DTypes.def`; the types are those
of operand 0, or of the result where there are no operands. A negative `axis` counts from the end. An attribute
without a default must be given, except a bool, which defaults to false. Statistics, losses and accumulators have the
accumulate type: f64 for f64, else f32. Scalars of the update: `lr` and `decay` are f64[groups], `skip` is bool[],
`step` is i64[], the others f64[].

A result of the elementwise ops may take the place of any operand of its layout that is not read again; where a row says *over
operand 0*, the first result may take that one's. Kernels of all devices keep to it.
"""

KERNELS_HEAD = """# Kernels

Written by `tools/dev/gen-docs.py` from `kernels/Kernels.def`: the types of operand 0 (of the result for ops without
operands) that each device has a kernel for. `cpu` takes the `ref` kernel where it has none; `cuda` cannot ([cuda.md](cuda.md)). Views and collectives are
no launches and have no kernels.

`ref` is the numeric specification: loops in row-major order over any strides, sums in double, transcendental
functions in double with one rounding, 16-bit types computed in f32 and rounded to nearest even when stored.
Optimizers follow the operation sequence of `kernels/OptimizerMath.h` on every device.

"""

CONFIG_HEAD = """# Config

Written by `tools/dev/gen-docs.py` from `frontend/Config.def`. The config file is DeepSpeed's `ds_config.json`, with its
keys and the defaults of 0.19.6, plus our own block `"dsplan"`. Comments (`//`, `/* */`, `#`) and trailing commas are
fine, as in DeepSpeed, which reads the file as Hjson; keys and text need their quotes. A key that stands twice in one
object is an error that shows both places. Whole numbers may be written as `5e8`. `dsplan --emit config` prints the
resolved config with the origin of every value (a place in the file, a flag, derived, default), and what it prints is a
config file again.

`"auto"`, which Hugging Face's Trainer fills in, is answered as the Trainer does where that can be known: batch sizes by
the other sizes; `lr` by `--lr`; `warmup_max_lr` by the optimizer's `lr`; `total_num_steps` by `dsexec --steps`; with h, the hidden
size that the model's matrices show, `reduce_bucket_size` is h x h, `stage3_prefetch_bucket_size` 0.9 h x h and
`stage3_param_persistence_threshold` 10 h. Betas, eps, weight decay, clipping and the lowest warm-up rate have the default,
which is also the Trainer's. Where nothing answers (`lr`, `warmup_num_steps`, `stage`), `dsexec` says what to write, and
`dsplan` takes the default and says so; both refuse a `total_num_steps` that nothing gives, and bucket keys that matter at
the stage when the model shows no hidden size.

Every accepted key is used or listed as having no effect. An unknown key is an error that names the nearest known one;
`--allow-unknown PATH` admits it and all below it. `--set KEY=VALUE` takes the path, its last part where only one key
has it, or the short name, and wins over the file. Other flags fill what the file leaves out; a flag that contradicts
the file is an error.

Where we differ from DeepSpeed on purpose:

- Unknown keys are errors everywhere; DeepSpeed ignores them at top level.
- Batch sizes that do not divide evenly are refused with the nearest that do; DeepSpeed rounds down and then complains.
- A bucket has one size for gathering and reducing: the smaller of `reduce_bucket_size` and `allgather_bucket_size`.
- `overlap_comm` is on at every stage; DeepSpeed's default is on at stage 3 only. It never changes the numbers.
- `activation_checkpointing` sets how a model's calls of `checkpoint()` work. An ONNX model has none, so the block, even if
  empty, means `dsplan.recompute` `auto`: values are recomputed as far as the device's memory asks for, and no weight changes
  by it. Without a target or `device_memory` everything is kept. `cpu_checkpointing` is refused; its other keys have no effect.
- `steps_per_print` is 10; DeepSpeed's default is never.
- `zero_allow_untested_optimizer` is not needed: every optimizer works at every stage.
- Gradients are averaged over the labels of the whole window (`ignore_index` counts), not as a mean of means.
- Without a batch size, `dsplan` assumes a micro-batch of 1 and says so.

"""

TARGETS_HEAD = """# Targets

Written by `tools/dev/gen-docs.py` from `frontend/Targets.def`. `--target NAME` or `--target FILE.json` (`"dsplan": {"target":
...}` in the config) names the device that a plan is for: `dsplan` then says for every stage whether it fits, how much is
spare, or what is in the way, and ends with exit code 2 if the chosen stage does not fit; `dsexec` does not start then.
`--device-memory 24GiB` gives or changes the memory alone.

    dsplan model.onnx --stage 3 --world-size 8 --target a100-80
    dsplan --params 7e9 --world-size 8 --target rtx4090

What contexts of the runtime and its libraries take lies outside of a plan: it is deducted, as a line of its own;
`--memory-reserve` changes it. Memory in GiB as drivers report it; rates are those of the vendors' data sheets, of dense
matrix products in TFLOP/s, of memory, of the link to the neighbours in a server, of the network out of it (per rank), of the link to main memory (each one way)
and of main memory (per rank) in GB/s; a step of a collective takes at least `hop`, in us. `ranks` share a machine, its main memory and
its network: a collective of more ranks runs as a ring through all machines, over all adapters of each, at the lower rate of link and
network. `--set ranks_per_machine=N` changes it. With rates `dsplan` gives the least
times for computing and sending, which real runs exceed, and predicts an update ([timeline.md](timeline.md)). `cpu` is this machine: memory and rates are divided by the number of
ranks. Its rates are those of 2 cores of one server, whatever the machine, so that plans are the same everywhere; below is how to
measure your own.

| name | memory | contexts | host | memory rate | link | ranks | network | f32 | 16-bit | host link | host rate | hop | |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""

TARGETS_FILE = """The same as JSON, with comments if you like. Only `device_memory` must be there. Sizes are numbers of bytes or
text with a unit; unknown keys are errors.

    { "device_memory": "48GiB", "reserve": "1GiB", "link_bytes_per_second": 25e9 } // two boards of our own

Times of instructions need the rates of memory and of both products, and the link's if there are several ranks; for the
rest there are defaults, of usual boards. A curve replaces the computed rate of one op
on one type of first operand, or the whole time of one collective: `"curves": {"softmax f32": [[1e6, 9e9], [1e8, 5e9]]}`. Between
the sizes it is interpolated; below the smallest the time stays level, above the largest the rate.

`dsexec --measure-target FILE.json [--world-size N] [--threads T]` writes such a file for this machine: it trains a few small
models on N ranks, in f32 and bf16, and keeps the best time of every instruction, which other work on the machine disturbs least.
"""


def split_args(text):
    """The arguments of a macro call, split at commas outside of strings."""
    return [a.strip() for a in re.findall(r'((?:"(?:[^"\\]|\\.)*"|[^,"])+)', text)]


def unquote(text):
    return text[1:-1].replace('\\"', '"')


def ops():
    """Yields ("section", title) and ("op", fields, comment)."""
    for line in (ROOT / "ir" / "Ops.def").read_text().splitlines():
        if head := re.match(r"// -- (.*?) -+$", line):
            yield "section", head[1], None
        elif row := re.match(r"OP\((.*)\)\s*// (\(.*)$", line):
            yield "op", split_args(row[1]), row[2]
        elif line.startswith("OP("):
            sys.exit(f"ir/Ops.def: no comment of the form (operands)[ -> results]: meaning\n  {line}")


def kernels(macro):
    text = (ROOT / "kernels" / "Kernels.def").read_text()
    found = {}
    for row in re.findall(rf'^{macro}(?:_STATE|_WORK)?\((".*)\)', text, re.M):
        args = split_args(row)
        found.setdefault(unquote(args[0]), []).append(unquote(args[1]).replace("*", "any"))
    return {op: ", ".join(t for types in rows for t in types.split()) for op, rows in found.items()}


def attributes(spec):
    # Separated by blanks outside of strings: name:kind or name:kind=default.
    parts = re.findall(r'((?:"[^"]*"|[^\s"])+)', spec)
    text = []
    for part in parts:
        name, kind = part.split(":", 1)
        kind, _, default = kind.partition("=")
        text.append(f"`{name}` {KINDS[kind]}" + (f" = {default}" if default else ""))
    return ", ".join(text)


def cell(text):
    return text.replace("|", "\\|")


def ops_page():
    ref = kernels("REF")
    out = [OPS_HEAD]
    for kind, fields, comment in ops():
        if kind == "section":
            title = fields[0].upper() + fields[1:]
            out.append(f"\n## {title}\n\n| op | operands | attributes | types | meaning |\n|---|---|---|---|---|\n")
            continue
        op, trait = unquote(fields[1]), fields[8]
        signature, _, meaning = comment.partition(": ")
        types = ref.get(op, "any")
        if trait in ("View", "Collective", "Transfer"):
            meaning += f" *({trait.lower()})*"
        meaning += {"OverFirst": " *(over operand 0)*", "OverEither": " *(over operand 0 or 1)*"}.get(trait, "")
        out.append(f"| `{op}` | {cell(signature)} | {attributes(unquote(fields[5]))} | {types} | {cell(meaning)} |\n")
    return "".join(out)


def kernels_page():
    devices = {"ref": kernels("REF"), "cpu": kernels("CPU"), "cuda": kernels("CUDA")}
    out = [KERNELS_HEAD, "| op | " + " | ".join(devices) + " |\n|---" + "|---" * len(devices) + "|\n"]
    for kind, fields, _ in ops():
        if kind == "op" and fields[8] not in ("View", "Collective", "Transfer"):
            op = unquote(fields[1])
            out.append(f"| `{op}` | " + " | ".join(rows.get(op, "") for rows in devices.values()) + " |\n")
    return "".join(out)


def config_rows(macro):
    """The arguments of the table's rows, strings without quotes, with the section each row stands in."""
    section = ""
    for line in (ROOT / "frontend" / "Config.def").read_text().splitlines():
        if head := re.match(r"// -- (.*?) -+$", line):
            section = head[1][0].upper() + head[1][1:]
        elif row := re.match(rf"{macro}\((\".*\")\)$", line):
            yield section, re.findall(r'"((?:[^"\\]|\\.)*)"', row[1])


def config_page():
    out = [CONFIG_HEAD]
    last = None
    for section, strings in config_rows("KEY"):
        path, name, *_, default, when, summary = (s.replace('\\"', '"') for s in strings)
        if section != last:
            out.append(f"\n## {section}\n\n| key | `--set` | default | for | meaning |\n|---|---|---|---|---|\n")
            last = section
        default = "" if default == "null" else f"`{default}`"
        out.append(f"| `{path}` | `{name}` | {default} | {when} | {cell(summary)} |\n")
    out.append("\n## Accepted, without effect\n\n| key | why |\n|---|---|\n")
    for _, (path, kind, reason) in config_rows("IGNORED"):
        out.append(f"| `{path}`{' (whole block)' if kind == 'object' else ''} | {cell(reason)} |\n")
    out.append("\n## Refused\n\nThe values in the second column ask for nothing and are fine.\n\n"
               "| key | fine | instead |\n|---|---|---|\n")
    for _, (path, harmless, hint) in config_rows("REFUSED"):
        fine = ", ".join(f"`{value}`" for value in harmless.split("|") if value)
        out.append(f"| `{path}` | {fine} | {cell(hint)} |\n")
    for _, (path, hint) in config_rows("BLOCK"):
        out.append(f"| `{path}` (whole block) | empty, or `enabled` is `false` | {cell(hint)} |\n")
    return "".join(out)


def targets_page():
    out = [TARGETS_HEAD]
    for line in (ROOT / "frontend" / "Targets.def").read_text().splitlines():
        if row := re.match(r"TARGET\((.*)\)$", line):
            name, device, host, reserve, *rates, summary = split_args(row[1])
            sizes = f"{int(device) / 1024:.1f}" if int(device) else "shared", host if int(host) else "", int(reserve) / 1024
            rates = [value if float(value) else "" for value in rates[:8] + rates[12:13]]
            out.append(f"| `{unquote(name)}` | {sizes[0]} | {sizes[2]:g} | {sizes[1]} | {' | '.join(rates)} | {unquote(summary)} |\n")
    out.append("\n## A file\n\n" + TARGETS_FILE + "\n| key | value | meaning |\n|---|---|---|\n")
    keys = re.findall(r'\{"(\w+)",\s*"(\w+)",\s*((?:"[^"]*"\s*)+),\s*&Target::\w+(?:, ([\d.e-]+))?\}',
                      (ROOT / "frontend" / "Target.cpp").read_text())
    for key, kind, meaning, standard in keys:
        text = "".join(re.findall(r'"([^"]*)"', meaning))
        out.append(f"| `{key}` | {kind} | {text}{f'; not stated: {float(standard):.6g}' if standard else ''} |\n")
    return "".join(out)


def main():
    stale = []
    pages = {"ops.md": ops_page(), "kernels.md": kernels_page(), "config.md": config_page(), "targets.md": targets_page()}
    for name, page in pages.items():
        path = ROOT / "docs" / name
        if "--check" not in sys.argv:
            path.write_text(page)
        elif not path.exists() or path.read_text() != page:
            stale.append(f"docs/{name}")
    if stale:
        sys.exit(f"{' and '.join(stale)} out of date: run tools/dev/gen-docs.py")


main()
