# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check that measure: memory, kernels, training beside PyTorch, plans beside their predictions."""

import collections
import contextlib
import gzip
import json
import re
import shutil
import statistics
import sys

from checks import CE, TINY, TOKENS, Peak, gpu_kernels
from session import ROOT, OutOfTime, last_line

sys.path.insert(0, str(ROOT / "test/bench"))
import big_models  # noqa: E402

# Data-sheet rows of dsplan --target for what a driver calls its device, and their dense 16-bit TFLOP/s per device.
TARGETS = [("H200", "h200-141", 989), ("H100", "h100-80", 989), ("A100-SXM4-80", "a100-80", 312), ("A100-SXM4-40", "a100-40", 312),
           ("L40S", "l40s", 362), ("A10", "a10-24", 125), ("3090", "rtx3090", 71), ("4090", "rtx4090", 165)]

# Name, layers, width, tokens per row, rows per device, our bar of the peak, updates
MODELS = {"gpt2-124m": (12, 768, 1024, 32, 0.40, 100), "gpt2-1.5b": (48, 1600, 1024, 8, 0.48, 20)}
EMULATED = (2, 32, 16, 2, 0, 1)


def target_of(s):
    for part, name, peak in TARGETS:
        if part in s.facts.get("device", ""):
            return name, peak
    return None, None


def model_of(s, name):
    """The model's file, made when it is first asked for."""
    folder = s.folder / name
    if not (folder / "model.onnx").exists():
        folder.mkdir()
        big_models.write(name, str(folder / "model.onnx"), weights=1)
    return folder / "model.onnx"


def flags_of(s, rows, steps):
    return ["--micro-batch", rows, "--world-size", s.args.world_size, "--stage", 1 if s.args.world_size > 1 else 0, "--optimizer", "adamw",
            "--lr", "1e-4", "--set", "weight_decay=0.01", "--set", "bf16=true", *CE, "--data", "synthetic:1", "--steps", steps]


def update_ms(updates):
    """Median without the first, which warms up."""
    return statistics.median(u["step_ms"] for u in updates[min(2, len(updates) - 1):])


def kernels(s):
    """Achieved rates of every kernel of an update beside ceilings measured here."""
    best = {}

    def line(r):
        if "ceiling" in r:
            if "us" in r:
                best[r["ceiling"]] = r
            value = r.get("error") or r.get("skipped") or (f"{r['TFLOP/s']:.2f} TFLOP/s" if "TFLOP/s" in r else f"{r['GB/s']:.1f} GB/s" if "GB/s" in r
                                          else f"{r['us']:.2f} us")
            s.row(r["ceiling"], value, "ceiling", "FAIL" if "error" in r else "", **r)
        if "kernel" in r:
            if "us" not in r:
                s.row(r["kernel"], r.get("error", r.get("skipped")), "", "FAIL" if "error" in r else "skipped")
                return
            half = r["kernel"].endswith("bf16")
            if "TFLOP/s" in r:
                top = best.get("product bf16" if half else "product f32", {}).get("TFLOP/s", 0)
                value, part = f"{r['us']:.1f} us, {r['TFLOP/s']:.2f} TFLOP/s", r["TFLOP/s"] / top if top else 0
                against = f"{100 * part:.0f} % of the largest product"
            else:
                top = best.get("copy on the device", {}).get("GB/s", 0)
                value, part = f"{r['us']:.1f} us, {r['GB/s']:.1f} GB/s", r["GB/s"] / top if top else 0
                against = f"{100 * part:.0f} % of a copy"
            s.row(r["kernel"], value, against, "", share=part, **{k: v for k, v in r.items() if k != "kernel"})

    gpu_kernels(s, "speed", ["small"] if s.emulated else [], 100, line)


def peer_ms(s, name, rows, seq, compiled):
    """PyTorch's median on one device, or None after a row that says why not."""
    what = "PyTorch " + ("compiled" if compiled else "eager")
    preset = {"gpt2-124m": "124M", "gpt2-1.5b": "1.5B"}[name]
    command = [sys.executable, ROOT / "test/bench/torch_gpt2.py", "--preset", preset, "--device", "cuda", "--type", "bf16", "--batch", rows,
               "--seq", seq, "--updates", 8, *(["--compile", "blocks" if name == "gpt2-1.5b" else "whole"] if compiled else [])]
    status, text = s.run(command, 110)
    found = re.search(r"median_ms (\S+)", text)
    if status != 0 or not found:
        s.row(f"{name}, {what}", last_line(text), "", "skipped")
        return None
    return float(found[1])


def train(s):
    """Tokens per second and the part of the data sheet's peak, beside PyTorch eager and compiled on the same work."""
    if s.emulated:
        measure_model(s, "gpt2-tiny", *EMULATED)
    else:
        measure_model(s, "gpt2-124m", *MODELS["gpt2-124m"])


def large(s):
    """The same of the large model, whose weights alone take a while to make."""
    if s.emulated:
        s.row("gpt2-1.5b", "not run", "emulated", "skipped")
    else:
        measure_model(s, "gpt2-1.5b", *MODELS["gpt2-1.5b"])


def measure_model(s, name, layers, width, seq, rows, bar, steps):
    target, peak = target_of(s)
    world = s.args.world_size
    model = model_of(s, name)
    flags = flags_of(s, rows, steps)
    plan = planned(s, model, flags[:flags.index("--data")], target) or {}
    predicted = plan.get("predicted", {}).get("update_seconds", 0) * 1e3
    with with_peak(s) as memory:
        updates = s.dsexec(model, [*flags, "--verbose"], 100)
    if updates is None:
        return
    ms = update_ms(updates)
    rate = rows * world * seq / ms * 1e3
    elements = (model.parent / "weights.bin").stat().st_size / 4
    per_token = 6 * elements + 12 * layers * width * seq  # Chowdhery et al., PaLM, appendix B
    part = rate * per_token / (peak * 1e12 * world) if peak else None
    s.row(f"{name} bf16, {rows} x {seq}", f"{ms:.2f} ms, {rate:.0f} tokens/s" + (f", predicted {predicted:.2f} ms" if predicted else ""),
          f"{100 * part:.1f} % of {peak} TFLOP/s, bar {100 * bar:.0f} %" if part else "no data-sheet peak for this device",
          "" if not part else "ok" if part >= bar else "short", ms=ms, tokens_per_second=rate, mfu=part, predicted_ms=predicted,
          fastest_ms=min(u["step_ms"] for u in updates), all_ms=[u["step_ms"] for u in updates],
          enqueue_ns=updates[-1].get("enqueue_ns"), graph_launches=updates[-1].get("graph_launches"),
          **({"bar": f"{name}: {100 * bar:.0f} % of the peak"} if part else {}))
    busy_row(s, name, memory)
    profile(s, name, model, flags_of(s, rows, 3), target, ms)
    if s.emulated or world > 1:
        return
    for compiled in (True, False):
        theirs = peer_ms(s, name, rows, seq, compiled)
        if theirs:
            s.row(f"{name}, PyTorch {'compiled' if compiled else 'eager'}", f"{theirs:.2f} ms", f"ours takes {ms / theirs:.3f} of it",
                  ("ok" if ms <= theirs / 1.05 else "short") if compiled else "", ms=theirs,
                  **({"bar": f"{name}: 5 % faster than compiled PyTorch"} if compiled else {}))


def busy_row(s, name, memory):
    """What the driver says: the part of its last period, a sixth of a second or more, in which a kernel ran, in whole percent."""
    samples = [b for b in memory.busy if b > 50] if memory else []  # loading is no training
    if len(samples) < 10:
        return
    busy = statistics.median(samples)
    s.row(f"{name}: busy", f"{busy:.0f} % by NVML", "bar 98 %, which its samples show roughly", "ok" if busy > 98 else "short", busy=busy,
          bar=f"{name}: the GPU is idle less than 2 %")


def durations(path):
    """Milliseconds and launches of an update, by stream, op and label: medians over the updates of a Chrome trace."""
    events = json.loads(path.read_text())["traceEvents"]
    streams = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    of = collections.defaultdict(lambda: collections.defaultdict(list))
    for e in events:
        if e["ph"] == "X" and e["pid"] == 0:
            of[streams[e["tid"]], e["cat"], e["name"]][e["args"]["update"]].append(e["dur"] / 1e3)
    return {key: (statistics.median(map(sum, updates.values())), max(map(len, updates.values()))) for key, updates in of.items()}


def profile(s, name, model, flags, target, whole_ms):
    """Where the time of an update goes: every instruction by itself, beside what was predicted; slowest ops and instructions first.
    Each has the time of a launch and of waiting for it within, some microseconds."""
    trace = s.folder / "trace.json"
    if s.dsexec(model, [*flags, "--trace", trace], 60) is None:
        return
    measured = durations(trace)
    with open(trace, "rb") as plain, gzip.open(s.out / f"trace-{name}.json.gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    predicted = {}
    if target:
        timeline = s.folder / "timeline.json"
        status, text = s.own("dsplan", [model, *flags[:flags.index("--data")], "--target", target, "--emit", "timeline", "-o", timeline], 60)
        if status == 0:
            predicted = durations(timeline)
    sums = collections.defaultdict(lambda: [0.0, 0, 0.0])
    for (stream, op, label), (ms, count) in measured.items():
        one = sums[stream, op]
        one[0] += ms
        one[1] += count
        one[2] += predicted.get((stream, op, label), (0, 0))[0]
    total = sum(ms for (stream, _), (ms, _, _) in sums.items() if stream == "compute")
    s.row(f"{name}: instructions one by one", f"{total:.2f} ms on the compute stream", f"an update takes {whole_ms:.2f} ms", total_ms=total)
    for (stream, op), (ms, count, guess) in sorted(sums.items(), key=lambda i: -i[1][0])[:12]:
        s.row(f"{name}: {op}", f"{ms:.3f} ms in {count}, {stream}", f"predicted {guess:.3f} ms" if guess else "", ms=ms, count=count,
              predicted_ms=guess, stream=stream)
    slowest = sorted(measured.items(), key=lambda i: -i[1][0])[:100]
    s.fact(f"profile of {name}", [{"stream": stream, "op": op, "label": label, "ms": round(ms, 4), "count": count,
                                   "predicted_ms": round(predicted.get((stream, op, label), (0, 0))[0], 4)}
                                  for (stream, op, label), (ms, count) in slowest])


def planned(s, model, flags, target):
    """The chosen stage of dsplan's summary as JSON."""
    status, text = s.own("dsplan", [model, *flags, "--emit", "json", *(["--target", target] if target else [])], 90)
    if status != 0:
        s.row("dsplan", last_line(text), "", "FAIL")
        return None
    plan = json.loads(text[text.index("{"):])
    return next(one for one in plan["stages"] if one["stage"] == plan["stage"])


def with_peak(s):
    try:
        return contextlib.nullcontext() if s.emulated else Peak()
    except OSError as e:
        s.row("NVML", str(e), "", "skipped")
        return contextlib.nullcontext()


def contexts_of(s):
    """Device memory beyond the plan's that a run of a tiny model takes: the driver's, kernels, libraries."""
    with with_peak(s) as peak:
        if peak:
            s.dsexec(TINY, ["--world-size", 1, "--micro-batch", 2, "--optimizer", "adamw", *CE, "--data", f"tokens:{TOKENS}", "--set", "bf16=true",
                            "--steps", 200], 60)
    return peak.bytes() if peak else 0


def plans(s):
    """Device memory by NVML beside the plan's, and times beside predictions, under caps, recomputation and offload."""
    name, rows = ("gpt2-tiny", 2) if s.emulated else ("gpt2-124m", MODELS["gpt2-124m"][3])
    model = model_of(s, name)
    target, _ = target_of(s)
    flags = flags_of(s, rows, 1 if s.emulated else 8)
    plain = [f for f in flags[:flags.index("--data")]]
    whole = planned(s, model, plain, target)
    if not whole:
        return
    arena = whole["arena_bytes"]
    contexts = contexts_of(s)
    runs = [("kept", [])] + [(f"{p} % of the memory", ["--device-memory", arena * p // 100, "--memory-reserve", 0, "--recompute", "auto", "--offload", "auto"])
                             for p in ((60,) if s.emulated else (75, 50, 35))]
    runs += [("recompute layers", ["--recompute", "layers"]), ("optimizer on the host", ["--offload-optimizer", "cpu"])]
    for what, more in runs[:2] if s.emulated else runs:
        if s.left() < 20:
            raise OutOfTime
        plan = planned(s, model, plain + more, target)
        if not plan:
            continue
        chosen = ["--target", target] if target and "--device-memory" not in more else []
        with with_peak(s) as peak:
            updates = s.dsexec(model, flags + more + chosen, 60)
        if updates is None:
            continue
        ms, predicted = update_ms(updates), plan.get("predicted", {}).get("update_seconds", 0) * 1e3
        s.row(f"{what}: time", f"{ms:.2f} ms", f"predicted {predicted:.3g} ms" if predicted else "no data-sheet rates for this device", "",
              ms=ms, predicted_ms=predicted)
        if peak:
            used, need = peak.bytes(), plan["arena_bytes"]
            s.row(f"{what}: memory", f"{used / 2**30:.2f} GiB by NVML", f"planned {need / 2**30:.2f} GiB and contexts of {contexts / 2**30:.2f}",
                  "ok" if used <= need + max(contexts + (1 << 28), 1 << 30) else "FAIL", used=used, planned=need, contexts=contexts)
