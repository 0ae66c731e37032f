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

# Kernels of the file replace the body on their targets; derivatives and batches follow the rules. Where the kernel computes
# something else than the body, the comparison with the reference evaluator fails.
python3 - $ops "$TMPDIR/wrong.json" << 'END'
import json, sys
ops = json.load(open(sys.argv[1]))
for kernel in ops["ops"][0]["kernels"].values():
    kernel["source"] = [line.replace("$alpha", "2.5f") for line in kernel["source"]]
json.dump(ops, open(sys.argv[2], "w"))
END
targets="cpu cuda"
[ -z "${RLXC_WEBGPU:-}" ] || targets="$targets wgpu"
for target in $targets; do
  "$RLXC" run $model --ops $ops --target $target --random --size n=7 | grep -q 'ok .* y' || fail "the kernel for $target"
  "$RLXC" run $model --ops $ops --target $target --random --bind n=7 | grep -q 'ok .* y' || fail "the kernel for $target, static"
  "$RLXC" run $model --ops $ops --target $target --random --size n=3 --grad y --wrt inputs > "$TMPDIR/said" || fail "a gradient on $target"
  "$RLXC" run $model --ops $ops --target $target --random --bind n=3 --vmap x --size 4 > "$TMPDIR/said" || fail "a batch on $target"
  ! "$RLXC" run $model --ops "$TMPDIR/wrong.json" --target $target --random --size n=7 > "$TMPDIR/said" 2>&1 || fail "$target: the kernel does not run"
  grep -q 'FAIL' "$TMPDIR/said" || fail "$target: $(cat "$TMPDIR/said")"
done
"$RLXC" compile $model --ops $ops --target cuda --verify-each --verify -q -o "$TMPDIR/cuda" || fail "--verify-each with a kernel"
grep -q 'custom_op' "$TMPDIR"/cuda/kernels/cuda/*.cu || fail "the package has no kernel"
"$RLXC" specialize "$TMPDIR/cuda/lir.json" --bind n=4 -q -o "$TMPDIR/again" || fail "specialize"
grep -q "group_x" "$TMPDIR/again/lir.json" || fail "the kernel is lost"

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
