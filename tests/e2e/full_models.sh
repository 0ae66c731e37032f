#!/bin/bash
# Every full-size model of RLXC_TEST_MODELS compiles for every target, in f32 and mixed precision, kernels included, with sparse weight
# files beside it that are not read; types and names are checked after every pass. Only tpu takes no model with sizes that stay symbolic.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] && [ -x "$RLXC_TEST_MODELS/make-weights.sh" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
"$RLXC_TEST_MODELS/make-weights.sh" "$TMPDIR/models" || exit 1
fails=0
for folder in "$TMPDIR"/models/*/; do
  for precision in f32 automixed; do
    what="$(basename "$folder"), $precision"
    "$RLXC" compile "$folder/model.onnx" --target all --precision $precision --verify -q -o "$TMPDIR/out" 2>"$TMPDIR/log" ||
      { [ $? -eq 5 ] && grep -q 'kernels/tpu is not written' "$TMPDIR/log"; } || { echo "FAIL $what: $(cat "$TMPDIR/log")"; fails=1; }
    [ "$(find "$TMPDIR/out" -name plan.json | wc -l)" -eq 7 ] || { echo "$what: not all targets"; fails=1; }
    packages=7  # at least
    grep -q '"symbols": \[\]' "$TMPDIR/out/tpu/lir.json" || packages=6
    [ "$(find "$TMPDIR/out" -path '*/kernels/*/README.md' | wc -l)" -ge $packages ] || { echo "$what: not all kernels"; fails=1; }
    rm -rf "$TMPDIR/out"
  done
done
exit $fails
