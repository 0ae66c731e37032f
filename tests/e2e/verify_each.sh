#!/bin/bash
# Every pass that changes a model of RLXC_TEST_MODELS leaves what it computes as it was: the tiny models are evaluated before and after
# each pass on random inputs, for each target; the full ones, which the reference evaluator is too slow for, are checked for types.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] && [ -x "$RLXC_TEST_MODELS/make-weights.sh" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
"$RLXC_TEST_MODELS/make-weights.sh" "$TMPDIR/models" > /dev/null || exit 1
fails=0 compared=0 checked=0
verify() {  # how, model, targets
  "$RLXC" compile "$2/model.onnx" --target "$3" "$1" --emit lir -q -o "$TMPDIR/out" > "$TMPDIR/log" 2>&1 && ! grep -q 'not compared' "$TMPDIR/log" && return
  echo "FAIL $1 $(basename "$2"): $(grep -m 1 -E 'error|not compared' "$TMPDIR/log")"
  fails=1
  return 1
}
for folder in "$RLXC_TEST_MODELS"/tiny/*/; do
  for target in cpu tpu; do verify --verify-each "$folder" $target && compared=$((compared + 1)); done
done
for folder in "$TMPDIR"/models/*/; do verify --verify "$folder" all && checked=$((checked + 1)); done
echo "$compared compiles of tiny models compared pass by pass, $checked full models verified for all targets"
exit $fails
