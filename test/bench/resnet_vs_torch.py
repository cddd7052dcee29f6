#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One fp32 SGD update of torchvision's ResNet-18 on one rank: dsexec against PyTorch eager with the same threads, in turns.

    test/bench/resnet_vs_torch.py --python VENV/bin/python --model DIR/model.onnx [--bin build/release/bin] [--rounds 3]

The model comes from `tools/export_model.py resnet --preset 18 --dynamic --out DIR`, for images of 224 x 224 and 1,000 classes;
--size and --classes say what another one takes. --python is the interpreter that has the packages of
tools/requirements-export.txt. Prints both medians over all rounds and their ratio (ours / PyTorch's).
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

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


def torch_times(args):
    sizes = [str(n) for n in (args.batch, args.size, args.classes, args.threads, args.updates)]
    return float(subprocess.run([args.python, "-c", PEER, *sizes], check=True, capture_output=True, text=True).stdout)


def our_times(args):
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([str(pathlib.Path(args.bin) / "dsexec"), args.model, "--world-size", "1", "--micro-batch",
                        str(args.batch), "--grad-accum", "1", "--optimizer", "sgd", "--lr", "0.01", "--set", "momentum=0.9",
                        "--set", "clip=0", "--loss", "ce:logits=logits,labels=labels", "--data", "synthetic:1", "--steps",
                        str(args.updates + 1), "--threads", str(args.threads), "--log-json", str(log)],
                       check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        steps = [json.loads(line)["step_ms"] for line in log.read_text().splitlines()]
        return statistics.median(steps[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bin", default="build/release/bin")
    for name, value in (("batch", 16), ("size", 224), ("classes", 1000), ("threads", 2), ("updates", 5), ("rounds", 3)):
        parser.add_argument("--" + name, type=int, default=value, metavar="N")
    args = parser.parse_args()
    ours, theirs = [], []
    for round_ in range(args.rounds):
        ours.append(our_times(args))
        theirs.append(torch_times(args))
        print(f"round {round_ + 1}: dsexec {ours[-1]:.0f} ms, PyTorch eager {theirs[-1]:.0f} ms", flush=True)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"B{args.batch} {args.size}x{args.size}, {args.threads} threads: dsexec {a:.0f} ms, PyTorch eager {b:.0f} ms, "
          f"ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
