#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far the predicted time of an update is from the measured one, on this machine.

    test/bench/predict.py [--gpt2 DIR/model.onnx] [--resnet DIR/model.onnx] [--worlds 1,2] [--stages 0,3] [--rounds 3]

In every round the machine is measured (dsexec --measure-target), on models that are none of these; then every case is planned for
that target and run: the bundled GPT-2, an MLP, and, where they are given, GPT-2 124M (4 sequences of 256 tokens per update over
all ranks) and ResNet-18 (16 images of 224 x 224), all in fp32. Prints a row per case, with the best prediction and the best
update of all rounds, and the mean and the largest error: other work on the machine only adds to a time.
"""

import argparse
import array
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LOSS = ["--loss", "ce:logits=logits,labels=labels"]
ADAM = ["--optimizer", "adamw", "--lr", "1e-4"]
MLP = """module @mlp {
  param @w1 : f32[784,1024] init normal(1,0.04) {module="fc.0"}
  param @b1 : f32[1024] init normal(2,0.04) {module="fc.0"}
  param @w2 : f32[1024,1024] init normal(3,0.03) {module="fc.1"}
  param @b2 : f32[1024] init normal(4,0.03) {module="fc.1"}
  param @w3 : f32[1024,10] init normal(5,0.03) {module="fc.2"}

  func @micro(%x: f32[ROWS,784]) {
  forward:
    %h1.mm = matmul %x, @w1 : f32[ROWS,1024]
    %h1.pre = add %h1.mm, @b1 : f32[ROWS,1024]
    %h1 = relu %h1.pre : f32[ROWS,1024]
    %h2.mm = matmul %h1, @w2 : f32[ROWS,1024]
    %h2.pre = add %h2.mm, @b2 : f32[ROWS,1024]
    %h2 = relu %h2.pre : f32[ROWS,1024]
    %logits = matmul %h2, @w3 : f32[ROWS,10]
    return %logits
  }
}
"""


def write_npy(path, kind, shape, values):
    head = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values.tobytes())


def samples(folder, name, shape, classes):
    """64 samples from a file: drawing images takes a core as long as training on them does."""
    target = folder / name
    target.mkdir(exist_ok=True)
    draw = random.Random(1)
    numbers = array.array("f", (draw.uniform(-2, 2) for _ in range(4096)))
    elements = 64 * math.prod(shape)
    write_npy(target / f"{name}.npy", "f4", (64, *shape), (numbers * (elements // len(numbers) + 1))[:elements])
    write_npy(target / "labels.npy", "i8", (64,), array.array("q", (draw.randrange(classes) for _ in range(64))))
    return f"npy:{target}"


def cases(args, world, folder):
    """Name, model, flags and data."""
    tokens = f"tokens:{HERE.parents[1]}/data/train.bin"
    mlp = folder / f"mlp{world}.dsir"
    mlp.write_text(MLP.replace("ROWS", str(64 // world)))
    yield "MLP, 64 rows", str(mlp), [*ADAM, "--micro-batch", str(64 // world)], samples(folder, "x", (784,), 10)
    yield ("GPT-2 0.8M, 32 x 64 tokens", "models/gpt2-small/model.onnx",
           [*ADAM, "--dim", "seq=64", "--micro-batch", str(32 // world)], tokens)
    if args.resnet:
        yield ("ResNet-18, 16 images", args.resnet, ["--optimizer", "sgd", "--lr", "0.01", "--micro-batch", str(16 // world)],
               samples(folder, "images", (3, 224, 224), 1000))
    if args.gpt2:
        yield "GPT-2 124M, 4 x 256 tokens", args.gpt2, [*ADAM, "--dim", "seq=256", "--micro-batch", str(4 // world)], tokens


def predicted_ms(tool, target, model, flags):
    out = subprocess.run([tool, model, *flags, "--target", str(target), "--emit", "json"], check=True, capture_output=True, text=True)
    plan = json.loads(out.stdout)
    return 1e3 * plan["stages"][plan["stage"]]["predicted"]["update_seconds"]


def measured_ms(tool, predicted, folder, model, flags, data):
    updates = max(4, min(100, int(1000 / predicted)))
    log = folder / "log.jsonl"
    subprocess.run([tool, model, *flags, "--data", data, "--steps", str(updates), "--log-json", str(log)], check=True,
                   stdout=subprocess.DEVNULL)
    return min(json.loads(line)["step_ms"] for line in log.read_text().splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(HERE.parents[1] / "build/release/bin"))
    parser.add_argument("--gpt2", metavar="MODEL")
    parser.add_argument("--resnet", metavar="MODEL")
    for name, value in (("worlds", "1,2"), ("stages", "0,1,2,3")):  # argparse converts text defaults, too
        parser.add_argument("--" + name, default=value, type=lambda text: [int(n) for n in text.split(",")], metavar="N,M,...")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    args = parser.parse_args()
    dsplan, dsexec = f"{args.bin}/dsplan", f"{args.bin}/dsexec"
    best = {}  # by case: predicted, measured
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for _ in range(args.rounds):
            for world in args.worlds:
                target = folder / f"here{world}.json"
                subprocess.run([dsexec, "--measure-target", str(target), "--world-size", str(world)], check=True,
                               stdout=subprocess.DEVNULL)
                for what, model, flags, data in cases(args, world, folder):
                    for stage in args.stages if world > 1 else args.stages[:1]:
                        all_flags = [*flags, *LOSS, "--world-size", str(world), "--stage", str(stage)]
                        p = predicted_ms(dsplan, target, model, all_flags)
                        m = measured_ms(dsexec, p, folder, model, all_flags, data)
                        before = best.get((what, world, stage), (p, m))
                        best[what, world, stage] = min(before[0], p), min(before[1], m)
    errors = []
    print("| model | ranks | stage | predicted ms | measured ms | error |\n|---|---|---|---|---|---|")
    for (what, world, stage), (p, m) in best.items():
        errors.append(p / m - 1)
        print(f"| {what} | {world} | {stage} | {p:.1f} | {m:.1f} | {100 * errors[-1]:+.1f} % |", flush=True)
    sizes = [100 * abs(e) for e in errors]
    print(f"\nmean of {len(sizes)} errors without sign {statistics.mean(sizes):.1f} %, largest {max(sizes):.1f} %")


if __name__ == "__main__":
    main()
