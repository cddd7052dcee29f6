#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the largest files and functions; fail on those past the hard stop.

The limits are habits: a file is about one thing, so when one grows past "look again", split it by meaning. Past the
hard stop it needs a line in REASONS below that says why it must be that large.
"""

import pathlib
import re
import subprocess
import sys

# kind: (pattern, look again, hard stop), in lines; the first match wins.
FILE_LIMITS = [
    ("pass", r"passes/[^/]+\.cpp$", 350, 600),
    ("cuda kernel", r"kernels/cuda/.*\.(cu|cuh)$", 300, 500),
    ("source", r"(ir|frontend|passes|kernels|runtime|tools|test)/.*\.(cpp|cu|cuh)$", 400, 800),
    ("header", r".*\.h$", 200, 300),
    ("lit test", r"test/.*\.(dsir|dsched|onnxtext|test)$", 150, 300),
]
FUNCTION_LIMITS = (60, 100)
SKIP = r"test/(models|golden|.*/?Inputs)/"

# "path" or "path:function" -> why it is right that it is past the hard stop.
REASONS = {}


def functions(lines):
    """Yields (name, length). Relies on clang-format: a body opens at the end of a line, and closes in column 0."""
    head = None  # where the signature began
    start = None
    for number, line in enumerate(lines):
        if start is not None:
            if line.startswith("}"):
                if line.rstrip() == "}":
                    yield name, number - start + 1
                start = None
            continue
        if line[:1].strip() and not line.startswith(("#", "//", "}", "namespace", "/*")):
            head = number
        if line.rstrip().endswith("{") and head is not None:
            signature = " ".join(lines[head : number + 1])
            found = re.search(r"([\w:~]+|operator\S+)\s*\(", signature)
            aggregate = re.match(r"(struct|class|enum|union|extern|static const|constexpr|const)\b.*[^)]\s*\{$", signature)
            if found and not aggregate:
                start, name = head, found[1]
            head = None
        elif line.rstrip().endswith(";"):
            head = None


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True, check=True
    )
    rows, lengths = [], {}
    for path in listed.stdout.splitlines():
        limits = next((limit for limit in FILE_LIMITS if re.match(limit[1], path)), None)
        if limits is None or re.match(SKIP, path) or not (root / path).exists():
            continue
        kind, _, again, stop = limits
        lines = (root / path).read_text().splitlines()
        lengths.setdefault(kind, []).append(len(lines))
        rows.append((len(lines) / stop, len(lines), kind, path, again, stop))
        if kind not in ("lit test", "header"):
            for name, length in functions(lines):
                lengths.setdefault("function", []).append(length)
                rows.append((length / FUNCTION_LIMITS[1], length, "function", f"{path}:{name}", *FUNCTION_LIMITS))

    print(f"{'kind':12} {'count':>6} {'median':>7} {'p90':>5} {'max':>5}")
    for kind, values in lengths.items():
        values.sort()
        n = len(values)
        print(f"{kind:12} {n:6} {values[n // 2]:7} {values[n * 9 // 10]:5} {values[-1]:5}")

    rows.sort(reverse=True)
    over = [row for row in rows if row[1] > row[5] and row[3] not in REASONS]
    shown = [row for row in rows if row[1] > row[4]][:15]
    if shown:
        print("past 'look again', the largest first:")
    for _, length, kind, place, again, stop in shown:
        print(f"{length:6} {kind:12} {place} (look again {again}, stop {stop})")
    for _, length, kind, place, _, stop in over:
        print(f"error: {place}: {length} lines, the hard stop for a {kind} is {stop}: split it by meaning")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
