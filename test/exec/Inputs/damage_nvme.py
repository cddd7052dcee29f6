#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""damage_nvme.py cut|flip FILE COMMAND...: runs it, and once its second update is through cuts FILE, or changes a byte of
every block, again and again until it ends. Prints its exit code, then its errors."""
import os
import re
import subprocess
import sys
import tempfile
import time

how, path, command = sys.argv[1], sys.argv[2], sys.argv[3:]


def damage():
    with open(path, "r+b") as f:
        if how == "cut":
            f.truncate(4096)
            return
        for at in range(0, os.fstat(f.fileno()).st_size, 4096):
            f.seek(at)
            f.write(os.urandom(1))


with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
    run = subprocess.Popen(command, stdout=out, stderr=err)
    end = time.time() + 120
    while run.poll() is None and time.time() < end:
        text = os.pread(out.fileno(), 1 << 16, 0).decode()
        if any(int(n) >= 2 for n in re.findall(r"update (\d+)/", text)):
            try:
                damage()
            except FileNotFoundError:
                pass  # it has ended meanwhile
        time.sleep(0.05)
    if run.poll() is None:
        run.kill()
        sys.exit("it went on for two minutes")
    print("exit code", run.returncode)
    err.seek(0)
    print(err.read())
