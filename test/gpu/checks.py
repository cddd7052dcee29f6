# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check that say whether results are right: parity, golden losses, sanitizer, memory."""

import json
import shutil
import sys
import threading
import time

from session import ROOT, last_line

CE = ["--loss", "ce:logits=logits,labels=labels"]


def device(s):
    """What is there."""
    query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem"
    smi = shutil.which("nvidia-smi")
    if smi and not s.emulated:
        status, text = s.run([smi, f"--query-gpu={query}", "--format=csv,noheader"], 20)
        if status == 0:
            for line in text.splitlines():
                s.row("nvidia-smi", line)
    def line(text):
        about = json.loads(text) if text.startswith("{") else {}
        if "device" in about:
            s.fact("device", about["device"])
            s.fact("emulated", about["emulated"])
            s.row("plugin", about["device"] + (", emulated: no GPU took part" if about["emulated"] else ""),
                  f"{about['memory'] / 2**30:.1f} GiB", "ok")
    status, text = s.run([s.tool("gpu_kernels"), "parity", "neg"], 60, line)
    if status != 0 or "device" not in s.facts:
        s.row("plugin", last_line(text), "", "FAIL")
        return False
    return True


def parity(s):
    """Every row of the plugin against the reference kernels; what libraries compute, by our own kernels, too."""
    rows_of(s, "rows", ["add", "softmax", "adam"] if s.emulated else [], s.environment())
    own = ["conv"] if s.emulated else ["matmul", "conv", "conv_grad_input", "conv_grad_weight"]
    rows_of(s, "rows without libraries", own, dict(s.environment(), DS_CUDA_LIBRARIES="none"))


def rows_of(s, what, rows, environment):
    count = {"rows": 0, "cases": 0, "failures": 0}

    def line(text):
        r = json.loads(text) if text.startswith("{") else {}
        if "row" not in r:
            return
        count["rows"] += 1
        count["cases"] += r["cases"]
        if r["failure"]:
            count["failures"] += 1
            s.row(r["row"], r["failure"], what, "FAIL")

    status, text = s.run([s.tool("gpu_kernels"), "parity", *rows], 100, line, environment)
    bad = count["failures"] or status not in (0, 1)
    s.row(what, f"{count['rows']} of {count['cases']} cases, {count['failures']} wrong", "ref", "FAIL" if bad else "ok", **count)
    if status not in (0, 1):
        s.row("gpu_kernels", last_line(text), f"exit status {status}", "FAIL")


def golden(s):
    """Losses and gradient norms of PyTorch, stored in the repository."""
    small = ROOT / "models/gpt2-small/model.onnx"
    data = f"tokens:{ROOT / 'data/train.bin'}"
    tiny = ROOT / "test/models/gpt2-tiny/dynamo/model.onnx"
    tokens = f"tokens:{ROOT / 'test/golden/gpt2-tiny/tokens.bin'}"
    cases = [(tiny, "gpt2-tiny", "sgd", tokens, ["--micro-batch", 2], 50),
             (tiny, "gpt2-tiny", "adamw-clip", tokens, ["--micro-batch", 2], 50),
             (small, "gpt2-small", "adamw-8", data, ["--dim", "seq=64"], 50),
             (small, "gpt2-small", "sgd-8", data, ["--dim", "seq=64"], 50)]
    world = s.args.world_size
    if world in (1, 2, 4):  # a ResNet normalises by the rows of a rank
        images = s.folder / "images"
        s.run([sys.executable, ROOT / "test/exec/Inputs/random_images.py", images, 64, 3, 64, 10, 1], 120)
        cases.append((ROOT / "test/models/resnet18-narrow/model.onnx", "resnet18-narrow", "sgd" if world == 1 else f"sgd-{world}-ranks",
                      f"npy:{images}", ["--micro-batch", 32 // world], 5 if world == 4 else 20))
    if s.emulated:
        cases = [c[:5] + (1,) for c in (cases[0], *cases[4:])]
    for model, folder, run, source, flags, steps in cases:
        flags = flags + ["--config", ROOT / f"test/golden/{folder}/{run}.ds_config.json", "--world-size", world, *CE, "--data", source,
                         "--no-shuffle", "--steps", steps]
        if world > 1:
            flags += ["--stage", 3]
        log = s.folder / "golden.jsonl"
        if s.dsexec(model, flags, 60, log) is None:
            continue
        compare = [ROOT / "test/exec/Inputs/compare_log.py", log, ROOT / f"test/golden/{folder}/{run}.jsonl"]
        status, text = s.run([sys.executable, *compare, *(["0", steps] if s.emulated or steps == 5 else [])], 20)
        s.row(f"{folder} {run}, {steps} updates", text.splitlines()[0], "PyTorch, within compare_log.py's allowance",
              "ok" if status == 0 else "FAIL")


def sanitizer(s):
    """compute-sanitizer on an update of a small model."""
    tool = shutil.which("compute-sanitizer")
    if s.emulated or not tool:
        s.row("compute-sanitizer", "not run", "emulated" if s.emulated else "not installed", "skipped")
        return
    model = ROOT / "test/models/gpt2-tiny/dynamo/model.onnx"
    run = [s.tool("dsexec"), model, "--device", "cuda", "--world-size", 1, "--micro-batch", 2, "--optimizer", "adamw", *CE, "--data",
           f"tokens:{ROOT / 'test/golden/gpt2-tiny/tokens.bin'}", "--steps", 1]
    for kind in ("memcheck", "racecheck", "initcheck", "synccheck"):
        status, text = s.run([tool, "--tool", kind, "--error-exitcode", "9", *run], 60)
        if "Device not supported" in text:
            s.row(kind, "not possible here", "the sanitizer does not support this machine's device", "skipped")
            return
        summary = [line for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line]
        s.row(kind, summary[-1].strip("= ") if summary else last_line(text), "", "ok" if status == 0 else "FAIL")


class Nvml:
    """Device memory in use, by NVIDIA's management library."""

    def __init__(self):
        import ctypes
        self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        self.ctypes = ctypes
        if self.lib.nvmlInit_v2() != 0:
            raise OSError("nvmlInit failed")
        self.handle = ctypes.c_void_p()
        if self.lib.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) != 0:
            raise OSError("nvmlDeviceGetHandleByIndex failed")

    def used(self):
        figures = (self.ctypes.c_ulonglong * 3)()  # total, free, used
        if self.lib.nvmlDeviceGetMemoryInfo(self.handle, figures) != 0:
            raise OSError("nvmlDeviceGetMemoryInfo failed")
        return figures[2]


class Peak(threading.Thread):
    """The most device memory in use beyond what was in use before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.nvml = Nvml()
        self.before = self.most = self.nvml.used()
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            self.most = max(self.most, self.nvml.used())
            time.sleep(0.02)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()

    def bytes(self):
        return self.most - self.before
