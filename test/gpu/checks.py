# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/gpu_check that say whether results are right: parity, golden losses, sanitizer, memory."""

import contextlib
import json
import shutil
import sys
import threading
import time

from session import ROOT, last_line

TINY = ROOT / "test/models/gpt2-tiny/dynamo/model.onnx"
TOKENS = ROOT / "test/golden/gpt2-tiny/tokens.bin"
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
    status, text = s.own("gpu_kernels", ["parity", "neg"], 90, line)
    if status != 0:
        s.row("plugin", last_line(text), f"exit status {status}", "FAIL")
    if "device" not in s.facts:
        return False
    libraries(s)
    return True


def libraries(s):
    """Without cuBLASLt every figure is another one, so that is no detail."""
    status, text = s.own("dsexec", [TINY, "--device", "cuda", "--world-size", 1, "--micro-batch", 2, "--optimizer", "adamw", *CE, "--data",
                                    f"tokens:{TOKENS}", "--steps", 1, "--verbose"], 90)
    about = next((line for line in text.splitlines() if line.startswith("device cuda: ")), "")
    if status != 0 or not about:
        s.row("libraries", last_line(text), f"exit status {status}", "FAIL")
        return
    s.fact("libraries", about)
    short = "cuBLASLt is missing" in about
    s.row("libraries", about.removeprefix("device cuda: "),
          "set LD_LIBRARY_PATH or DS_CUDA_LIBRARY_PATH to the folder of libcublasLt.so" if short else "", "FAIL" if short else "ok")


def parity(s):
    """Every row of the plugin against the reference kernels; what libraries compute, by our own kernels, too."""
    rows_of(s, "rows", ["add", "softmax", "adam"] if s.emulated else [], None, 110)
    own = ["conv"] if s.emulated else ["matmul", "conv", "conv_grad_input", "conv_grad_weight"]
    rows_of(s, "rows without libraries", own, dict(s.environment(), DS_CUDA_LIBRARIES="none"), 50)


def rows_of(s, what, rows, environment, at_most):
    count = {"rows": 0, "cases": 0, "failures": 0}

    def line(r):
        if "row" not in r:
            return
        count["rows"] += 1
        count["cases"] += r["cases"]
        if r["failure"]:
            count["failures"] += 1
            s.row(r["row"], r["failure"], what, "FAIL")

    whole = gpu_kernels(s, "parity", rows, at_most, line, environment)
    bad = count["failures"] or not whole or not count["rows"]
    s.row(what, f"{count['rows']} of {count['cases']} cases, {count['failures']} wrong", "ref", "FAIL" if bad else "ok", **count)


def gpu_kernels(s, mode, names, at_most, on_result, env=None):
    """Runs the program, and again for what is left where one thing takes it, or the device, down. False if anything did."""
    end, begun = time.monotonic() + at_most, []

    def line(text):
        r = json.loads(text) if text.startswith("{") else {}
        if "begin" in r:
            begun.append(r["begin"])
        on_result(r)

    for _ in range(4):
        already = len(begun)
        status, text = s.own("gpu_kernels", [mode, *names, *(f"-{name}" for name in begun)], max(5, end - time.monotonic()), line, env)
        if status in (0, 1) and begun:
            return not already
        at = begun[-1] if len(begun) > already else "start"
        s.row(f"gpu_kernels at {at}", last_line(text), f"exit status {status}", "FAIL")
        if len(begun) == already or time.monotonic() > end:
            break
    return False


def golden(s):
    """Losses and gradient norms of PyTorch, stored in the repository."""
    small = ROOT / "models/gpt2-small/model.onnx"
    data = f"tokens:{ROOT / 'data/train.bin'}"
    tiny, tokens = TINY, f"tokens:{TOKENS}"
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
        s.row(f"{folder} {run}, {steps} updates", (text.splitlines() or ["(no output)"])[0], "PyTorch, within compare_log.py's allowance",
              "ok" if status == 0 else "FAIL")


def sanitizer(s):
    """compute-sanitizer on an update of a small model."""
    tool = shutil.which("compute-sanitizer")
    if s.emulated or not tool:
        s.row("compute-sanitizer", "not run", "emulated" if s.emulated else "not installed", "skipped")
        return
    run = [s.tool("dsexec"), TINY, "--device", "cuda", "--world-size", 1, "--micro-batch", 2, "--optimizer", "adamw", *CE, "--data",
           f"tokens:{TOKENS}", "--steps", 1]
    env = dict(s.environment(), DS_CUDA_LIBRARIES="none")  # our kernels are meant, and libraries have thousands
    for kind in ("memcheck", "racecheck", "initcheck", "synccheck"):
        status, text = s.run([tool, "--tool", kind, "--error-exitcode", "9", *run], 60, env=env)
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

    def busy(self):
        """Percent of the driver's last period in which a kernel ran, or None."""
        rates = (self.ctypes.c_uint * 2)()  # of the GPU, of its memory
        return rates[0] if self.lib.nvmlDeviceGetUtilizationRates(self.handle, rates) == 0 else None


class Peak(threading.Thread):
    """The most device memory in use beyond what was in use before, and how busy the device was."""

    def __init__(self):
        super().__init__(daemon=True)
        self.nvml = Nvml()
        self.before = self.most = self.nvml.used()
        self.busy = []
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            with contextlib.suppress(OSError):  # one that is missed is no harm
                self.most = max(self.most, self.nvml.used())
            if (busy := self.nvml.busy()) is not None:
                self.busy.append(busy)
            time.sleep(0.02)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()

    def bytes(self):
        return self.most - self.before
