#!/bin/bash
# Transforms on every command that takes them, composed, and what they write is read back.
set -eu
mlp=examples/mlp.json
fail() { echo "$1"; exit 1; }

"$RLXC" run $mlp --grad y --wrt inputs --hvp --random --size batch=3 > "$TMPDIR/run"
grep -q 'ok .* grad:x' "$TMPDIR/run" && grep -q 'ok .* hvp:x' "$TMPDIR/run" || fail "run: $(cat "$TMPDIR/run")"
"$RLXC" run $mlp --jvp x,fc1.weight --random --size batch=2 | grep -q 'ok .* tangent:y' || fail "jvp"
"$RLXC" run $mlp --vmap x:1 --size 4 --random --size batch=2 | grep -q '^passed' || fail "vmap"
"$RLXC" check $mlp --grad y --wrt params --target cpu,cuda,mlx > /dev/null || fail "check"
"$RLXC" inspect $mlp --stage hir --grad y --wrt inputs | grep -q 'return .*"grad:x"' || fail "inspect"

status=0
"$RLXC" compile $mlp --stop-gradient y -q -o "$TMPDIR/none" 2> "$TMPDIR/said" || status=$?
[ $status = 2 ] && grep -q 'none are taken' "$TMPDIR/said" || fail "--stop-gradient without derivatives: $status, $(cat "$TMPDIR/said")"

"$RLXC" compile $mlp --grad y --wrt params -q -o "$TMPDIR/out"
grep -q '"name": "fc1.weight", "kind": "param", "reached": true, "paths": 1' "$TMPDIR/out/transform.json" || fail "ledger"
grep -q '^  outputs: grad:fc1.weight' "$TMPDIR/out/transform.txt" || fail "ledger text"
"$RLXC" compile $mlp --grad y --wrt params -q --save-config "$TMPDIR/config.json" -o "$TMPDIR/again"
"$RLXC" compile $mlp --config "$TMPDIR/config.json" -q -o "$TMPDIR/again"
cmp "$TMPDIR/out/transform.json" "$TMPDIR/again/transform.json" || fail "a configuration keeps the order of the words"

for form in json txt; do
  "$RLXC" transform $mlp --grad y --wrt params --vmap x --size 8 -o "$TMPDIR/t.$form" --ledger "$TMPDIR/ledger.json" 2> "$TMPDIR/said"
  "$RLXC" run "$TMPDIR/t.$form" --random --size batch=2 | grep -q 'ok .* grad:fc2.weight' || fail "$form is not read back"
done
grep -q 'vmap x size 8' "$TMPDIR/said" || fail "what was done is not said"

! "$RLXC" compile $mlp --grad z -q -o "$TMPDIR/no" 2> "$TMPDIR/error" || fail "an unknown name passes"
grep -q 'RLX0210.*"z"' "$TMPDIR/error" || fail "$(cat "$TMPDIR/error")"
! "$RLXC" compile $mlp --hvp -q -o "$TMPDIR/no" 2> "$TMPDIR/error" || fail "hvp of nothing passes"

# Second derivatives of a potential agree with differences.
if /usr/bin/python3 -c 'import numpy' 2> /dev/null; then
  RLXC=$RLXC /usr/bin/python3 examples/physics/force_matching.py "$TMPDIR/physics" > "$TMPDIR/said" 2>&1 || fail "$(cat "$TMPDIR/said")"
fi
