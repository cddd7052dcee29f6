#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_vision.py: writes vision.txt: convolutions, poolings, batch normalisation and their gradients, by PyTorch.

A case is a line with the op and its attributes, then one line per tensor: name, dims, values. Values are small
multiples of 1/8, so that sums are exact in f64. Uneven padding is put around x first.
"""
import pathlib

import torch
import torch.nn.functional as F

torch.manual_seed(7)
CASES = [  # op, x, w, strides, low, high, dilations, groups
    ("conv", (2, 3, 5, 6), (4, 3, 3, 2), (1, 1), (0, 0), (0, 0), (1, 1), 1),
    ("conv", (1, 4, 7, 5), (6, 2, 3, 3), (2, 1), (1, 2), (1, 0), (1, 2), 2),
    ("conv", (2, 3, 9), (3, 1, 3), (3,), (2,), (1,), (2,), 3),
    ("conv", (1, 2, 4, 4, 3), (2, 2, 2, 3, 2), (1, 2, 1), (1, 1, 0), (0, 1, 1), (1, 1, 1), 1),
    ("max_pool", (1, 2, 6, 7), (3, 2), (2, 2), (1, 0), (1, 1), (1, 1), 1),
    ("max_pool", (2, 1, 9), (3,), (2,), (1,), (1,), (2,), 1),
    ("avg_pool", (1, 2, 6, 5), (2, 3), (2, 1), (0, 0), (0, 0), (1, 1), 1),
    ("avg_pool", (1, 2, 5, 5), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
    ("avg_pool count_padding", (1, 2, 5, 5), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 1),
]


def draw(dims, values=17):
    return (torch.randint(0, values, dims) - values // 2).double() / 8


def run(op, x, w, strides, low, high, dilations, groups):
    pads = [p for pair in zip(reversed(low), reversed(high)) for p in pair]
    n = x.dim() - 2
    if op == "conv":
        return [F.conv1d, F.conv2d, F.conv3d][n - 1](F.pad(x, pads), w, None, strides, 0, dilations, groups)
    if op == "max_pool":
        return [F.max_pool1d, F.max_pool2d][n - 1](F.pad(x, pads, value=-torch.inf), w, strides, 0, dilations)
    return F.avg_pool2d(x, w, strides, low, count_include_pad="count" in op)


def line(name, t):
    return f"{name} {len(t.shape)} {' '.join(map(str, t.shape))} {' '.join(repr(v) for v in t.flatten().tolist())}\n"


text = ""
for op, x_dims, w_dims, *rest in CASES:
    names = ("strides", "low", "high", "dilations")
    text += op + "".join(f" {n} {' '.join(map(str, v))}" for n, v in zip(names, rest)) + f" groups {rest[4]}"
    x = draw(x_dims, 17 if op == "conv" else 5).requires_grad_()
    if op == "conv":
        w = draw(w_dims).requires_grad_()
        text += "\n"
    else:
        w = w_dims
        text += f" window {' '.join(map(str, w))}\n"
    y = run(op, x, w, *rest)
    dy = draw(y.shape)
    y.backward(dy)
    text += line("x", x) + line("y", y) + line("dy", dy) + line("dx", x.grad)
    if op == "conv":
        text += line("w", w) + line("dw", w.grad)
    text += "\n"
for dims in ((4, 3, 2, 5), (6, 2)):
    x, dy = draw(dims).requires_grad_(), draw(dims)
    scale, bias = draw(dims[1:2]).requires_grad_(), draw(dims[1:2]).requires_grad_()
    mean, var = draw(dims[1:2]), draw(dims[1:2]).abs()
    text += "batch_norm\n" + line("old_mean", mean) + line("old_var", var)
    y = F.batch_norm(x, mean, var, scale, bias, training=True, momentum=0.25, eps=0.001)
    y.backward(dy)
    for name, t in (("x", x), ("scale", scale), ("bias", bias), ("y", y), ("dy", dy), ("dx", x.grad),
                    ("dscale", scale.grad), ("dbias", bias.grad), ("new_mean", mean), ("new_var", var)):
        text += line(name, t)
    text += "\n"
(pathlib.Path(__file__).parent / "vision.txt").write_text(text)
