# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check that measure: memory, kernels, training beside PyTorch, plans beside their predictions."""

import contextlib
import json
import re
import statistics
import sys

from checks import CE, Peak
from session import ROOT, OutOfTime, last_line

sys.path.insert(0, str(ROOT / "test/bench"))
import big_models  # noqa: E402

# Data-sheet rows of dsplan --target for what a driver calls its device, and their dense 16-bit TFLOP/s per device.
TARGETS = [("H200", "h200-141", 989), ("H100", "h100-80", 989), ("A100-SXM4-80", "a100-80", 312), ("A100-SXM4-40", "a100-40", 312),
           ("L40S", "l40s", 362), ("A10", "a10-24", 125), ("3090", "rtx3090", 71), ("4090", "rtx4090", 165)]

# Name, layers, width, tokens per row, rows per device, our bar of the peak
MODELS = {"gpt2-124m": (12, 768, 1024, 16, 0.40), "gpt2-1.5b": (48, 1600, 1024, 8, 0.48)}


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

    def line(text):
        r = json.loads(text) if text.startswith("{") else {}
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

    status, text = s.run([s.tool("gpu_kernels"), "speed", *(["small"] if s.emulated else [])], 90, line)
    if status != 0:
        s.row("gpu_kernels", last_line(text), f"exit status {status}", "FAIL")


def peer_ms(s, name, rows, seq, compiled):
    """PyTorch's median on one device, or None after a row that says why not."""
    what = "PyTorch " + ("compiled" if compiled else "eager")
    preset = {"gpt2-124m": "124M", "gpt2-1.5b": "1.5B"}[name]
    command = [sys.executable, ROOT / "test/bench/torch_gpt2.py", "--preset", preset, "--device", "cuda", "--type", "bf16", "--batch", rows,
               "--seq", seq, "--updates", 8, *(["--compile"] if compiled else [])]
    status, text = s.run(command, 100)
    found = re.search(r"median_ms (\S+)", text)
    if status != 0 or not found:
        s.row(f"{name}, {what}", last_line(text), "", "skipped")
        return None
    return float(found[1])


def train(s):
    """Tokens per second and the part of the data sheet's peak, beside PyTorch eager and compiled on the same work."""
    models = {"gpt2-tiny": (2, 32, 16, 2, 0)} if s.emulated else MODELS
    _, peak = target_of(s)
    for name, (layers, width, seq, rows, bar) in models.items():
        model = model_of(s, name)
        updates = s.dsexec(model, flags_of(s, rows, 1 if s.emulated else 12), 90)
        if updates is None:
            continue
        ms = update_ms(updates)
        rate = rows * s.args.world_size * seq / ms * 1e3
        elements = (model.parent / "weights.bin").stat().st_size / 4
        per_token = 6 * elements + 12 * layers * width * seq  # Chowdhery et al., PaLM, appendix B
        part = rate * per_token / (peak * 1e12 * s.args.world_size) if peak else None
        s.row(f"{name} bf16, {rows} x {seq}", f"{ms:.2f} ms, {rate:.0f} tokens/s",
              f"{100 * part:.1f} % of {peak} TFLOP/s, bar {100 * bar:.0f} %" if part else "no data-sheet peak for this device",
              "" if not part else "ok" if part >= bar else "short", ms=ms, tokens_per_second=rate, mfu=part)
        if s.emulated or s.args.world_size > 1:
            continue
        for compiled in (False, True):
            theirs = peer_ms(s, name, rows, seq, compiled)
            if theirs:
                s.row(f"{name}, PyTorch {'compiled' if compiled else 'eager'}", f"{theirs:.2f} ms", f"ours takes {ms / theirs:.3f} of it",
                      ("ok" if ms <= theirs / 1.05 else "short") if compiled else "", ms=theirs)


def planned(s, model, flags, target):
    """The chosen stage of dsplan's summary as JSON."""
    status, text = s.run([s.tool("dsplan"), model, *flags, "--emit", "json", *(["--target", target] if target else [])], 60)
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


def plans(s):
    """Device memory by NVML beside the plan's, and times beside predictions, under caps, recomputation and offload."""
    name, rows = ("gpt2-tiny", 2) if s.emulated else ("gpt2-124m", 16)
    model = model_of(s, name)
    target, _ = target_of(s)
    flags = flags_of(s, rows, 1 if s.emulated else 8)
    plain = [f for f in flags[:flags.index("--data")]]
    whole = planned(s, model, plain, target)
    if not whole:
        return
    arena = whole["arena_bytes"]
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
            s.row(f"{what}: memory", f"{used / 2**30:.2f} GiB by NVML", f"planned {need / 2**30:.2f} GiB and contexts",
                  "ok" if used <= need + (1 << 30) else "FAIL", used=used, planned=need)
