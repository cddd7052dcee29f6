#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill_saves.py COUNT DIR DSEXEC-ARGUMENTS...: kills a run that saves all the time, at COUNT random moments. After every
kill the newest checkpoint must be complete, not older than the last one that the run had told, and named by `latest`
unless the kill came between the two; the next run goes on from it."""
import pathlib
import random
import re
import subprocess
import sys
import time

count, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
command = ["dsexec", *sys.argv[3:], "--checkpoint-dir", str(folder), "--save-interval", "1", "--resume", "auto",
           "--steps", "1000000"]
random.seed(1)
newest = 0
for kill in range(count):
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told = newest
    # Past the start, then anywhere in the next few saves.
    for line in run.stdout:
        if found := re.match(r"saved update (\d+)", line):
            told = int(found[1])
            break
        if "error" in line:
            sys.exit(f"kill {kill}: {line}")
    time.sleep(random.uniform(0, 0.02))
    run.kill()
    for line in run.stdout:
        if found := re.match(r"saved update (\d+)\b.*\n", line):
            told = int(found[1])
    run.wait()
    complete = sorted(int(p.parent.name[7:]) for p in folder.glob("update-*/manifest.json"))
    if not complete or complete[-1] < told:
        sys.exit(f"kill {kill}: update {told} was told, {complete[-1:]} is there")
    newest = complete[-1]
    subprocess.run(["dsexec", "--inspect", str(folder / f"update-{newest:08d}")], check=True, stdout=subprocess.DEVNULL)
    latest = (folder / "latest").read_text().strip()
    if not (folder / latest / "manifest.json").exists():
        sys.exit(f"kill {kill}: latest names {latest}, which is not complete")
print(f"{count} kills, update {newest} reached")
