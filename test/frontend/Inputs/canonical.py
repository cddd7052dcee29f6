#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""canonical.py FILE.dsir...: whether modules are the same up to the names of values and the places of data.

Values and symbols are numbered by first use; then the programs, and the types, flags and contents of the symbols that
they use must be equal text. Exported names of parameters must be equal too, but for one that is named NAME=OTHER with
--tied: of tied parameters, exporters keep either name. Prints the first difference and exits with 1.
"""

import argparse
import difflib
import re
import sys

NAME = re.compile(r"[@%][\w./:-]+")
SYMBOL = re.compile(r"  (param|const) (@[\w./:-]+) : (\S+)(.*)")


def canonical(path, tied):
    """Lines of the program and of its symbols, numbered, and the parameters' names."""
    symbols, program, number = {}, [], {}

    def renamed(match):
        name = match[0]
        number.setdefault(name, f"{name[0]}{len(number)}")
        return number[name]

    with open(path) as lines:
        for line in lines:
            if found := SYMBOL.match(line):
                symbols[found[2]] = (found[1], found[3], found[4])
            elif not line.startswith("module "):
                program.append(NAME.sub(renamed, line.rstrip()))
    names = []
    for name in sorted((n for n in symbols if n in number), key=lambda n: int(number[n][1:])):
        kind, type_, rest = symbols[name]
        rest = re.sub(r' from "[^"]*" at \d+', "", rest)
        if kind == "param":
            exported = re.search(r'export="([^"]*)"', rest)[1]
            names.append(tied.get(exported, exported))
            rest = re.sub(r'(export|module)="[^"]*"(, )?', "", rest)
        program.append(f"{kind} {number[name]} : {type_}{rest}")
    return program, names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tied", action="append", default=[], metavar="NAME=OTHER")
    parser.add_argument("--renamed", action="store_true", help="names of parameters may differ")
    args = parser.parse_args()
    tied = dict(t.split("=") for t in args.tied)
    first, names = canonical(args.files[0], tied)
    for path in args.files[1:]:
        other, other_names = canonical(path, tied)
        for a, b in ((first, other),) if args.renamed else ((first, other), (names, other_names)):
            if a != b:
                lines = difflib.unified_diff(a, b, args.files[0], path, lineterm="", n=1)
                sys.exit("\n".join(line[:200] for _, line in zip(range(60), lines)))
    print(f"{len(args.files)} equal graphs of {len(first)} lines, {len(names)} parameters")


main()
