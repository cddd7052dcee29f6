#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""end_by_signal.py DIR LOG DSEXEC-ARGUMENTS...: SIGTERM in the middle, then a few updates more, against one run."""
import pathlib
import re
import subprocess
import sys

folder, log = sys.argv[1:3]
base = ["dsexec", *sys.argv[3:], "--log-json"]
run = subprocess.Popen([*base, log, "--steps", "100000", "--checkpoint-dir", folder, "--steps-per-print", "1"],
                       stdout=subprocess.PIPE, text=True)
for line in run.stdout:
    if line.startswith("update 20/"):
        run.terminate()
        break
rest = run.stdout.read()
print(rest, f"exit code {run.wait()}", sep="")
more = int(re.search(r"ended by signal 15 after update (\d+)", rest)[1]) + 5
subprocess.run([*base, log, "--steps", str(more), "--checkpoint-dir", folder, "--resume", "auto"], check=True,
               stdout=subprocess.DEVNULL)
subprocess.run([*base, log + ".whole", "--steps", str(more)], check=True, stdout=subprocess.DEVNULL)
subprocess.run([pathlib.Path(__file__).parent / "same_log.py", log, log + ".whole"], check=True)
print("the same log as in one go")
