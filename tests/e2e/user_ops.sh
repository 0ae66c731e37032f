#!/bin/bash
# Operations and rewrites of the user, on the commands that take them.
set -eu
fail() { echo "$1"; exit 1; }
model=examples/custom/soft_gate.onnx ops=examples/custom/soft_gate.ops.json rules=examples/custom/rules.json
scripts/validate-json schemas/ops.schema.json $ops
scripts/validate-json schemas/rules.schema.json $rules

"$RLXC" run $model --ops $ops --random --size n=5 | grep -q 'ok .* y' || fail "run"
"$RLXC" run $model --ops $ops --grad y --wrt inputs --hvp --random --size n=3 | grep -q 'ok .* hvp:x' || fail "second order"
"$RLXC" run $model --ops $ops --vmap x --size 4 --random --bind n=2 --engine interpreter | grep -q '^passed' || fail "a batch"
"$RLXC" check $model --ops $ops --target cpu,metal,mlx,wgpu,cuda,rocm > /dev/null || fail "check"
"$RLXC" simplify $model --ops $ops -o "$TMPDIR/simple.onnx"
"$RLXC" run "$TMPDIR/simple.onnx" --random --size n=5 | grep -q 'ok .* y' || fail "the model as ONNX needs no definition"
! "$RLXC" check $model > "$TMPDIR/error" 2>&1 || fail "an unknown operation passes"
grep -q 'SoftGate' "$TMPDIR/error" || fail "$(cat "$TMPDIR/error")"

# Rewrites are counted and proven.
"$RLXC" compile $model --ops $ops --rules $rules --verify-each --emit lir -q -o "$TMPDIR/out" || fail "--verify-each"
"$RLXC" compile $model --ops $ops --rules $rules --passes inline_custom_ops,user_rules --emit lir -q -o "$TMPDIR/out" || fail "--passes"
grep -q '"rules": "rules.json"' "$TMPDIR/out/manifest.json" || fail "the manifest names the file"

for bad in '' '[]' '{' '{"format": "rlxc-ops"}' '{"format": "rlxc-ops", "ops": [null]}' '{"format": "rlxc-rules", "rules": [{"name": "r"}]}' \
  '{"format": "rlxc-ops", "ops": [{"name": "SoftGate", "domain": "com.example", "inputs": [], "outputs": [], "body": []}]}' \
  '{"format": "rlxc-rules", "rules": [{"name": "r", "pattern": [{"op": "neg", "in": ["y"], "out": "y"}], "result": "y", "with": "y"}]}'; do
  printf '%s' "$bad" > "$TMPDIR/bad.json"
  for flag in --ops "--ops $ops --rules"; do
    status=0
    "$RLXC" compile $model $flag "$TMPDIR/bad.json" --emit lir -q -o "$TMPDIR/no" 2> "$TMPDIR/error" || status=$?
    { [ $status -ge 2 ] && [ $status -le 5 ] && grep -q 'error' "$TMPDIR/error"; } || fail "$flag $bad: $status $(cat "$TMPDIR/error")"
  done
done
echo "operations and rewrites of files work on run, check, compile, simplify"
