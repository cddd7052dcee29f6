#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans models that nobody here has, and compares each plan with closed forms.

Prints for every model and stage: bytes per rank and kind, bytes sent, seconds and peak resident size of dsplan. Exits
with 1 if a kind differs from its formula by more than padding and resident parameters explain, or if a stage 3 plan
takes more than --seconds or --resident.

    test/bench/paper_plans.py                  the full models, 512 ranks
    test/bench/paper_plans.py --layers 2       scaled, as the quick test does
    test/bench/paper_plans.py --growth         seconds and resident size for 24 to 384 layers
    test/bench/paper_plans.py --exports DIR    PyTorch's exports instead, in DIR/gpt3-175b and DIR/llama-70b:
        tools/export_model.py gpt2 --preset gpt3-175b --no-weights --batch 1 --out DIR/gpt3-175b
        tools/export_model.py llama --preset llama-70b --no-weights --batch 1 --out DIR/llama-70b
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import big_models

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(dsplan, model, world, *args):
    """Output, seconds and peak resident MiB of one dsplan."""
    command = [dsplan, str(model), "--world-size", str(world), "--allow-missing-data",
               "--loss=ce:logits=logits,labels=labels", *args]
    start = time.monotonic()
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0)
        text = out.read().decode()
    if p.returncode:
        sys.exit(f"{' '.join(command)}: exit code {p.returncode}")
    return text, seconds, usage.ru_maxrss / 1024


def expected(stage, psi, resident, world):
    """Bytes per rank in fp32 under Adam by kind, and bytes sent per update without accumulation.

    ZeRO's formulas: 4 bytes for each parameter, 8 for the moments, 4 for the gradient's accumulator, which is sharded
    at every stage here (a single micro-batch reduces as it goes). Resident parameters are whole at stage 3. A ring
    moves (N-1)/N of what it gathers or reduces: twice the parameters, at stage 3 thrice, but resident ones twice.
    """
    share = psi / world
    params = psi if stage < 3 else resident + (psi - resident) / world
    moments = 8 * (psi if stage == 0 else share)
    ring = (world - 1) / world
    sent = 4 * ring * (2 * psi if stage < 3 else 3 * psi - resident)
    return {"param": 4 * params, "state": moments, "accum": 4 * share}, sent


def check(name, plan, psi, world, problems):
    if plan["parameters"] != psi:
        problems.append(f"{name}: {plan['parameters']} parameters, expected {psi}")
    for s in plan["stages"]:
        resident = s["resident_parameters"] if s["stage"] == 3 else 0
        padding = sum(b["padding"] for b in s["buckets"])
        kinds, sent = expected(s["stage"], psi, resident, world)
        # Buckets are padded to world x 128 elements, buffers to 256 bytes; up to three buffers per bucket and kind.
        slack = 16 * padding + 3 * 256 * len(s["buckets"])
        # What is carried over or tied is gathered once less or more: it is listed, bucket by bucket.
        usual = {0: 1, 1: 1, 2: 1, 3: 2}[s["stage"]]
        other = sum((b["gathers"] - usual) * (b["elems"] + b["padding"]) for b in s["buckets"] if not b["resident"])
        sent += 4 * (world - 1) / world * other
        line = f"{name} stage {s['stage']}:"
        for kind, bytes_ in kinds.items():
            have = s["persistent_bytes"].get(kind, 0)
            line += f" {kind} {have / 2**30:.3f}"
            if not bytes_ - 1 <= have <= bytes_ + slack:
                problems.append(f"{name} stage {s['stage']}: {kind} {have}, by formula {bytes_:.0f} + at most {slack}")
        if not sent - 1 <= s["sent_bytes"] <= sent + 3 * 4 * padding + 1:
            problems.append(f"{name} stage {s['stage']}: sent {s['sent_bytes']}, by formula {sent:.0f}")
        print(f"{line} sent {s['sent_bytes'] / 2**30:.1f} arena {s['arena_bytes'] / 2**30:.1f} GiB")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--dsplan", default=str(ROOT / "build/release/bin/dsplan"))
    p.add_argument("--world", type=int, default=512)
    p.add_argument("--layers", type=int, default=0, help="instead of the models'")
    p.add_argument("--seconds", type=float, default=5, help="allowed for a plan at stage 3")
    p.add_argument("--resident", type=float, default=300, help="MiB allowed")
    p.add_argument("--growth", action="store_true")
    p.add_argument("--exports", type=pathlib.Path, metavar="DIR", help="of PyTorch, instead of our own models")
    args = p.parse_args()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model.onnx"
        if args.growth:
            for layers in (24, 48, 96, 192, 384):
                psi, nodes = big_models.write("gpt3-175b", model, layers=layers)
                _, seconds, resident = run(args.dsplan, model, args.world, "--stage=3", "--emit=schedule", "-o", os.devnull)
                print(f"{layers} layers, {nodes} nodes: {seconds:.2f} s, {resident:.0f} MiB")
            return
        for name in ("gpt3-175b", "llama-70b"):
            psi, nodes = big_models.write(name, model, layers=args.layers)
            path = args.exports / name / "model.onnx" if args.exports else model
            text, _, _ = run(args.dsplan, path, args.world, "--stage=3", "--emit=json")
            check(name, json.loads(text), psi, args.world, problems)
            _, seconds, resident = run(args.dsplan, path, args.world, "--stage=3", "--emit=schedule", "-o", os.devnull)
            print(f"{name}: {psi} parameters, {'exported' if args.exports else f'{nodes} nodes'}, stage 3 in {seconds:.2f} s, {resident:.0f} MiB resident")
            if seconds > args.seconds or resident > args.resident:
                problems.append(f"{name}: allowed are {args.seconds} s and {args.resident} MiB")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
