#!/bin/bash
# Sizes, bounds, steps and scales that any operator computes from constants: the models compile for four targets, with sizes that are
# known, and give what is expected with both engines.
set -euo pipefail
for python in python3 /usr/bin/python3 ""; do
  [ -n "$python" ] || { echo "python3-numpy is not installed"; exit 77; }
  "$python" -c 'import numpy' 2> /dev/null && break
done
export PYTHONDONTWRITEBYTECODE=1
"$python" tests/support/python/constant_sources.py "$TMPDIR/cases"
for case in "$TMPDIR"/cases/*; do
  for engine in reference kernels; do
    "$RLXC" run "$case/model.onnx" --data "$case" --engine $engine > "$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; exit 1; }
  done
  for target in metal wgpu cuda; do
    "$RLXC" compile "$case/model.onnx" --target $target -q -o "$TMPDIR/$target"
  done
  "$RLXC" info "$case/model.onnx" --json | "$python" -c '
import json, sys
for value in json.load(sys.stdin)["outputs"]:
    assert all(isinstance(d, int) for d in value["type"]["dims"]), value'
done
