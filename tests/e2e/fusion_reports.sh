#!/bin/bash
# Fusion reports of all models of RLXC_TEST_MODELS (without it: of the examples), of the small ones in narrow types too, name every
# fusion that is missed, and no other; and every norm, activation and attention that is written in a model is recognised.
set -uo pipefail
mkdir "$TMPDIR/models" "$TMPDIR/reports"
if [ -n "${RLXC_TEST_MODELS:-}" ] && [ -x "$RLXC_TEST_MODELS/make-weights.sh" ]; then
  "$RLXC_TEST_MODELS/make-weights.sh" "$TMPDIR/models/full" > /dev/null || exit 1
  ln -sfn "$RLXC_TEST_MODELS/tiny" "$TMPDIR/models/tiny"
else
  for f in examples/*.onnx; do mkdir -p "$TMPDIR/models/$(basename "$f" .onnx)" && cp "$f" "$TMPDIR/models/$(basename "$f" .onnx)/model.onnx"; done
fi
count=0
for model in "$TMPDIR"/models/*/model.onnx "$TMPDIR"/models/*/*/model.onnx; do
  [ -f "$model" ] || continue
  count=$((count + 1))
  out=$TMPDIR/reports/$count-$(basename "$(dirname "$model")")
  "$RLXC" compile "$model" --emit fusion,lir -q -o "$out" || exit 1
  case $model in */full/*) continue ;; esac
  "$RLXC" compile "$model" --target cuda --precision automixed --emit fusion,lir -q -o "$out-automixed" || exit 1
  "$RLXC" compile "$model" --target metal --precision f16 --emit fusion,lir -q -o "$out-f16" || exit 1
  "$RLXC" compile "$model" --precision mxfp8-e4m3 --emit fusion,lir -q -o "$out-mxfp8" || exit 1
  "$RLXC" compile "$model" --target mlx --emit fusion,lir -q -o "$out-mlx" || exit 1
done
scripts/check-fusion "$TMPDIR"/reports/* || exit 1
if [ -d "$TMPDIR/models/full" ]; then
  scripts/fusion-doc "$TMPDIR/models" "$RLXC" --check
fi
