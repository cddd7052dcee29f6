# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with PyTorch share: the same work by turns, medians, one line."""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def parser(description, numbers):
    """The common arguments, and one for each (name, default)."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", required=True, help="interpreter with the packages of tools/requirements-export.txt")
    p.add_argument("--model", required=True)
    p.add_argument("--bin", default="build/release/bin")
    for name, value in (*numbers, ("threads", 2), ("rounds", 3)):
        p.add_argument("--" + name, type=int, default=value, metavar="N")
    return p


def dsexec_ms(args, flags):
    """Median time of an update on one rank, but for the first."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([str(pathlib.Path(args.bin) / "dsexec"), args.model, "--world-size", "1", "--micro-batch",
                        str(args.batch), "--grad-accum", "1", "--loss", "ce:logits=logits,labels=labels", "--data",
                        "synthetic:1", "--steps", str(args.updates + 1), "--threads", str(args.threads), "--log-json",
                        str(log), *flags], check=True, stdout=subprocess.DEVNULL)
        return statistics.median([json.loads(line)["step_ms"] for line in log.read_text().splitlines()][1:])


def compare(args, what, ours, theirs):
    """Both functions args.rounds times in turns; prints medians and their ratio."""
    times = []
    for i in range(args.rounds):
        times.append((ours(args), theirs(args)))
        print(f"round {i + 1}: dsexec {times[-1][0]:.0f} ms, PyTorch eager {times[-1][1]:.0f} ms", flush=True)
    a, b = (statistics.median(side) for side in zip(*times))
    print(f"{what}, {args.threads} threads: dsexec {a:.0f} ms, PyTorch eager {b:.0f} ms, ratio {a / b:.2f}")
