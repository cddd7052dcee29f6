#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_lr.py: writes lr/NAME.txt, the learning rates of 24 updates as DeepSpeed 0.19.6 computes them.

The rate of an update is what the optimizer's group holds when it steps; the scheduler steps after it. Each file
starts with the config's scheduler block and the optimizer's lr. Needs deepspeed and torch.
"""
import json
import pathlib

import torch
from deepspeed.runtime import lr_schedules

CASES = {
    "warmup-log": ("WarmupLR", {"warmup_max_lr": 0.01, "warmup_num_steps": 7}),
    "warmup-linear": ("WarmupLR", {"warmup_min_lr": 0.001, "warmup_num_steps": 5, "warmup_type": "linear"}),
    "decay-log": ("WarmupDecayLR", {"total_num_steps": 20, "warmup_max_lr": 0.02, "warmup_num_steps": 6}),
    "decay-linear": ("WarmupDecayLR", {"total_num_steps": 15, "warmup_min_lr": 0.0005, "warmup_num_steps": 1,
                                       "warmup_type": "linear"}),
    "decay-short": ("WarmupDecayLR", {"total_num_steps": 3, "warmup_num_steps": 8}),
    "cosine-log": ("WarmupCosineLR", {"total_num_steps": 20, "warmup_num_steps": 6}),
    "cosine-linear": ("WarmupCosineLR", {"total_num_steps": 18, "warmup_min_ratio": 0.25, "warmup_num_steps": 4,
                                         "cos_min_ratio": 0.1, "warmup_type": "linear"}),
    "cosine-short": ("WarmupCosineLR", {"total_num_steps": 2, "warmup_num_steps": 5, "warmup_type": "linear"}),
}
LR, UPDATES = 0.05, 24

folder = pathlib.Path(__file__).parent / "lr"
folder.mkdir(exist_ok=True)
for name, (kind, params) in CASES.items():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler = getattr(lr_schedules, kind)(optimizer, **params)
    rates = []
    for _ in range(UPDATES):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        scheduler.step()
    config = {"optimizer": {"type": "SGD", "params": {"lr": LR}}, "scheduler": {"type": kind, "params": params}}
    (folder / f"{name}.txt").write_text(json.dumps(config) + "\n" + "".join(f"{r!r}\n" for r in rates))
