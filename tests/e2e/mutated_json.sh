#!/bin/bash
# JSON files with one member that is misspelt, missing, of another type or no number are refused, with the name of the member.
set -euo pipefail
/usr/bin/python3 -c 'import jsonschema' 2>/dev/null || { echo "python3-jsonschema is not installed"; exit 77; }
mutate() { tests/e2e/mutate-json.py "$RLXC" "schemas/$1.schema.json" "${@:2}" || fails=1; }
fails=0
mlp=examples/mlp.json out=$TMPDIR/first
"$RLXC" calibrate examples/bert.onnx --data examples/bert_data -q -o "$TMPDIR/calibration.json"
"$RLXC" compile $mlp --bind batch=2 --save-config "$TMPDIR/config.json" -q -o "$out"
echo '{"format": "rlxc-precision-map", "rules": {"contraction": "f16", "MatMul": "f16"}}' >"$TMPDIR/precision.json"
echo '{"format": "rlxc-shard-rules", "rules": [{"name": "fc1.weight", "shard": "model:0"}]}' >"$TMPDIR/shard.json"
echo '{"format": "rlxc-tuning", "cpu": "generic", "nodes": {"matmul f32[2,4] f32[4,8]": {"gemm_depth": 256}}}' >"$TMPDIR/tuning.json"
plan=(--emit plan -q -o @OUT)
mutate calibration "$TMPDIR/calibration.json" compile examples/bert.onnx --calibration @ "${plan[@]}"
mutate precision-map "$TMPDIR/precision.json" compile $mlp --precision custom:@ "${plan[@]}"
mutate shard-rules "$TMPDIR/shard.json" compile $mlp --bind batch=4 --mesh model=2 --shard-rules @ "${plan[@]}"
mutate tuning "$TMPDIR/tuning.json" compile $mlp --tuning @ "${plan[@]}"
mutate config "$TMPDIR/config.json" compile --config @ $mlp "${plan[@]}"
mutate rules examples/custom/rules.json compile $mlp --rules @ "${plan[@]}"
mutate ops examples/custom/soft_gate.ops.json compile examples/custom/soft_gate.onnx --ops @ "${plan[@]}"
mutate graph $mlp compile @ "${plan[@]}"
mutate lir "$out/lir.json" specialize @ "${plan[@]}"
exit $fails
