#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one model under caps of its device memory, interleaved with the uncapped run: time, peaks, bits.

    tools/export_model.py gpt2 --preset 124m --out gpt2-124m      (or any other model)
    test/bench/memory_caps.py gpt2-124m/model.onnx --bin build/release/bin -- --dim seq=256 --micro-batch 4 \\
        --loss ce:logits=logits,labels=labels

--offload auto chooses what to move and to recompute. Each round runs all caps once; the median of the updates but the first
counts. A cap holds if the plan fits it; the bits are those of the saved weights. With --policies the rounds also run what people
set by hand, once each, and every cap is compared with the fastest of those that fit it.
"""
import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

POLICIES = {
    "every layer again": ["--recompute", "layers"],
    "every second again": ["--recompute", r"(h|layers?)\.[0-9]*[13579]\."],
    "optimizer on host": ["--offload-optimizer", "cpu"],
    "every, optimizer": ["--recompute", "layers", "--offload-optimizer", "cpu"],
}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--bin", default="build/release/bin")
    p.add_argument("--caps", default="75,50,35,25", help="percent of the uncapped arena")
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--policies", action="store_true", help="beside them fixed policies, without a cap")
    p.add_argument("--out", help="append a JSON line")
    args = sys.argv[1:]
    cut = args.index("--") if "--" in args else len(args)
    a = p.parse_args(args[:cut])  # what comes behind -- is for dsplan and dsexec
    flags = [a.model, "--world-size", "1", "--optimizer", "adamw", "--lr", "1e-4", *args[cut + 1:]]

    def arena(extra):
        r = subprocess.run([f"{a.bin}/dsplan", *flags, *extra, "--emit", "schedule"], capture_output=True, text=True)
        if r.returncode == 2:  # does not fit
            return None
        if r.returncode:
            raise SystemExit(r.stderr)
        return int(re.search(r"arena device bytes=(\d+)", r.stdout)[1])

    whole = arena([])
    runs = [("uncapped", [], whole)]
    for cap in a.caps.split(","):
        limit = whole * int(cap) // 100
        extra = ["--offload", "auto", "--device-memory", str(limit)]
        have = arena(extra)
        if have is None:
            print(f"{cap} %: nothing fits {limit / 2**20:.0f} MiB")
        else:
            runs.append((f"{cap} %", extra, have))
    for name, extra in POLICIES.items() if a.policies else ():
        runs.append((name, extra, arena(extra)))
    times = {name: [] for name, _, _ in runs}
    facts = {}
    with tempfile.TemporaryDirectory() as tmp:
        for _ in range(a.rounds):
            for name, extra, _ in runs:
                log, weights = f"{tmp}/log.jsonl", f"{tmp}/w.safetensors"
                out = subprocess.run([f"{a.bin}/dsexec", *flags, *extra, "--data", "synthetic:3", "--device", "cpu", "--steps",
                                      str(a.steps), "--log-json", log, "--save-model", weights],
                                     capture_output=True, text=True, check=True).stdout
                rows = [json.loads(line) for line in open(log)]
                os.remove(log)
                times[name] += [r["step_ms"] for r in rows[1:] if "step_ms" in r]
                digest = hashlib.sha256(open(weights, "rb").read()).hexdigest()[:12]
                facts[name] = (digest, re.search(r"memory: (.*)", out)[1])
    base = statistics.median(times["uncapped"])
    for name, extra, have in runs:
        t = statistics.median(times[name])
        print(f"{name:18} {have / 2**20:7.0f} MiB  {t:8.0f} ms  {t / base:5.2f}  {facts[name][0]}  {facts[name][1]}  {' '.join(extra)}")
        if a.out:
            with open(a.out, "a") as f:
                f.write(json.dumps({"cap": name, "arena": have, "ms": t, "ratio": t / base, "weights": facts[name][0]}) + "\n")
    fixed = {name: have for name, _, have in runs if name in POLICIES or name == "uncapped"}
    for cap in a.caps.split(",") if a.policies else ():
        if f"{cap} %" in times:
            fits = [n for n, have in fixed.items() if have <= whole * int(cap) // 100]
            best = min(fits, key=lambda n: statistics.median(times[n]), default=None)
            plan = statistics.median(times[f"{cap} %"])
            print(f"{cap} %: " + (f"{plan / statistics.median(times[best]):.3f} of the time of '{best}'" if best else "no fixed policy fits"))
    if len({f[0] for f in facts.values()}) != 1:
        raise SystemExit("the weights differ")


if __name__ == "__main__":
    main()
