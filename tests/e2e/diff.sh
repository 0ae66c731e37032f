#!/bin/bash
# Two compiles are compared; a rewrite that breaks a check is found; a pass list, a claim file and the dump of every pass do what they say.
set -uo pipefail
fail() { echo "FAIL $1"; exit 1; }
model=examples/bert.onnx
"$RLXC" compile $model -q -o "$TMPDIR/a" && "$RLXC" compile $model -q -o "$TMPDIR/b" || fail compile
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" | grep -qx 'no difference' || fail "equal compiles differ"
"$RLXC" compile $model -q --disable-pass fuse_residual_ln,fuse_matmul_bias_act -o "$TMPDIR/b" || fail compile
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" > "$TMPDIR/text" && fail "a difference exits with 0"
grep -q '^ *fusion.launches ' "$TMPDIR/text" && grep -q '^- fusion.formed residual_ln' "$TMPDIR/text" || fail "the text lacks the change"
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" --fail-on 'fusion.launches>+0' > /dev/null && fail "a condition that holds exits with 0"
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" --fail-on 'dispatch.unsupported>0' > /dev/null || fail "a condition that does not hold exits with 1"
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" --fail-on 'fusion.lunches>0' 2> "$TMPDIR/log" && fail "an unknown name passes"
grep -q 'did you mean fusion.launches' "$TMPDIR/log" || fail "no name is suggested"
"$RLXC" diff "$TMPDIR/a" "$TMPDIR/b" --json > "$TMPDIR/diff.json"
scripts/validate-json schemas/diff.schema.json "$TMPDIR/diff.json" || fail schema

"$RLXC" bisect $model --check "! '$RLXC' inspect $model | grep -q fused_residual_ln" > "$TMPDIR/found" 2> "$TMPDIR/log"
[ $? -eq 1 ] && grep -q 'breaks the check: fuse_residual_ln (residual_ln), residual_ln at ' "$TMPDIR/found" &&
  [ "$(grep -c '^+.* = fused_residual_ln' "$TMPDIR/found")" -eq 1 ] || fail "bisect: $(cat "$TMPDIR/found" "$TMPDIR/log")"

"$RLXC" compile $model -q --emit lir --dump -o "$TMPDIR/d" || fail dump
diffs=("$TMPDIR"/d/dump/*.diff)
[ "$(head -c 4 "${diffs[0]}")" = "--- " ] || fail "the dump holds no diff"

printf 'Activation\nBinary\nCompare\nWhere\nCast\nMatMul\nReduce\nReshape\nTranspose\nNarrow\nExpand\nGather\nGatherElements\nGatherNd\nConcat\nDimValue\n' > "$TMPDIR/ops"
"$RLXC" compile $model -q --emit lir,fusion --supported-ops "$TMPDIR/ops" -o "$TMPDIR/c" || fail "claim"
grep -qE '"op": "(LayerNorm|Attention|Softmax|Fused[A-Za-z]*)", "before": [0-9]+, "after": [1-9]' "$TMPDIR/c/fusion.json" && fail "an operation is left that is not claimed"
echo 'MatMul' > "$TMPDIR/ops"
"$RLXC" compile $model -q --emit lir --supported-ops "$TMPDIR/ops" -o "$TMPDIR/c" 2> "$TMPDIR/log"
[ $? -eq 5 ] && grep -q 'no expansion for these nodes' "$TMPDIR/log" || fail "an impossible claim passes"
exit 0
