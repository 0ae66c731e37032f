#!/bin/bash
# A folder of models: the table of causes, and a second run that takes the results of the first.
set -eu
fail() { echo "$1"; exit 1; }
mkdir "$TMPDIR/models"
cp tests/onnx/written/two_inputs.onnx "$TMPDIR/models/a.onnx"
cp tests/onnx/written/two_inputs.onnx "$TMPDIR/models/same.onnx"
printf 'no model' > "$TMPDIR/models/damaged.onnx"
export RLXC
corpus() { scripts/corpus --work "$TMPDIR/kept" --engine reference --jobs 1 "$TMPDIR/models"; }
corpus > "$TMPDIR/first" || true
grep -q '1  equal' "$TMPDIR/first" || fail "$(cat "$TMPDIR/first")"
grep -qE '1  (refused|not run)' "$TMPDIR/first" || fail "damaged: $(cat "$TMPDIR/first")"
[ "$(wc -l < "$TMPDIR/kept/results.jsonl")" = 2 ] || fail "a copy is run twice"
corpus > "$TMPDIR/second" || true
cmp "$TMPDIR/first" "$TMPDIR/second" || fail "the second run differs"
[ "$(wc -l < "$TMPDIR/kept/results.jsonl")" = 2 ] || fail "the second run has work"
