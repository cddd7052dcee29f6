#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Export the tiny GPT-2 in four ways. Needs the packages of tools/requirements-export.txt; PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=test/models/gpt2-tiny
export_tiny() { "${PYTHON:-python3}" tools/export_model.py gpt2 --preset tiny --batch 2 --no-label "$@"; }
export_tiny --out $out/dynamo
export_tiny --out $out/dynamo-opt --optimize
export_tiny --out $out/torchscript --exporter torchscript --no-external-data
export_tiny --out $out/torchscript-opt --exporter torchscript --no-external-data --optimize
