#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# save_onnx.sh MODEL.onnx OUT [FLAG...]: trains a GPT-2 of test/models for three updates, writes OUT.onnx and OUT.plain.safetensors,
# and compares what the two give on in/, and the graphs of the two models.
set -euo pipefail
here=$(dirname "$0") model=$1 out=$2
shift 2
train=(dsexec "$model" --steps 3 --lr 0.01 --data "tokens:$here/../../golden/gpt2-tiny/tokens.bin" --micro-batch 2
  --optimizer sgd --loss ce:logits=logits,labels=labels --device ref --world-size 2 "$@")
"${train[@]}" --save-model "$out.onnx" >/dev/null
"${train[@]}" --save-model "$out.plain.safetensors" >/dev/null
run=(--forward --feed in --device ref "$@")
dsexec "$out.onnx" "${run[@]}" --fetch "$out.new" >/dev/null
dsexec "$model" "${run[@]}" --fetch "$out.trained" --weights "$out.plain.safetensors" >/dev/null
dsexec "$model" "${run[@]}" --fetch "$out.before" >/dev/null
cmp "$out.new/logits.npy" "$out.trained/logits.npy"
! cmp -s "$out.new/logits.npy" "$out.before/logits.npy"
# The copy of a tied weight is right by itself, too.
dsexec "$out.onnx" "${run[@]}" --fetch "$out.untied" --no-retie >/dev/null
cmp "$out.new/logits.npy" "$out.untied/logits.npy"
python3 "$here/same_graph.py" "$model" "$out.onnx"
