#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_eval.py OUTPUT GOLDEN.jsonl: the last "evaluation after update N: loss X" of dsexec is PyTorch's loss, to 1e-4."""
import json
import re
import sys

ours = float(re.findall(r"evaluation after update \d+: loss (\S+)", open(sys.argv[1]).read())[-1])
golden = json.loads(open(sys.argv[2]).readline())["loss"]
print(f"evaluated {ours}, PyTorch {golden}")
if not abs(ours - golden) <= 1e-4 * abs(golden):
    sys.exit("too far from PyTorch")
