#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_rates.py GOLDEN-FOLDER MODEL TEMPORARY: runs the config of each file and compares the learning rates."""
import json
import pathlib
import subprocess
import sys

golden, model, temporary = sys.argv[1:]
files = sorted(pathlib.Path(golden).glob("*.txt"))
for path in files:
    lines = path.read_text().splitlines()
    config, rates = json.loads(lines[0]), [float(line) for line in lines[1:]]
    config["train_micro_batch_size_per_gpu"] = 4
    (pathlib.Path(temporary) / "config.json").write_text(json.dumps(config))
    log = pathlib.Path(temporary) / "log.jsonl"
    subprocess.run(["dsexec", model, "--config", temporary + "/config.json", "--loss",
                    "mse:prediction=logits,target=target", "--data", "synthetic:5", "--device", "ref", "--steps",
                    str(len(rates)), "--log-json", str(log)], check=True, stdout=subprocess.DEVNULL)
    ours = [json.loads(line)["lr"] for line in log.open()]
    for update, (a, b) in enumerate(zip(ours, rates, strict=True), 1):
        if abs(a - b) > 1e-15 * abs(b):
            sys.exit(f"{path.name}: update {update} has the rate {a!r}, DeepSpeed {b!r}")
print(f"{len(files)} schedules are DeepSpeed's")
