#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One AdamW update of GPT-2 124M on one rank, fp32 or bf16: dsexec against PyTorch eager with the same threads, in turns.

    test/bench/gpt2_vs_torch.py --python VENV/bin/python --model DIR/model.onnx [--type bf16] [--rounds 3]

The model comes from `tools/export_model.py gpt2 --preset 124M --out DIR`; --python is the interpreter that has the packages
of tools/requirements-export.txt. Prints both medians over all rounds and their ratio (ours / PyTorch's).
"""

import pathlib
import re
import subprocess

import against_torch

HERE = pathlib.Path(__file__).resolve().parent


def torch_ms(args):
    line = subprocess.run([args.python, str(HERE / "torch_gpt2.py"), "--batch", str(args.batch), "--seq", str(args.seq),
                           "--threads", str(args.threads), "--updates", str(args.updates), "--type", args.type],
                          check=True, capture_output=True, text=True).stdout
    return float(re.search(r"median_ms (\S+)", line)[1])


def our_ms(args):
    return against_torch.dsexec_ms(args, ["--dim", f"seq={args.seq}", "--optimizer", "adamw", "--lr", "1e-4", "--set",
                                          "weight_decay=0.01", "--set", f"bf16={str(args.type == 'bf16').lower()}"])


def main():
    parser = against_torch.parser(__doc__, (("batch", 4), ("seq", 256), ("updates", 3)))
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32")
    args = parser.parse_args()
    against_torch.compare(args, f"{args.type}, B{args.batch} T{args.seq}", our_ms, torch_ms)


if __name__ == "__main__":
    main()
