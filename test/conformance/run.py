#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own backend node tests through `dsexec --forward`, and compares outputs with theirs.

Every test passes, is refused with a message (exit code 1), or is a bug: a wrong result, a crash. expected.txt says for
each which of the first two it is; a test that passed and does not any more is an error, as are bugs.

  test/conformance/run.py                  all tests
  test/conformance/run.py --only 'conv|pool'
  test/conformance/run.py --every 8        every eighth of those expected to pass, and as many refused ones
  test/conformance/run.py --update         writes expected.txt
"""

import argparse
import concurrent.futures
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import protos

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT / ".deps" / "onnx-node-tests"
EXPECTED = HERE / "expected.txt"
# ONNX's backend test runner allows as much.
RTOL, ATOL = 1e-3, 1e-7


def sanitized(name):
    """What dsexec calls an input or output, in files."""
    out = re.sub(r"[^A-Za-z0-9_.]", "_", name)
    return out if re.match(r"[A-Za-z_]", out) else "_" + out


def link(source, target):
    os.symlink(os.path.abspath(source), target)


def feed(model, folder, into):
    """Links a data set's inputs under their names; trailing optional inputs may have no file."""
    for i, (name, _) in enumerate(model.inputs):
        source = folder / f"input_{i}.pb"
        if source.exists():
            link(source, into / f"{sanitized(name)}.pb")


def message(stderr):
    """The first error without its place, and the first note where that says what it is about."""
    lines = stderr.strip().splitlines()
    errors = [line.split("error: ", 1)[1] for line in lines if "error: " in line]
    notes = [line.split("note: ", 1)[1] for line in lines if line.startswith("note: ")]
    if not errors:
        return lines[0] if lines else "no message"
    return errors[0] + (f" ({notes[0]})" if "docs/onnx-ops.md" in errors[0] and notes else "")


def differs(got, want):
    if got is None or want is None:
        return "no tensor of numbers"
    if (got.dtype, got.dims) != (want.dtype, want.dims):
        return f"type {got.dtype} {got.dims}, expected {want.dtype} {want.dims}"
    for i, (g, w) in enumerate(zip(got.values, want.values)):
        same = g == w or (isinstance(g, float) and math.isnan(g) and math.isnan(w))
        if not same and not (want.dtype in protos.FLOATS and abs(g - w) <= ATOL + RTOL * abs(w)):
            return f"element {i} is {g}, expected {w}"
    return None


def dsexec(arguments):
    return subprocess.run(["dsexec", *map(str, arguments)], capture_output=True, text=True, errors="replace",
                          timeout=300)


def run_set(model, path, folder):
    with tempfile.TemporaryDirectory() as scratch:
        inputs, outputs = pathlib.Path(scratch, "in"), pathlib.Path(scratch, "out")
        inputs.mkdir()
        feed(model, folder, inputs)
        ran = dsexec([path, "--forward", "--feed", inputs, "--fetch", outputs])
        if ran.returncode == 1:
            return "refused: " + message(ran.stderr)
        if ran.returncode != 0:
            return f"BUG: exit code {ran.returncode}: {message(ran.stderr)}"
        for i, (name, _) in enumerate(model.outputs):
            at = outputs / f"{sanitized(name)}.pb"
            if not model.inputs:  # results come as what is fed, by default .npy
                at = at.with_suffix(".npy")
            if not at.exists():
                return f"BUG: no file for output {name}"
            got = protos.read_tensor(at) if model.inputs else protos.read_npy(at)
            difference = differs(got, protos.read_tensor(folder / f"output_{i}.pb"))
            if difference:
                return f"BUG: output {name}: {difference}"
    return "pass"


# Their results are random, and --forward leaves active Dropout out.
RANDOM = {f"test_training_dropout{form}" for form in ("", "_mask", "_default", "_default_mask")}


def run_test(path):
    if path.name in RANDOM:
        return "random: --forward leaves active Dropout out"
    model = protos.Model(path / "model.onnx")
    for folder in sorted(path.glob("test_data_set_*")):
        result = run_set(model, path / "model.onnx", folder)
        if result != "pass":
            return result
    return "pass"


def read_expected(path):
    """Test name -> "pass" or "refused: message"."""
    if not path.exists():
        return {}
    lines = [line.rstrip("\n") for line in open(path) if not line.startswith("#")]
    return dict(line.split(" ", 1) for line in lines if line)


def choose(names, expected, every, only):
    names = [n for n in names if not only or re.search(only, n)]
    if every <= 1:
        return names
    passing = [n for n in names if expected.get(n, "").startswith("pass")]
    rest = [n for n in names if not expected.get(n, "").startswith("pass")]
    return sorted(passing[::every] + rest[::every])


def compare(results, expected):
    """Prints what is not as expected; true if that is an error."""
    bad = False
    for name, result in results.items():
        before = expected.get(name, "not listed")
        passed = before.startswith("pass")
        if result.startswith("BUG") or (passed and not result.startswith("pass")):
            print(f"{name}: {result}" + (" (passed before)" if passed else ""))
            bad = True
        elif result.startswith("pass") and not passed and expected:
            print(f"{name}: passes now; {sys.argv[0]} --update records it")
    return bad


def write_expected(path, results, heading):
    kinds = {}
    for r in results.values():
        kind = r.split(": ")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    with open(path, "w") as out:
        out.write(f"# {heading}\n# {', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items()))}\n")
        for name, result in sorted(results.items()):
            out.write(f"{name} {result}\n")


def main(run_one, expected_path, heading, doc, among=None):
    """among: names of the tests that there are to run, or None for all."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="folder of the tests")
    parser.add_argument("--only", help="regex on test names")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    o = parser.parse_args()
    names = sorted(p.name for p in o.data.glob("test_*") if (p / "model.onnx").exists())
    names = [n for n in names if among is None or n in among]
    if not names:
        sys.exit(f"{o.data}: no tests; tools/setup puts them there")
    expected = read_expected(expected_path)
    names = choose(names, expected, o.every, o.only)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        results = dict(zip(names, pool.map(lambda n: run_one(o.data / n), names)))
    bad = compare(results, {} if o.update else expected)
    if o.update and not bad:
        write_expected(expected_path, {**(expected if o.only else {}), **results}, heading)
    count = sum(r.startswith("pass") for r in results.values())
    refused = sum(r.startswith("refused") for r in results.values())
    bugs = sum(r.startswith("BUG") for r in results.values())
    rest = len(results) - count - refused - bugs
    print(f"{count} pass, {refused} refused" + (f", {rest} with nothing to compare" if rest else "") + f", {bugs} bugs")
    sys.exit(bad)


if __name__ == "__main__":
    main(run_test, EXPECTED, "ONNX's backend node tests under dsexec --forward; written by test/conformance/run.py --update",
         __doc__)
