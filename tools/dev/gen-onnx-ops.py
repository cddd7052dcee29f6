#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/onnx-ops.md from frontend/OnnxOps.def; --check only compares."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAD = """# ONNX operators

Written by `tools/dev/gen-onnx-ops.py` from `frontend/OnnxOps.def`. Default domain, opsets 9 to 25; attributes and
inputs that moved between opsets are read in either place. Operators that are not listed but that the ONNX standard
defines as a function of others (HardSwish, Elu, PRelu, GroupNormalization, ...) are expanded by that definition;
model-local functions are inlined.

"""


def rows(kind, text):
    for line in re.findall(rf"^ONNX_{kind}\((.*)\)$", text, re.M):
        note = re.search(r', "(.*)"$', line)
        fields = [f.strip() for f in (line[: note.start()] if note else line).split(",")]
        yield fields, note.group(1).replace("|", "\\|") if note else ""


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def document(text):
    out = [HEAD, "| operator | since | becomes | |\n|---|---|---|---|\n"]
    lines = []
    for f, _ in rows("DIRECT", text):
        lines.append((f[0], f"| {f[0]} | {f[1]} | `{snake(f[2])}` | |\n"))
    for f, note in rows("CUSTOM", text):
        lines.append((f[0], f"| {f[0]} | {f[1]} | core ops | {note} |\n"))
    for f, note in rows("KNOWN", text):
        lines.append((f[0], f"| {f[0]} | {f[1]} | a known value | only with inputs known at plan time{'; ' + note if note else ''} |\n"))
    out += [line for _, line in sorted(lines)]
    out.append("\n## Refused, with what to do instead\n\n| operator | |\n|---|---|\n")
    out += sorted(f"| {f[0]} | {note} |\n" for f, note in rows("REFUSED", text))
    return "".join(out)


def main():
    doc = ROOT / "docs" / "onnx-ops.md"
    want = document((ROOT / "frontend" / "OnnxOps.def").read_text())
    if "--check" not in sys.argv:
        doc.write_text(want)
    elif not doc.exists() or doc.read_text() != want:
        sys.exit(f"{doc.relative_to(ROOT)} is out of date: run tools/dev/gen-onnx-ops.py")


main()
