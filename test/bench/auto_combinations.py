#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--offload auto against every coarse combination of flags: none that fits is faster, and none beats the bound.

    test/bench/auto_combinations.py [--quick]

A small LLaMA, made without weights, on targets whose streams run beside each other, under caps of its memory.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

# target, ranks, stage, micro-batches per update
SETTINGS = [("a10-24", 1, 0, 2), ("h100-80", 2, 3, 1), ("a10-24", 1, 0, 1), ("rtx4090", 1, 0, 4), ("a10-24", 4, 1, 2),
            ("h100-80", 4, 2, 2), ("a10-24", 3, 3, 3), ("h100-80", 1, 0, 1)]
QUICK = 2


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dsplan", default="build/release/bin/dsplan")
    p.add_argument("--quick", action="store_true")
    a = p.parse_args()
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import big_models
    with tempfile.TemporaryDirectory() as tmp:
        path = f"{tmp}/llama.onnx"
        big_models.write("llama-7b", path, seq=256, layers=3 if a.quick else 12, width=512)
        for target, world, stage, accum in SETTINGS[:QUICK] if a.quick else SETTINGS:
            common = [a.dsplan, path, "--allow-missing-data", "--loss", "ce:logits=logits,labels=labels", "--optimizer", "adamw",
                      "--micro-batch", "4", "--target", target, "--world-size", str(world), "--stage", str(stage), "--grad-accum", str(accum)]

            def plan(*more):
                """None: it does not fit."""
                r = subprocess.run([*common, *more, "--emit", "json"], capture_output=True, text=True)
                if r.returncode not in (0, 2):
                    raise SystemExit(f"{' '.join([*common, *more])}\n{r.stderr}")
                return json.loads(r.stdout) if r.returncode == 0 else None

            whole = plan()["stages"][stage]["arena_bytes"]
            places = (["none", "cpu"] if world == 1 or stage > 0 else ["none"], ["none", "cpu"] if world == 1 or stage == 3 else ["none"])
            for cap in [45] if a.quick else [80, 45, 30]:
                limit = ["--device-memory", str(whole * cap // 100), "--memory-reserve", "0"]
                auto = plan(*limit, "--offload", "auto")
                fits = 0
                for optimizer, param, values, recompute in itertools.product(*places, [None, "."], ["none", "auto"]):
                    flags = ["--offload-optimizer", optimizer, "--offload-param", param, "--recompute", recompute]
                    hand = plan(*limit, *flags, *(["--offload-activations", values] if values else []))
                    if hand is None:
                        continue
                    fits += 1
                    seconds = hand["stages"][stage]["predicted"]["update_seconds"]
                    what = f"{target}, {world} ranks, stage {stage}, {accum} micro-batches, {cap} %: {' '.join(flags)} {values or ''}"
                    if auto is None:
                        raise SystemExit(f"{what}: fits, but --offload auto finds nothing")
                    found = auto["offload_auto"]
                    if seconds < found["update_seconds"] * (1 - 1e-9):
                        raise SystemExit(f"{what}: {seconds} s, but --offload auto {found['update_seconds']} s")
                    if seconds < found["bound_seconds"] * (1 - 1e-9):
                        raise SystemExit(f"{what}: {seconds} s, below the bound of {found['bound_seconds']} s")
                if auto:
                    print(f"{target}, {world} ranks, stage {stage}, {accum} micro-batches, {cap} %: "
                          f"{auto['offload_auto']['update_seconds']:.4f} s, gap {100 * auto['offload_auto']['gap']:.1f} %, {fits} combinations fit", flush=True)
    print("none is faster")


if __name__ == "__main__":
    main()
