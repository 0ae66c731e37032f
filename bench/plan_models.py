#!/usr/bin/env python3
"""Arenas of models: rlxc's plan against its lower bound, against the two usual greedy placements of the same slots, and against
the arena without a new order of the nodes. Prints a Markdown table. Usage: bench/plan_models.py [RLXC] [FLAG...]; the models are
those in the folders of RLXC_TEST_MODELS."""
import glob
import json
import os
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
rlxc = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build/rlxc")
models = os.environ.get("RLXC_TEST_MODELS") or sys.exit("RLXC_TEST_MODELS is not set")


def place(slots, alignment, best_fit):
    """Bytes that the slots take, placed in the order given: each into the tightest gap, or the first, that is large enough."""
    placed, height = [], 0
    for first, last, size in slots:
        size = -(-size // alignment) * alignment
        cursor, at, room = 0, None, None
        for offset, top in sorted((o, o + s) for f, l, s, o in placed if f <= last and first <= l):
            gap = offset - cursor
            if gap >= size and (at is None or (best_fit and gap < room)):
                at, room = cursor, gap
            cursor = max(cursor, top)
        at = cursor if at is None else at
        placed.append((first, last, size, at))
        height = max(height, at + size)
    return height


def plan_of(model, flags):
    with tempfile.TemporaryDirectory() as out:
        args = [rlxc, "compile", model, "--allow-missing-weights", "--emit", "plan", "-q", "-o", out, *flags]
        subprocess.run(args, check=True, stderr=subprocess.DEVNULL)
        return json.load(open(os.path.join(out, "plan.json")))


print("| model | slots | lower bound | arena | ratio | by size, best fit | by start, first fit | saved by order | by views | in place "
      "| concat in place |\n|---|---|---|---|---|---|---|---|---|---|---|")
for model in sorted(glob.glob(os.path.join(models, "*/*/model.onnx"))):
    plan = plan_of(model, ["--no-reorder", *sys.argv[2:]])
    if plan["symbolic"]:
        continue
    ordered = plan_of(model, sys.argv[2:])
    arena = plan["arena"]
    slots = [(*s["life"], s["bytes"]) for s in plan["graphs"][0]["slots"] if s["region"] == "activations"]
    if len(slots) < 2 or arena["lower_bound"] == 0:
        continue
    by_size = place(sorted(slots, key=lambda s: -s[2]), plan["alignment"], True)
    by_start = place(sorted(slots, key=lambda s: s[0]), plan["alignment"], False)
    bound, saved, kept = arena["lower_bound"], ordered["arena"]["bytes"], plan["savings"]
    name = os.path.basename(os.path.dirname(model))
    print(f"| {name} | {len(slots)} | {bound:,} | {arena['bytes']:,} | {arena['bytes'] / bound:.3f} | {by_size / bound:.3f} "
          f"| {by_start / bound:.3f} | {100 * (1 - saved / arena['bytes']):.1f} % | {kept['by_views']:,} | {kept['in_place']:,} "
          f"| {kept['by_concat_alias']:,} |", flush=True)
