#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well and how fast does dsplan --layout solve the instances (*.csv) of a folder?

An instance whose name ends in .CAPACITY.csv is solved for that capacity first. Then each one's smallest height is
looked for. Every answer is checked with --check-layout. Times are those of whole commands.

    test/bench/layout_instances.py FOLDER [--dsplan build/release/bin/dsplan] [--time-limit SECONDS]

Instances: google/minimalloc, benchmarks/challenging; cappadokes/idealloc, benchmarks.
"""

import argparse
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def solve(args, path, answer, capacity):
    """Runs one instance; returns (processor seconds, the summary's lines by label)."""
    command = [args.dsplan, "--layout", path, "-o", answer]
    if capacity:
        command.append(f"--capacity={capacity}")
    if args.time_limit:
        command.append(f"--time-limit={args.time_limit}")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode not in (0, 2):
        sys.exit(run.stderr)
    if run.returncode == 0:
        subprocess.run([args.dsplan, "--check-layout", answer], check=True, stdout=subprocess.DEVNULL)
    fields = dict(re.findall(r"^  ([a-z ]+?)  +(.*)$", run.stdout, re.M))
    return sum(after[:2]) - sum(before[:2]), fields


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dsplan", default=ROOT / "build/release/bin/dsplan")
    parser.add_argument("--time-limit", help="of each, in seconds of wall time (default: a counted effort)")
    args = parser.parse_args()
    paths = sorted(args.folder.glob("*.csv"))
    if not paths:
        sys.exit(f"{args.folder}: no *.csv there")
    capacities = {path: m[1] for path in paths if (m := re.search(r"\.(\d+)\.csv$", path.name))}
    with tempfile.TemporaryDirectory() as folder:
        for title, chosen, capacity_of in (
            ("at the capacity in the name", list(capacities), capacities.get),
            ("smallest height", paths, lambda path: None),
        ):
            if not chosen:
                continue
            print(f"{title}\n{'instance':34} {'buffers':>7} {'cpu s':>6}  height, proof")
            total = 0
            for path in chosen:
                seconds, f = solve(args, path, pathlib.Path(folder, "answer.csv"), capacity_of(path))
                total += seconds
                fits = f.get("capacity", "").partition(": ")[2]
                print(f"{path.name:34} {f['buffers']:>7} {seconds:6.3f}  {f['height']}; {fits or f['proof']}")
            print(f"{'total':42} {total:6.3f}\n")


if __name__ == "__main__":
    main()
