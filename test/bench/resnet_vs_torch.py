#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One fp32 SGD update of torchvision's ResNet-18 on one rank: dsexec against PyTorch eager with the same threads, in turns.

    test/bench/resnet_vs_torch.py --python VENV/bin/python --model DIR/model.onnx [--bin build/release/bin] [--rounds 3]

The model comes from `tools/export_model.py resnet --preset 18 --dynamic --out DIR`, for images of 224 x 224 and 1,000 classes;
--size and --classes say what another one takes. --python is the interpreter that has the packages of
tools/requirements-export.txt. Prints both medians over all rounds and their ratio (ours / PyTorch's).
"""

import subprocess

import against_torch

PEER = """
import statistics, sys, time, torch, torchvision
batch, size, classes, threads, updates = map(int, sys.argv[1:])
torch.set_num_threads(threads)
model = torchvision.models.resnet18(weights=None, num_classes=classes).train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.randn(batch, 3, size, size), torch.randint(classes, (batch,))
times = []
for _ in range(updates + 1):
    start = time.perf_counter()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    times.append((time.perf_counter() - start) * 1e3)
print(statistics.median(times[1:]))
"""


def torch_ms(args):
    sizes = [str(n) for n in (args.batch, args.size, args.classes, args.threads, args.updates)]
    return float(subprocess.run([args.python, "-c", PEER, *sizes], check=True, capture_output=True, text=True).stdout)


def our_ms(args):
    return against_torch.dsexec_ms(args, ["--optimizer", "sgd", "--lr", "0.01", "--set", "momentum=0.9", "--set", "clip=0"])


def main():
    numbers = (("batch", 16), ("size", 224), ("classes", 1000), ("updates", 5))
    args = against_torch.parser(__doc__, numbers).parse_args()
    against_torch.compare(args, f"B{args.batch} {args.size}x{args.size}", our_ms, torch_ms)


if __name__ == "__main__":
    main()
