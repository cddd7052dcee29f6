#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme_says.py README.md OUTPUT...: the indented lines of "What it says" stand in the outputs, in this order and word for word.

The command itself, which begins with $ and goes on at deeper indents, is no output.
"""

import re
import sys


def main(readme, *outputs):
    section = re.search(r"^## What it says\n(.*?)^## ", open(readme).read(), re.M | re.S).group(1)
    said = "".join(open(path).read() for path in outputs)
    lines = re.sub(r"^    \$ .*\n(          .*\n)*", "", section, flags=re.M).splitlines()
    lines = [line[4:] if not line.startswith(("    comm ", "    compute ")) else line for line in lines if line.startswith("    ")]
    at = 0
    for line in lines:
        at = said.find(line + "\n", at)
        if at < 0:
            sys.exit(f"{readme} shows what dsplan does not print: {line}")
    print(f"{len(lines)} lines of the README")


main(*sys.argv[1:])
