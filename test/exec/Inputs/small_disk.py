#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""small_disk.py BYTES COMMAND...: runs it where no file can grow beyond BYTES, as on a disk that is full."""
import os
import resource
import signal
import sys

limit = int(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
os.execvp(sys.argv[2], sys.argv[2:])
