#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One AdamW update of GPT-2 124M on one rank, fp32 or bf16: dsexec against PyTorch eager with the same threads, in turns.

    test/bench/gpt2_vs_torch.py --python VENV/bin/python --model DIR/model.onnx [--type bf16] [--rounds 3]

The model comes from `tools/export_model.py gpt2 --preset 124M --out DIR`; --python is the interpreter that has the packages
of tools/requirements-export.txt. Prints both medians over all rounds and their ratio (ours / PyTorch's).
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def torch_times(args):
    line = subprocess.run([args.python, str(HERE / "torch_gpt2.py"), "--batch", str(args.batch), "--seq", str(args.seq),
                           "--threads", str(args.threads), "--updates", str(args.updates), "--type", args.type],
                          check=True, capture_output=True, text=True).stdout
    return float(re.search(r"median_ms (\S+)", line)[1])


def our_times(args):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([str(pathlib.Path(args.bin) / "dsexec"), args.model, "--world-size", "1", "--micro-batch",
                        str(args.batch), "--grad-accum", "1", "--dim", f"seq={args.seq}", "--optimizer", "adamw", "--lr",
                        "1e-4", "--set", "weight_decay=0.01", "--set", f"bf16={str(args.type == 'bf16').lower()}", "--loss", "ce:logits=logits,labels=labels", "--data",
                        "synthetic:1", "--steps", str(args.updates + 1), "--threads", str(args.threads), "--log-json",
                        str(log)], check=True, capture_output=True, text=True)
        steps = [json.loads(line)["step_ms"] for line in log.read_text().splitlines()]
        return statistics.median(steps[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32")
    for name, value in (("batch", 4), ("seq", 256), ("threads", 2), ("updates", 3), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value, metavar="N")
    args = parser.parse_args()
    ours, theirs = [], []
    for round_ in range(args.rounds):
        ours.append(our_times(args))
        theirs.append(torch_times(args))
        print(f"round {round_ + 1}: dsexec {ours[-1]:.0f} ms, PyTorch eager {theirs[-1]:.0f} ms", flush=True)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{args.type}, B{args.batch} T{args.seq}, {args.threads} threads: dsexec {a:.0f} ms, PyTorch eager {b:.0f} ms, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
