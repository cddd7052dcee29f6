#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far above the lower bound are the arenas of our plans?

Plans every model for stages 0 to 3, several worlds and accumulations, and prints one line per plan that is above
its lower bound, then a summary. Exits with 1 if fewer than 95 % reach it or one is more than 0.5 % above.

    test/bench/layout_plans.py [--dsplan build/release/bin/dsplan] [--csv FILE]
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# name: (rows, widths, every how many layers the input is added again; 0: never)
MLPS = {
    "narrow-deep": (16, [64] * 33, 0),
    "residual-deep": (32, [96] * 25, 2),
    "wide": (8, [512, 2048, 2048, 512, 10], 0),
    "hourglass": (64, [784, 400, 120, 30, 120, 400, 784], 0),
    "large-batch": (1024, [48, 96, 192, 96, 48], 0),
    "odd": (7, [31, 101, 53, 211, 53, 17, 3], 0),
    "classifier": (128, [256, 256, 256, 256, 256, 256, 10000], 3),
}


def mlp(name, rows, widths, skip):
    """A module in the text form of the graph, with tanh between its layers."""
    lines = [f"module @{name.replace('-', '_')} {{"]
    for k, (a, b) in enumerate(zip(widths, widths[1:]), 1):
        lines += [f"  param @w{k} : f32[{a},{b}] init normal({2 * k},0.1)", f"  param @b{k} : f32[{b}] init normal({2 * k + 1},0.1)"]
    lines += ["", f"  func @micro(%x: f32[{rows},{widths[0]}]) {{", "  forward:"]
    value, kept = "x", ("x", widths[0])
    for k, b in enumerate(widths[1:], 1):
        shape = f"f32[{rows},{b}]"
        lines += [f"    %mm{k} = matmul %{value}, @w{k} : {shape}", f"    %pre{k} = add %mm{k}, @b{k} : {shape}"]
        value = f"pre{k}"
        if k + 1 < len(widths):
            lines.append(f"    %act{k} = tanh %{value} : {shape}")
            value = f"act{k}"
        if skip and k % skip == 0:
            if kept[1] == b:
                lines.append(f"    %sum{k} = add %{value}, %{kept[0]} : {shape}")
                value = f"sum{k}"
            kept = (value, b)
    return "\n".join(lines + [f"    return %{value}", "  }", "}", ""])


def models(folder):
    """(name, arguments of dsplan) of every model."""
    small = ROOT / "models/gpt2-small/model.onnx"
    for seq, rows in ((16, 4), (64, 8), (128, 2)):
        yield f"gpt2-small-{seq}", [small, f"--dim=seq={seq}", f"--micro-batch={rows}", "--loss=ce:logits=logits,labels=labels"]
    for model in sorted((ROOT / "test/models/gpt2-tiny").glob("*/model.onnx")):
        yield f"gpt2-tiny-{model.parent.name}", [model, "--loss=ce:logits=logits,labels=labels"]
    for name, (rows, widths, skip) in MLPS.items():
        path = pathlib.Path(folder, name + ".dsir")
        path.write_text(mlp(name, rows, widths, skip))
        yield name, [path, f"--micro-batch={rows}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsplan", default=ROOT / "build/release/bin/dsplan")
    parser.add_argument("--csv", type=pathlib.Path, help="write every plan's figures here")
    args = parser.parse_args()
    rows, slowest = [], (0, "")
    with tempfile.TemporaryDirectory() as folder:
        for (name, flags), world, accum in itertools.product(models(folder), (1, 2, 3, 4, 8), (1, 2)):
            command = [args.dsplan, *flags, f"--world-size={world}", f"--grad-accum={accum}", "--optimizer=adamw"]
            command += ["--set=persistence_threshold=0", "--emit=json"]
            start = time.monotonic()
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                sys.exit(f"{' '.join(map(str, command))}\n{run.stderr}")
            slowest = max(slowest, (time.monotonic() - start, f"{name}, world {world}, accumulation {accum}"))
            for stage in json.loads(run.stdout)["stages"]:
                arena, bound = stage["arena_bytes"], stage["lower_bound_bytes"]
                rows.append((arena / bound - 1, name, stage["stage"], world, accum, arena, bound))
    for over, name, stage, world, accum, arena, bound in sorted(rows, reverse=True):
        if over:
            print(f"{100 * over:8.4f} %  {name} stage {stage} world {world} accumulation {accum}: {arena} over {bound}")
    if args.csv:
        header = "over,model,stage,world,accumulation,arena,bound\n"
        args.csv.write_text(header + "".join(",".join(map(str, row)) + "\n" for row in rows))
    reached, worst = sum(row[0] == 0 for row in rows), max(row[0] for row in rows)
    print(f"{len(rows)} plans, {reached} at the lower bound ({100 * reached / len(rows):.1f} %), worst {100 * worst:.3f} % above")
    print(f"slowest command, four stages: {slowest[0]:.2f} s ({slowest[1]})")
    return 0 if reached >= 0.95 * len(rows) and worst <= 0.005 else 1


if __name__ == "__main__":
    sys.exit(main())
