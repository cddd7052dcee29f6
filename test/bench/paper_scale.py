#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans models that nobody here has on cards that nobody here has, and writes docs/paper-scale.md.

    test/bench/paper_scale.py                  print the page
    test/bench/paper_scale.py --write          write it
    test/bench/paper_scale.py --check          compare with it; and each plan with its limits
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import big_models

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/paper-scale.md"
COMMON = "--allow-missing-data --loss ce:logits=logits,labels=labels --optimizer adamw --lr 1e-4 --set bf16=true --recompute auto"

# title, model, tokens per sample, ranks, 16-bit FLOP/s of the target's data sheet, flags
CASES = [
    ("7B on one card of 24 GiB, with 128 GiB of main memory", "llama-7b", 2048, 1, 165e12,
     "--world-size 1 --target rtx4090 --host-memory 120GiB --offload auto --micro-batch 4 --grad-accum 4"),
    ("30B on 8 x 80 GiB", "llama-30b", 2048, 8, 312e12,
     "--world-size 8 --stage 3 --target a100-80 --offload auto --micro-batch 4 --grad-accum 2"),
    ("175B on 64 x 80 GiB", "gpt3-175b", 2048, 64, 312e12,
     "--world-size 64 --stage 3 --target a100-80 --micro-batch 1 --grad-accum 4"),
]

HEAD = """# Paper scale

Written by `test/bench/paper_scale.py --write`. Models that this project's machines cannot hold, planned for cards that they do not
have: nothing here was run. The graphs are those of exporters, written without weights by `test/bench/big_models.py`; their attention is
fused, without its matrix of scores. Every plan is verified, and its bytes are exact for its graph; times are
[predicted](timeline.md) by [rates of data sheets](targets.md), and where those state nothing, by the defaults that `dsplan` prints.
Parameters and activations are bf16, masters and moments f32: 18 bytes per parameter with the accumulators.
"""


def run(dsplan, model, flags):
    p = subprocess.run([dsplan, str(model), *COMMON.split(), *flags.split(), "--emit", "json"], capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(f"{flags}: exit code {p.returncode}\n{p.stderr}")
    return json.loads(p.stdout)


def size(n):
    return f"{n / 2**30:.1f} GiB" if n >= 2**30 else f"{n / 2**20:.1f} MiB"


def seconds(s):
    return f"{s:.1f} s" if s >= 1 else f"{1e3 * s:.0f} ms"


WORDS = {"compute": "the device's own arithmetic and memory", "comm": "the links between the ranks", "host": "the host's processors, by the rate of main memory",
         "d2h": "the link from the device to main memory", "h2d": "the link from main memory to the device",
         "read": "reading from the disk", "write": "writing to the disk", "feed": "input data"}


def section(title, name, tokens, world, peak, flags, plan, parameters):
    s = plan["stages"][plan["stage"]]
    p = s["predicted"]
    update = p["update_seconds"]
    per_update = tokens * plan["train_batch"]
    rate = per_update / update
    useful = 6 * parameters * rate / world / peak
    streams = {k: v for k, v in p["streams"].items() if v["busy_seconds"] > 0.005 * update}
    first = max(streams, key=lambda k: streams[k]["critical_seconds"])
    r = plan.get("recompute")
    out = f"\n## {title}\n\n    test/bench/big_models.py {name} --seq {tokens} --out model.onnx\n"
    out += f"    dsplan model.onnx {COMMON} \\\n        {flags}\n\n"
    if r and r["launches"]:
        out += f"- Backward computes {r['launches']:,} launches of a micro-batch again, so that a rank needs {size(s['arena_bytes'])} instead of {size(r['arena_bytes_without'])}; that takes {100 * r['extra_time']:.1f} % longer.\n"
    out += f"- Peak of a rank: {size(s['arena_bytes'])} of device memory, {size(s['spare_bytes'])} spare"
    out += f"; {size(s['host_bytes'])} of host memory" if s["host_bytes"] else "; no host memory"
    out += f"; {size(s['nvme_bytes'])} on nvme" if s["nvme_bytes"] else ""
    live = s["peak"]["live"][0]
    out += f". It is at `{s['peak']['instruction']}` in `{s['peak']['program']}`; the largest tensor there is `{live['name']}`, {size(live['bytes'])}.\n"
    out += f"- An update of {plan['train_batch']} x {tokens} tokens takes {seconds(update)}: {rate:,.0f} tokens/s"
    out += f", {rate / world:,.0f} per card, {100 * useful:.0f} % of the data sheet's {peak / 1e12:.0f} TFLOP/s by 6 operations per parameter and token.\n"
    out += f"- What binds: {WORDS[first]} ({100 * streams[first]['critical_seconds'] / update:.0f} % of the critical path).\n\n"
    out += "| stream | busy | compute waits for it | on the critical path |\n|---|---|---|---|\n"
    for k, v in streams.items():
        out += f"| {k} | {seconds(v['busy_seconds'])} | {seconds(v['exposed_seconds'])} | {100 * v['critical_seconds'] / update:.0f} % |\n"
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--dsplan", default=str(ROOT / "build/release/bin/dsplan"))
    a.add_argument("--write", action="store_true")
    a.add_argument("--check", action="store_true")
    args = a.parse_args()
    page = HEAD
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "model.onnx"
        for title, name, tokens, world, peak, flags in CASES:
            parameters, _ = big_models.write(name, model, seq=tokens)
            plan = run(args.dsplan, model, flags)
            stage = plan["stages"][plan["stage"]]
            assert stage["spare_bytes"] >= 0 and plan["world_size"] == world, title
            page += section(title, name, tokens, world, peak, flags, plan, parameters)
            print(f"{title}: {stage['predicted']['update_seconds']:.2f} s", file=sys.stderr)
    if args.write:
        PAGE.write_text(page)
    elif args.check:
        if PAGE.read_text() != page:
            raise SystemExit(f"{PAGE}: plans have changed; test/bench/paper_scale.py --write")
        print(f"{len(CASES)} plans are as {PAGE.name} says")
    else:
        print(page)


if __name__ == "__main__":
    main()
