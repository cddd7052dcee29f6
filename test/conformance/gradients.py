#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks `dsexec --vjp` against central differences of `dsexec --forward`, both in f64, on ONNX's backend node tests.

For each test with float inputs and outputs: cotangents c are normal numbers, and the gradient of sum(c y) along one
random direction of all float inputs must be what the difference of two runs gives. Inputs are moved a little off the test's own,
so that few lie on a kink. gradients.txt says what each test that runs forward gives: pass, refused with a message,
or why there is nothing to compare. Flags are those of run.py.
"""

import math
import pathlib
import random
import tempfile

import protos
import run

EXPECTED = run.HERE / "gradients.txt"
# What differences in f64 are good for, relative to the sum of the terms' magnitudes.
STEP, TOLERANCE = 1e-6, 1e-5


class Inputs:
    """The first data set's arrays; `moving` are the names of float inputs."""

    def __init__(self, model, folder):
        self.tensors = {}
        for i, (name, _) in enumerate(model.inputs):
            at = folder / f"input_{i}.pb"
            if at.exists():
                self.tensors[run.sanitized(name)] = protos.read_tensor(at)
        self.moving = [n for n, t in self.tensors.items() if t and t.dtype in protos.FLOATS]
        draw = random.Random(1)
        for name in self.moving:
            t = self.tensors[name]
            t.values = [x * (1 - 1e-3 * draw.random()) if x else 1e-3 * (draw.random() - 0.5) for x in t.values]
            t.dtype = protos.DOUBLE
        self.direction = {n: [draw.gauss(0, 1) for _ in self.tensors[n].values] for n in self.moving}

    def write(self, folder, step=0.0, along=()):
        folder.mkdir()
        for name, t in self.tensors.items():
            values = t.values
            if name in along:
                values = [x + step * v for x, v in zip(values, self.direction[name])]
            protos.write_npy(folder / f"{name}.npy", protos.Tensor(t.dtype, t.dims, values))


def forward(path, inputs, scratch, step, along):
    name = f"{step}"
    inputs.write(scratch / name, step, along)
    out = scratch / ("out" + name)
    ran = run.dsexec([path, "--forward", "--dtype", "f64", "--feed", scratch / name, "--fetch", out])
    return (out, None) if ran.returncode == 0 else (None, run.message(ran.stderr))


def weighted(folder, cotangents):
    return [c * y for name, c_values in cotangents.items()
            for c, y in zip(c_values, protos.read_npy(folder / f"{name}.npy").values)]


def compare(path, inputs, scratch, gradients, cotangents):
    along = set(gradients)
    sums = []
    for step in (STEP, -STEP):
        out, error = forward(path, inputs, scratch, step, along)
        if error:
            return "BUG: forward is refused: " + error
        sums.append(weighted(out, cotangents))
    difference = math.fsum(a - b for a, b in zip(*sums)) / (2 * STEP)
    terms = [g * v for name, values in gradients.items() for g, v in zip(values, inputs.direction[name])]
    gradient, size = math.fsum(terms), math.fsum(abs(t) for t in terms)
    rounding = math.fsum(abs(t) for t in sums[0]) * 1e-15 / STEP
    if not all(map(math.isfinite, (difference, gradient, size, rounding))):
        return "nothing to compare: not finite"
    if abs(difference - gradient) > TOLERANCE * (size + abs(difference)) + rounding:
        return f"BUG: differences give {difference:.9g}, the gradient {gradient:.9g}"
    return "pass" if size else "pass, all zeros"


def run_test(path):
    model = protos.Model(path / "model.onnx")
    inputs = Inputs(model, path / "test_data_set_0")
    outputs = [run.sanitized(n) for n, kind in model.outputs if kind in protos.FLOATS]
    if not inputs.moving or not outputs or None in inputs.tensors.values():
        return "nothing to compare: no float inputs or outputs"
    onnx = path / "model.onnx"
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        inputs.write(scratch / "in")
        ran = run.dsexec([onnx, "--vjp", "--dtype", "f64", "--wrt", "^(" + "|".join(inputs.moving) + ")$",
                          "--feed", scratch / "in", "--cotangent", "random:1", "--fetch", scratch / "grads"])
        if ran.returncode == 1:
            return "refused: " + run.message(ran.stderr)
        if ran.returncode != 0:
            return f"BUG: exit code {ran.returncode}: {run.message(ran.stderr)}"
        read = lambda name: protos.read_npy(scratch / "grads" / f"{name}.npy").values
        # Inputs whose values the plan needs are constants, and have no gradient.
        gradients = {n: read(n) for n in inputs.moving if (scratch / "grads" / f"{n}.npy").exists()}
        cotangents = {n: read(n + ".cotangent") for n in outputs}
        return compare(onnx, inputs, scratch, gradients, cotangents)


if __name__ == "__main__":
    run.main(run_test, EXPECTED,
             "Gradients of ONNX's backend node tests; written by test/conformance/gradients.py --update", __doc__,
             among=[n for n, r in run.read_expected(run.EXPECTED).items() if r == "pass"])
