#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check-readme.py: README.md and README.zh.md say the same, as far as a program can tell.

The same blocks of commands and output, the same links and names in `code`, as many headings, list items and table cells.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def shape(path):
    text = path.read_text()
    lines = text.splitlines()
    code = [line for line in lines if line.startswith("    ")]
    prose = "\n".join(line for line in lines if not line.startswith("    ") and "[English]" not in line and
                      "(README.zh.md)" not in line)
    return {
        "code blocks": code,
        "links": sorted(re.findall(r"\]\(([^)]*)\)", prose)),
        "names in code": sorted(re.findall(r"`([^`]+)`", prose)),
        "headings": [line.count("#") for line in lines if line.startswith("#")],
        "list items": sum(line.startswith("- ") for line in lines),
        "table cells": [line.count("|") for line in lines if line.startswith("|")],
    }


def main():
    ours, theirs = shape(ROOT / "README.md"), shape(ROOT / "README.zh.md")
    wrong = [key for key in ours if ours[key] != theirs[key]]
    for key in wrong:
        a, b = ours[key], theirs[key]
        if isinstance(a, list):
            a, b = [x for x in a if x not in b], [x for x in b if x not in a]
        print(f"check-readme: {key} differ: README.md {a}, README.zh.md {b}", file=sys.stderr)
    if not wrong:
        print("check-readme: the two READMEs agree")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
