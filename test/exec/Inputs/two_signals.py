#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_signals.py COMMAND...: SIGINT and, a little later, SIGTERM while an update takes very long."""
import subprocess
import sys
import time

run = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
run.stdout.readline()  # told right before the handlers are there
time.sleep(0.5)
run.send_signal(2)
time.sleep(0.5)
print("after one signal:", run.poll())
run.terminate()
print("after two signals:", run.wait(timeout=60))
