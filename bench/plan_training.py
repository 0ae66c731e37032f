#!/usr/bin/env python3
"""How far --max-arena brings the arena of a step of training down (values are computed again), which is the forward part of a
model with the gradients by all its weights. Prints a Markdown table: parts of the planned arena, and how many nodes run twice.
Usage: bench/plan_training.py [MODEL...], names of folders of RLXC_TEST_MODELS/*/; without names, those that a step can be made of."""
import glob
import json
import os
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = os.environ.get("RLXC", os.path.join(root, "build/rlxc"))
models = os.environ.get("RLXC_TEST_MODELS") or sys.exit("RLXC_TEST_MODELS is not set")
HALVINGS = 5  # of the range in which the least limit is looked for


def plan_of(model, out, *flags):
    args = [rlxc, "compile", model, "--allow-missing-weights", "--emit", "plan", "-q", "-o", out, *flags]
    if subprocess.run(args, stderr=subprocess.DEVNULL).returncode != 0:
        return None
    with open(os.path.join(out, "plan.json")) as f:
        return json.load(f)


def row(model, name):
    with tempfile.TemporaryDirectory() as folder:
        training, out = os.path.join(folder, "training.onnx"), os.path.join(folder, "out")
        add = [sys.executable, os.path.join(root, "tests/support/python/add_gradient.py"), model, training]
        subprocess.run(add, check=True)
        whole = plan_of(training, out)
        if whole is None or whole["symbolic"]:
            return
        arena, slots = whole["arena"]["bytes"], sum(s["region"] == "activations" for s in whole["graphs"][0]["slots"])

        def limited(part):
            plan = plan_of(training, out, "--max-arena", str(int(part * arena)))
            return plan and (plan["arena"]["bytes"] / arena, plan["arena"].get("computed_again", 0))

        cells, least, refused = [], 1.0, 0.0
        for part in (0.9, 0.8):
            met = limited(part) if refused == 0 else None
            least, refused = (met[0], refused) if met else (least, max(refused, part))
            cells.append(f"{met[0]:.3f}, {met[1]} nodes" if met else "no")
        for _ in range(HALVINGS):
            met = limited((least + refused) / 2)
            least, refused = (met[0], refused) if met else (least, (least + refused) / 2)
        print(f"| {name} | {arena:,} | {slots} | {cells[0]} | {cells[1]} | {least:.3f} |", flush=True)


print("| model | arena | slots | limit 0.9 | limit 0.8 | least found |\n|---|---|---|---|---|---|")
for model in sorted(glob.glob(os.path.join(models, "*/*/model.onnx"))):
    name = os.path.basename(os.path.dirname(model))
    if not sys.argv[1:] or name in sys.argv[1:]:
        row(model, name)
