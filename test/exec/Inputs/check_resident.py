#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_resident.py LOG.jsonl RANKS: the process's peak resident set is at most the plan + 64 MiB + 16 MiB per rank."""

import json
import sys

MIB = 1 << 20
with open(sys.argv[1]) as lines:
    last = json.loads(lines.readlines()[-1])
ranks = int(sys.argv[2])
plan, peak = ranks * last["device_peak_bytes"], last["host_peak_bytes"]
allowed = plan + 64 * MIB + 16 * MIB * ranks
print(f"peak {peak / MIB:.1f} MiB: arenas {plan / MIB:.1f}, the rest {(peak - plan) / MIB:.1f} of {(allowed - plan) / MIB:.0f}")
if not plan < peak <= allowed:
    sys.exit(f"expected at most {allowed / MIB:.1f} MiB")
