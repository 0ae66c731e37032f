#!/bin/bash
# Some of ONNX's node cases at other sizes, made symbolic, give ONNX Runtime's results.
set -u
[ -x build/peers/onnxruntime/bin/python ] || { echo "scripts/setup-peers onnxruntime installs what this compares with"; exit 77; }
export RLXC
scripts/symbolic-cases --jobs 1 compress equal_string dynamicquantizelinear >"$TMPDIR/log" 2>&1
grep -E '^(wrong|crashed)' "$TMPDIR/log" && exit 1
grep -qE '^[0-9]{2,} equal' "$TMPDIR/log" || { tail -3 "$TMPDIR/log"; exit 1; }
