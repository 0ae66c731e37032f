#!/bin/bash
# Every full-size model of RLXC_TEST_MODELS compiles for every target, with sparse weight files beside it that are not read.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] && [ -x "$RLXC_TEST_MODELS/make-weights.sh" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
"$RLXC_TEST_MODELS/make-weights.sh" "$TMPDIR/models" || exit 1
fails=0
for folder in "$TMPDIR"/models/*/; do
  if ! "$RLXC" compile "$folder/model.onnx" --target all --emit lir,plan,fusion,dispatch,precision,svg -q -o "$TMPDIR/out"; then
    echo "FAIL $(basename "$folder")"
    fails=1
  fi
  [ "$(find "$TMPDIR/out" -name plan.json | wc -l)" -eq 7 ] || { echo "$(basename "$folder"): not all targets"; fails=1; }
  rm -rf "$TMPDIR/out"
done
exit $fails
