#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes test/golden/dropout.jsonl: PyTorch trains the model and data of test/exec/dropout.test under the documented masks,
whose words test/exec/Inputs/dropout_masks.py draws. 7 updates of 8 samples of 40, not shuffled; SGD, rate 0.5."""
import json
import pathlib
import random
import sys

import torch

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "exec" / "Inputs"))
from dropout_masks import keeps  # noqa: E402


def samples(rows, columns, seed):  # as random_npy.py
    random.seed(seed)
    return torch.tensor([[random.uniform(-1, 1) for _ in range(columns)] for _ in range(rows)])


def dropout(x, op, ratio, first):
    kept = [[keeps(0, op, ratio, first + r, e) for e in range(x.shape[1])] for r in range(x.shape[0])]
    return x * torch.tensor(kept) / (1 - ratio)


x, target = samples(40, 5, 1), samples(40, 2, 2)
w1 = torch.tensor([0.5, -0.3, 0.2, 0.7, -0.6, 0.1, 0.4, -0.2, 0.3, 0.6, -0.5, 0.2, -0.1, 0.4, 0.5, -0.7, 0.2, -0.4, 0.1,
                   0.3]).reshape(5, 4)
b1 = torch.tensor([0.1, -0.1, 0.2, 0.0])
w2 = torch.tensor([0.6, -0.4, 0.3, 0.5, -0.7, 0.2, 0.1, -0.3]).reshape(4, 2)
params = [p.requires_grad_() for p in (w1, b1, w2)]
optimizer = torch.optim.SGD(params, lr=0.5)
with open(HERE / "dropout.jsonl", "w") as out:
    for u in range(7):
        rows = slice(u % 5 * 8, u % 5 * 8 + 8)
        h = dropout(torch.tanh(dropout(x[rows], 1, 0.2, u * 8) @ w1 + b1), 2, 0.5, u * 8)
        loss = torch.nn.functional.mse_loss(h @ w2, target[rows])
        optimizer.zero_grad()
        loss.backward()
        norm = torch.stack([p.grad.square().sum() for p in params]).sum().sqrt()
        optimizer.step()
        json.dump({"step": u + 1, "loss": loss.item(), "grad_norm": norm.item(), "lr": 0.5}, out)
        out.write("\n")
