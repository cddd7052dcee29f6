#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/ops.md and docs/kernels.md from ir/Ops.def and kernels/Kernels.def; --check only compares."""

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
"""

KERNELS_HEAD = """# Kernels

Written by `tools/dev/gen-docs.py` from `kernels/Kernels.def`: the types of operand 0 (of the result for ops without
operands) that each device has a kernel for. A device takes the `ref` kernel where it has none. Views and collectives are
no launches and have no kernels.

`ref` is the numeric specification: loops in row-major order over any strides, sums in double, transcendental
functions in double with one rounding, 16-bit types computed in f32 and rounded to nearest even when stored.
Optimizers follow the operation sequence of `kernels/OptimizerMath.h` on every device.

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
    for row in re.findall(rf'^{macro}\((".*)\)', text, re.M):
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
        if trait in ("View", "Collective"):
            meaning += f" *({trait.lower()})*"
        out.append(f"| `{op}` | {cell(signature)} | {attributes(unquote(fields[5]))} | {types} | {cell(meaning)} |\n")
    return "".join(out)


def kernels_page():
    devices = {"ref": kernels("REF"), "cpu": kernels("CPU")}
    out = [KERNELS_HEAD, "| op | " + " | ".join(devices) + " |\n|---" + "|---" * len(devices) + "|\n"]
    for kind, fields, _ in ops():
        if kind == "op" and fields[8] not in ("View", "Collective"):
            op = unquote(fields[1])
            out.append(f"| `{op}` | " + " | ".join(rows.get(op, "") for rows in devices.values()) + " |\n")
    return "".join(out)


def main():
    stale = []
    for name, page in (("ops.md", ops_page()), ("kernels.md", kernels_page())):
        path = ROOT / "docs" / name
        if "--check" not in sys.argv:
            path.write_text(page)
        elif not path.exists() or path.read_text() != page:
            stale.append(f"docs/{name}")
    if stale:
        sys.exit(f"{' and '.join(stale)} out of date: run tools/dev/gen-docs.py")


main()
