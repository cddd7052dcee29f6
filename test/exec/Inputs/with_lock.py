#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""with_lock.py DIR COMMAND...: runs it while this process holds the folder, as a run that saves there does."""
import fcntl
import os
import subprocess
import sys

folder = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX)
sys.exit(subprocess.run(sys.argv[2:]).returncode)
