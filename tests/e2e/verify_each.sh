#!/bin/bash
# Every pass that changes a model of RLXC_TEST_MODELS/tiny leaves what it computes as it was: the models are evaluated before and
# after each pass on random inputs. full_models.sh checks types after each pass of the full ones.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
fails=0 compared=0
verify() {  # model, target
  "$RLXC" compile "$1/model.onnx" --target "$2" --verify-each --emit lir -q -o "$TMPDIR/out" > "$TMPDIR/log" 2>&1 && ! grep -q 'not compared' "$TMPDIR/log" && return
  echo "FAIL $2 $(basename "$1"): $(grep -m 1 -E 'error|not compared' "$TMPDIR/log")"
  fails=1
  return 1
}
for folder in "$RLXC_TEST_MODELS"/tiny/*/; do
  for target in cpu tpu; do verify "$folder" $target && compared=$((compared + 1)); done
done
echo "$compared compiles compared pass by pass"
exit $fails
