#!/bin/bash
# Kernels of the example spill no registers on NVIDIA GPUs, and scripts/gpu-gate finds those that do.
set -uo pipefail
gate() { scripts/gpu-gate "$@" > "$TMPDIR/log" 2>&1; }
gate --arch 80,90a --precision f32,automixed-bf16,int8 examples/bert.onnx
status=$?
[ $status -ne 77 ] || { cat "$TMPDIR/log"; exit 77; }
[ $status -eq 0 ] || { cat "$TMPDIR/log"; exit 1; }
"$RLXC" compile examples/bert.onnx --target cuda --emit kernels -q -o "$TMPDIR/bert" || exit 1
sed -i 's/__launch_bounds__(256[, 2]*)/__launch_bounds__(1024, 2)/' "$TMPDIR"/bert/kernels/cuda/*.cu  # 32 registers a thread
gate --arch 90a --json "$TMPDIR/rows.json" "$TMPDIR/bert"
[ $? -eq 1 ] || { echo "kernels of 32 registers passed"; cat "$TMPDIR/log"; exit 1; }
grep -q 'bytes spill' "$TMPDIR/log" || { echo "no spills are named"; exit 1; }
python3 -c 'import json, sys; rows = json.load(open(sys.argv[1])); assert any(r["spills"] for r in rows) and all("registers" in r for r in rows)' \
  "$TMPDIR/rows.json"
