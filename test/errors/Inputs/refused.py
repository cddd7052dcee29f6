#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refused.py FOLDER [--errors N] COMMAND...: runs a command in FOLDER that must be refused, and prints its errors.

Refused means: exit code 1, within 2 s, N messages (1) of the form `place: error: text` on standard error, no progress
on standard output, and the folder's files are what they were. Time is the processor's: other work may take the rest.
"""

import os
import re
import resource
import subprocess
import sys


def files(folder):
    found = {}
    for path, _, names in os.walk(folder):
        for name in names:
            stat = os.stat(os.path.join(path, name))
            found[os.path.join(path, name)] = (stat.st_size, stat.st_mtime_ns)
    return found


def main(folder, args):
    expected = 1
    if args[0] == "--errors":
        expected, args = int(args[1]), args[2:]
    before = files(folder)
    run = subprocess.run(args, cwd=folder, capture_output=True, text=True, timeout=60)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(run.stderr, end="")
    if run.returncode != 1:
        sys.exit(f"exit code {run.returncode}, expected 1; output:\n{run.stdout}")
    if used.ru_utime + used.ru_stime > 2:
        sys.exit(f"took {used.ru_utime + used.ru_stime:.1f} s of processor time, expected 2 at most")
    errors = [line for line in run.stderr.splitlines() if re.match(r"\S.*: error: \S", line)]
    if len(errors) != expected:
        sys.exit(f"{len(errors)} errors, expected {expected}")
    if run.stdout:
        sys.exit(f"expected nothing on standard output, found:\n{run.stdout}")
    if files(folder) != before:
        sys.exit(f"files have changed: {sorted(set(files(folder).items()) ^ set(before.items()))}")


main(sys.argv[1], sys.argv[2:])
