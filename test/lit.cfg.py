# SPDX-License-Identifier: Apache-2.0
"""lit configuration, loaded by the lit.site.cfg.py that CMake writes into build/<preset>/test.

Features: cuda, cpu-device, mpi, uring, asan, tsan, onnx-node-tests. A test names what it needs with REQUIRES:, or what it cannot
stand with UNSUPPORTED:. dsopt, dsplan, dsexec, FileCheck, not and split-file are found on PATH.
"""

import glob
import os

import lit.formats

config.name = "ds"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".dsir", ".dsched", ".onnxtext", ".test"]
config.excludes = ["Inputs", "models", "golden", "bench", "unit"]
config.test_source_root = os.path.join(config.ds_source, "test")
config.test_exec_root = os.path.join(config.ds_build, "test")

env = config.environment
env["PATH"] = os.pathsep.join([config.ds_bin, config.llvm_bin, env["PATH"]])
env["FILECHECK_OPTS"] = "--dump-input=fail"
env["LC_ALL"] = "C"
# Two ranks of two threads each are what a small machine has; tests that want another number say so.
env["OMP_NUM_THREADS"] = "2"
env["OMP_WAIT_POLICY"] = "passive" # or waiting threads spin, which costs minutes on a busy machine
# OpenMPI refuses root unless it is told twice.
env["OMPI_ALLOW_RUN_AS_ROOT"] = env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
env["ASAN_OPTIONS"] = "detect_stack_use_after_return=1:strict_string_checks=1"
env["UBSAN_OPTIONS"] = "print_stacktrace=1"
env["TSAN_OPTIONS"] = "halt_on_error=1"

config.substitutions += [
    ("%{models}", os.path.join(config.test_source_root, "models")),
    ("%{golden}", os.path.join(config.test_source_root, "golden")),
    ("%{bin}", config.ds_bin),
    ("%{emulated}", os.path.join(config.ds_build, "lib", "emulated")),
]

config.available_features.update(name for name, have in config.ds_have.items() if have)
if "address" in config.ds_sanitize:
    config.available_features.add("asan")
if "thread" in config.ds_sanitize:
    config.available_features.add("tsan")
if os.path.exists(os.path.join(config.ds_source, ".deps", "onnx-node-tests", "stamp")):
    config.available_features.add("onnx-node-tests")
plugin = os.path.join(config.ds_build, "lib", "libdscuda.so")
if os.path.exists(plugin) and glob.glob("/dev/nvidia[0-9]*"):
    config.available_features.add("cuda")
