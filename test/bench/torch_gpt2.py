#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time one AdamW update of GPT-2 in PyTorch: the peer that our own step is measured against.

Forward, token-mean cross entropy, backward and a fused AdamW step on random tokens; the model is 124M by default. bf16 is a
bf16 model with fp32 masters in the optimizer, as DeepSpeed trains it. Prints one line: `model batch seq threads best_ms median_ms tokens_per_s loss`. Needs the packages of tools/requirements-export.txt.
"""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from export_families import GPT2_PRESETS, build_gpt2  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  test/bench/torch_gpt2.py --batch 4 --seq 256 --threads 2\n"
               "  test/bench/torch_gpt2.py --preset small --batch 32 --seq 64 --updates 20")
    parser.add_argument("--preset", choices=GPT2_PRESETS, default="124M", help="model size (default 124M)")
    parser.add_argument("--batch", type=int, default=4, metavar="N", help="rows (default 4)")
    parser.add_argument("--seq", type=int, default=256, metavar="N", help="tokens per row (default 256)")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="torch threads (default 2)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where it runs (default cpu)")
    parser.add_argument("--compile", choices=("whole", "blocks"), help="by torch.compile instead of eagerly: everything at once, or\n"
                        "each layer, which are all alike, so that a deep model takes seconds to compile and not minutes")
    parser.add_argument("--updates", type=int, default=5, metavar="N",
                        help="timed updates, after one untimed, or four where it is compiled or on cuda (default 5)")
    parser.add_argument("--type", choices=("fp32", "bf16"), default="fp32", help="of weights and activations (default fp32)")
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="sdpa", help="attention (default sdpa)")
    args = parser.parse_args()
    shape = GPT2_PRESETS[args.preset]
    if min(args.batch, args.seq, args.threads, args.updates) < 1:
        parser.error("--batch, --seq, --threads and --updates must be at least 1")
    if args.seq > shape.context:
        parser.error(f"--seq {args.seq} is longer than the context of {args.preset}, {shape.context}")

    import torch

    torch.set_num_threads(args.threads)
    with torch.device(args.device):
        model = build_gpt2(shape, seed=0, attention=args.attention)
    weights = list(model.parameters())
    masters = weights
    if args.type == "bf16":
        masters = [torch.nn.Parameter(w.detach().clone()) for w in weights]
        model.bfloat16()
        weights = list(model.parameters())
    optimizer = torch.optim.AdamW(masters, lr=1e-4, weight_decay=0.01, fused=True)
    tokens = torch.randint(shape.vocab, (args.batch, args.seq + 1), generator=torch.Generator().manual_seed(0)).to(args.device)

    def loss_of(tokens):
        logits = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    if args.compile == "whole":
        loss_of = torch.compile(loss_of)
    elif args.compile:
        for block in model.transformer.h:
            block.compile()
        head = torch.compile(lambda logits, tokens: torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten()))

        def loss_of(tokens):
            return head(model(tokens[:, :-1]), tokens[:, 1:])
    untimed = 4 if args.compile or args.device == "cuda" else 1
    times = []
    for _ in range(args.updates + untimed):
        start = time.perf_counter()
        loss = loss_of(tokens)
        model.zero_grad(set_to_none=True)
        loss.backward()
        if args.type == "bf16":
            for master in masters:
                master.grad = torch.empty_like(master) if master.grad is None else master.grad
            torch._foreach_copy_([m.grad for m in masters], [w.grad for w in weights])
        optimizer.step()
        if args.type == "bf16":
            with torch.no_grad():
                torch._foreach_copy_(weights, masters)
        if args.device == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    timed = times[untimed:]
    rate = args.batch * args.seq / statistics.median(timed) * 1e3
    print(f"model {args.preset} batch {args.batch} seq {args.seq} threads {args.threads} best_ms {min(timed):.1f} "
          f"median_ms {statistics.median(timed):.1f} tokens_per_s {rate:.1f} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
