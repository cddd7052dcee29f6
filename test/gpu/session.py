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


class OutOfTime(Exception):
    pass


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

    def left(self):
        return self.args.minutes * 60 - (time.monotonic() - self.begin)

    def row(self, what, value, against="", verdict="", **numbers):
        """verdict: ok, FAIL, short (a bar that is not reached), skipped, or nothing where nothing is judged."""
        self.rows.append({"part": self.part, "what": what, "value": value, "against": against, "verdict": verdict, **numbers})
        print(f"[{time.monotonic() - self.begin:4.0f}s] {self.part:10} {what}: {value}" + (f" ({against})" if against else "")
              + (f"  {verdict}" if verdict else ""), flush=True)
        self.save()

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
        env = dict(os.environ)
        libs = self.args.bin.parent / "lib"
        env["DS_PLUGIN_DIR"] = str(libs / "emulated" if self.emulated else libs)
        if (libs / "carried").is_dir():  # what a bundle brings along
            env["LD_LIBRARY_PATH"] = f"{libs / 'carried'}:{env.get('LD_LIBRARY_PATH', '')}"
        if self.emulated:
            env["DS_EMULATED_CHECKS"] = "0"
        return env

    def run(self, command, at_most, on_line=None, env=None):
        """Runs a command at most so long, and never past the session's end. Returns its exit status and output; a killed
        one raises OutOfTime, a missing one FileNotFoundError."""
        limit = min(at_most, self.left())
        if limit <= 1:
            raise OutOfTime
        end = time.monotonic() + limit
        with open(self.out / f"{self.part}.log", "a") as log:
            print("$", *command, file=log, flush=True)
            child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env or self.environment(),
                                     start_new_session=True)
            lines, held = [], b""
            try:
                while True:
                    if not select.select([child.stdout], [], [], max(0, end - time.monotonic()))[0]:
                        raise OutOfTime
                    piece = os.read(child.stdout.fileno(), 1 << 16)
                    *whole, held = (held + piece).split(b"\n")
                    for line in whole if piece or not held else [*whole, held]:
                        line = line.decode(errors="replace")
                        lines.append(line)
                        print(line, file=log, flush=True)
                        if on_line:
                            on_line(line)
                    if not piece:
                        return child.wait(), "\n".join(lines)
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()

    def dsexec(self, model, flags, at_most, log=None):
        """Trains on the device; returns the updates of its log, or None after a row that says what went wrong."""
        log = log or self.folder / "log.jsonl"
        log.unlink(missing_ok=True)
        status, text = self.run([self.tool("dsexec"), model, "--device", "cuda", "--log-json", log, *flags], at_most)
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
    session.row("stopped", signal.Signals(signum).name, "what was measured until then is kept", "skipped")
    sys.exit(130)
