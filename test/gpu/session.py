# SPDX-License-Identifier: Apache-2.0
"""What the parts of tools/gpu_check share: where things are, time that is left, results that are kept as they come."""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the repository, or of a bundle


KILLED = 124  # as timeout(1) has it
MOST_LINES, MOST_LOG = 20000, 12 << 20


class OutOfTime(Exception):
    pass


def python_libraries():
    """Folders of NVIDIA's libraries that Python packages hold, where the loader does not look: those PyTorch uses."""
    found = []
    for base in sys.path:
        for name in ("cublasLt", "cudnn", "nccl", "nvrtc"):
            for file in sorted(pathlib.Path(base or ".").glob(f"nvidia/*/lib/lib{name}.so*")):
                if str(file.parent) not in found:
                    found.append(str(file.parent))
    return found


def wait(child, seconds):
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def kill(child):
    """With all that it started; what hangs in the driver cannot be killed, and is not waited for."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    wait(child, 5)
    child.stdout.close()


class Session:
    """One run. Results are rows (part, what, value, against, verdict); the JSON file is complete after each."""

    def __init__(self, args):
        self.args = args
        self.begin = time.monotonic()
        self.rows, self.facts = [], {}
        self.part = ""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpu_check."))
        self.out = pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        for name in ("gpu-check.json", "gpu-check.log"):  # of one run before this
            if (self.out / name).exists():
                (self.out / name).replace(self.out / f"before-{name}")

    def left(self):
        return self.args.minutes * 60 - (time.monotonic() - self.begin)

    def row(self, what, value, against="", verdict="", **numbers):
        """verdict: ok, FAIL, short (a bar that is not reached), skipped, or nothing where nothing is judged."""
        self.rows.append({"part": self.part, "what": what, "value": value, "against": against, "verdict": verdict, **numbers})
        self.save()  # before printing, which a closed pipe ends
        print(f"[{time.monotonic() - self.begin:4.0f}s] {self.part:10} {what}: {value}" + (f" ({against})" if against else "")
              + (f"  {verdict}" if verdict else ""), flush=True)

    def fact(self, name, value):
        self.facts[name] = value
        self.save()

    def save(self):
        text = json.dumps({"facts": self.facts, "rows": self.rows}, indent=1) + "\n"
        part = self.out / "gpu-check.json.part"
        part.write_text(text)
        part.replace(self.out / "gpu-check.json")

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)  # weights of large models

    @property
    def emulated(self):
        return self.args.emulated

    def tool(self, name):
        return str(pathlib.Path(self.args.bin) / name)

    def environment(self):
        """Of our own programs. Others, PyTorch above all, keep the environment they are called in."""
        env = dict(os.environ)
        libs = self.args.bin.parent / "lib"
        env["DS_PLUGIN_DIR"] = str(libs / "emulated" if self.emulated else libs)
        carried = [libs / "carried"] if (libs / "carried").is_dir() else []  # what a bundle brings along
        given = env.get("LD_LIBRARY_PATH", "")
        env["LD_LIBRARY_PATH"] = ":".join([*map(str, carried), *([given] if given else []), *python_libraries()])
        if self.emulated:
            env["DS_EMULATED_CHECKS"] = "0"
        return env

    def run(self, command, at_most, on_line=None, env=None):
        """Runs a command at most so long, and never past the session's end, which raises OutOfTime. Returns its exit status, KILLED
        where it took longer, and its output; a missing one raises FileNotFoundError."""
        limit = min(at_most, self.left())
        if limit <= 1:
            raise OutOfTime
        begin = time.monotonic()
        command = [str(c) for c in command]
        with open(self.out / "gpu-check.log", "a") as log:
            self.log(log, f"[{begin - self.begin:.1f}s] {self.part} $ {' '.join(command)}")
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     env=env or dict(os.environ), start_new_session=True)
            lines, held, status = [], b"", None
            try:
                while True:
                    late = time.monotonic() - begin > limit
                    ended = child.poll() is not None
                    if not late and not select.select([child.stdout], [], [], 0 if ended else 0.2)[0]:
                        if not ended:
                            continue
                        piece = b""  # its own children may hold the pipe open
                    else:
                        piece = b"" if late else os.read(child.stdout.fileno(), 1 << 16)
                    *whole, held = (held + piece).split(b"\n")
                    for line in whole if piece or not held else [*whole, held]:
                        line = line.decode(errors="replace")
                        lines.append(line)
                        self.log(log, line)
                        if on_line:
                            on_line(line)
                    if late:
                        break
                    if not piece:
                        status = wait(child, 5)
                        break
            finally:
                kill(child)
                self.log(log, f"[{time.monotonic() - self.begin:.1f}s] exit status {status if status is not None else 'none: killed'}")
        if status is None:
            if self.left() <= 1:
                raise OutOfTime
            return KILLED, f"error: took longer than {limit:.0f} s"
        return status, "\n".join(lines[-MOST_LINES:])

    def log(self, file, line):
        """What programs print, as long as there is not too much of it."""
        if file.tell() < MOST_LOG:
            print(line[:2000], file=file, flush=True)

    def own(self, name, flags, at_most, on_line=None, env=None):
        """run() for one of our programs."""
        return self.run([self.tool(name), *flags], at_most, on_line, env or self.environment())

    def dsexec(self, model, flags, at_most, log=None):
        """Trains on the device; returns the updates of its log, or None after a row that says what went wrong."""
        log = log or self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        status, text = self.own("dsexec", [model, "--device", "cuda", "--log-json", log, *flags], at_most)
        if status != 0:
            self.row(f"dsexec {pathlib.Path(model).parent.name}", last_line(text), f"exit status {status}", "FAIL")
            return None
        return [json.loads(line) for line in log.read_text().splitlines()]


def last_line(text):
    errors = [line for line in text.splitlines() if re.search(r"error|Error", line)]
    lines = errors or text.splitlines() or ["(no output)"]
    return lines[0].strip()[:200]


def stop(session, signum, frame):
    del frame
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # what is left is short
    session.row("stopped", signal.Signals(signum).name, "what was measured until then is kept", "skipped")
    sys.exit(130)
