#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, spills and shared memory of the CUDA kernels, against the list kernels/cuda/resources.txt.

    tools/dev/cuda-resources.py [--build build/release]            compare: fails on a kernel that needs more, or is not listed
    tools/dev/cuda-resources.py --update                           write the list
    tools/dev/cuda-resources.py --compile COMMAND...               run a compiler, and keep what ptxas says beside its output

Figures are the largest over a kernel's types and architectures, by the nvcc that the list names; with another one nothing is compared.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = ROOT / "kernels/cuda/resources.txt"
HEAD = "# kernel: registers, bytes of stack, of spills, of shared memory; by tools/dev/cuda-resources.py --update, nvcc "


def compile_and_keep(command):
    """Launcher of the build: the compiler's messages, but for ptxas's report, which goes to OUTPUT.resources."""
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    lines = run.stderr.splitlines(True)
    report = [line for line in lines if re.match(r"ptxas info|\s+\d+ bytes stack frame", line)]
    sys.stderr.write("".join(line for line in lines if line not in report))
    if "-o" in command and run.returncode == 0 and report:
        pathlib.Path(command[command.index("-o") + 1] + ".resources").write_text("".join(report))
    return run.returncode


def kernel_name(mangled):
    text = subprocess.run(["c++filt", mangled], check=True, capture_output=True, text=True).stdout.strip()
    text = text.replace("(anonymous namespace)::", "").replace("ds::cuda::", "").removeprefix("void ")
    return re.match(r"[\w:]+", text)[0]


def read_reports(build):
    """{file/kernel: [registers, stack, spills, shared]}"""
    found, names = {}, {}
    for path in sorted(build.rglob("*.cu.o.resources")):
        kernel = None
        for line in path.read_text().splitlines():
            if m := re.search(r"Compiling entry function '(\S+)'", line):
                if m[1] not in names:
                    names[m[1]] = kernel_name(m[1])
                kernel = found.setdefault(f"{path.name.split('.')[0]} {names[m[1]]}", [0, 0, 0, 0])
            elif kernel and (m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)):
                kernel[1], kernel[2] = max(kernel[1], int(m[1])), max(kernel[2], int(m[2]) + int(m[3]))
            elif kernel and (m := re.search(r"Used (\d+) registers", line)):
                shared = re.search(r"(\d+) bytes smem", line)
                kernel[0], kernel[3] = max(kernel[0], int(m[1])), max(kernel[3], int(shared[1]) if shared else 0)
    return found


def read_list():
    lines = LIST.read_text().splitlines()
    table = {}
    for line in lines[1:]:
        name, _, figures = line.partition(": ")
        table[name] = [int(n) for n in figures.split()]
    return lines[0].removeprefix(HEAD), table


def main():
    if sys.argv[1:2] == ["--compile"]:
        return compile_and_keep(sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    p.add_argument("--update", action="store_true")
    args = p.parse_args()
    cache = (args.build / "CMakeCache.txt").read_text()
    nvcc = re.search(r"CMAKE_CUDA_COMPILER:\w+=(\S+)", cache)[1]
    version = re.search(r"release (\S+),", subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout)[1]
    found = read_reports(args.build)
    if not found:
        sys.exit(f"cuda-resources: error: {args.build} has no reports: build the target dscuda there")
    if args.update:
        LIST.write_text(HEAD + version + "\n" + "".join(f"{name}: {' '.join(map(str, found[name]))}\n" for name in sorted(found)))
        print(f"{LIST.relative_to(ROOT)}: {len(found)} kernels")
        return 0
    kept_version, kept = read_list()
    if kept_version != version:
        print(f"not compared: the list is nvcc {kept_version}'s, this is {version}")
        return 0
    bad = 0
    for name in sorted(found):
        if name not in kept:
            print(f"{name}: not listed: registers {found[name][0]}, stack {found[name][1]}, spills {found[name][2]}, shared {found[name][3]}")
            bad += 1
            continue
        for what, now, before in zip(("registers", "bytes of stack", "bytes of spills", "bytes of shared memory"), found[name], kept[name]):
            if now > before:
                print(f"{name}: {now} {what}, {before} are listed")
                bad += 1
    for name in sorted(set(kept) - set(found)):
        print(f"{name}: listed, and there is no such kernel")
        bad += 1
    print(f"{len(found)} kernels, {bad} differences" + ("; if they are meant: tools/dev/cuda-resources.py --update" if bad else ""))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
