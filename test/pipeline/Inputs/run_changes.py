#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the flags of every change that a summary lists to its command, and compares arenas; those of a refusal's notes, too.

    run_changes.py dsplan MODEL FLAGS...
"""
import json
import re
import subprocess
import sys


def run(*more):
    return subprocess.run([*sys.argv[1:], *more], capture_output=True, text=True)


def arenas(flags):
    """Bytes of device, host and nvme, of the plan with these flags."""
    text = run("--emit", "memory", *flags.split()).stdout
    return [int(found[1]) if (found := re.search(rf"^{space}arena (\d+) bytes", text, re.M)) else 0
            for space in ("", "host ", "nvme ")]


summary = run("--emit", "json")
now = arenas("")
changes = json.loads(summary.stdout)["changes"]
for c in changes:
    said = [c["arena_bytes"], c["host_bytes"], c["nvme_bytes"]]
    assert arenas(c["flags"]) == said, (c["flags"], arenas(c["flags"]), said)
    assert said[0] < now[0] or said[1] < now[1], c["flags"]
print(len(changes), "changes,", sum(c["fits"] for c in changes), "of them fit")
advice = re.search(r"note: fits with (.*?): ", summary.stderr)
if advice:
    p = run("--emit", "schedule", *advice[1].split())
    assert p.returncode == 0, (advice[1], p.stderr)
    print("the advice fits:", advice[1])
