#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far --offload auto is from the best plan, and how long it takes to plan, under caps of a model's device memory.

    test/bench/gaps.py                                    GPT-2 124M and a small LLaMA, made without weights
    test/bench/gaps.py vit-base/model.onnx -- --micro-batch 8 --loss ce:logits=logits,labels=labels

What comes behind -- is for dsplan. Times are by the rates of `cpu` unless a target is given; planning in processor seconds.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

MODELS = [("gpt2-124m", 256, {}, 4), ("llama-7b", 256, {"layers": 12, "width": 1024}, 4)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*")
    p.add_argument("--dsplan", default="build/release/bin/dsplan")
    p.add_argument("--most", type=float, help="fail where the gap is larger, in percent")
    p.add_argument("--caps", default="100,75,50,35,25", help="percent of the uncapped arena")
    args = sys.argv[1:]
    cut = args.index("--") if "--" in args else len(args)
    a, extra = p.parse_args(args[:cut]), args[cut + 1:]
    with tempfile.TemporaryDirectory() as tmp:
        runs = [(path, os.path.basename(os.path.dirname(path)), []) for path in a.models]
        if not runs:
            sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
            import big_models
            for name, seq, scale, rows in MODELS:
                path = f"{tmp}/{name}.onnx"
                big_models.write(name, path, seq=seq, **scale)
                runs.append((path, name, ["--allow-missing-data", "--micro-batch", str(rows),
                                          "--loss", "ce:logits=logits,labels=labels"]))
        for path, name, flags in runs:
            flags = ["--world-size", "1", "--optimizer", "adamw", *flags, *extra]

            def plan(*more):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                r = subprocess.run([a.dsplan, path, *flags, *more, "--emit", "json"], capture_output=True, text=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if r.returncode not in (0, 2):
                    raise SystemExit(r.stderr)
                return r, after.ru_utime - before.ru_utime

            r, _ = plan()
            whole = json.loads(r.stdout)["stages"][0]["arena_bytes"]
            print(f"{name}: {whole / 2**20:.0f} MiB")
            for cap in a.caps.split(","):
                r, seconds = plan("--offload", "auto", "--device-memory", str(whole * int(cap) // 100))
                if r.returncode == 2:
                    print(f"  {cap:>3} %  does not fit: {r.stderr.splitlines()[0]}")
                    continue
                j = json.loads(r.stdout)
                g = j["offload_auto"]
                if a.most is not None and not 0 <= 100 * g["gap"] <= a.most:
                    raise SystemExit(f"{name} at {cap} %: the gap is {100 * g['gap']:.2f} %")
                print(f"  {cap:>3} %  {j['stages'][0]['arena_bytes'] / 2**20:6.0f} MiB  update {g['update_seconds']:8.4f} s  "
                      f"bound {g['bound_seconds']:8.4f} s  gap {100 * g['gap']:5.2f} %  planned in {seconds:5.2f} s  "
                      f"{next(x for x in j['assumptions'] if x.startswith('offload auto'))}", flush=True)


if __name__ == "__main__":
    main()
