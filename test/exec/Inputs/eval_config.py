#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""eval_config.py CONFIG FOLDER: the config for 4 ranks and for 1, with the same global batch.
eval_config.py --compare A.jsonl B.jsonl: the losses of evaluations after the same update agree to 1e-5."""
import json
import sys

if sys.argv[1] == "--compare":
    a, b = ({r["step"]: r["eval_loss"] for r in map(json.loads, open(path)) if "eval_loss" in r} for path in sys.argv[2:])
    common = set(a) & set(b)
    if not common or any(abs(a[s] - b[s]) > 1e-5 * b[s] for s in common):
        sys.exit(f"{a}, and {b}")
else:
    config = json.load(open(sys.argv[1]))
    for ranks in (1, 4):
        config["train_micro_batch_size_per_gpu"] = 32 // ranks
        json.dump(config, open(f"{sys.argv[2]}/{ranks}.json", "w"))
