#!/bin/bash
# Attention blocks and transformer layers as one launch each (--fuse-attn-threshold): models compute their expected outputs on the
# targets whose kernels are joined, in fewer launches, and the report of each is right.
set -uo pipefail
fails=0
launches() { sed -n 's/.*"launches": {"before": [0-9]*, "after": \([0-9]*\)}.*/\1/p' "$1/fusion.json"; }
check() {  # model, data, target
  local name; name=$(basename "$(dirname "$1")")-$3
  "$RLXC" compile "$1" --target "$3" --emit fusion -q -o "$TMPDIR/apart" || fails=1
  "$RLXC" compile "$1" --target "$3" --fuse-attn-threshold 4096 --emit fusion,lir -q -o "$TMPDIR/reports/$name" || fails=1
  local apart joined
  apart=$(launches "$TMPDIR/apart") joined=$(launches "$TMPDIR/reports/$name")
  [ "$joined" -lt "$apart" ] || { echo "FAIL $name: $joined launches, $apart without"; fails=1; }
  "$RLXC" run "$1" --data "$2" --target "$3" --fuse-attn-threshold 4096 --atol 1e-4 > "$TMPDIR/log" 2>&1 || { echo "FAIL $name"; tail -3 "$TMPDIR/log"; fails=1; }
  echo "$name: $joined launches instead of $apart"
}

for target in cuda rocm metal ${RLXC_WEBGPU:+wgpu}; do check examples/bert.onnx examples/bert_data $target; done
for model in ${RLXC_TEST_MODELS:+llama swin t5 segformer}; do
  folder=$RLXC_TEST_MODELS/tiny/$model
  for target in cuda ${RLXC_WEBGPU:+wgpu}; do [ ! -f "$folder/model.onnx" ] || check "$folder/model.onnx" "$folder" $target; done
done
scripts/check-fusion "$TMPDIR"/reports/* || fails=1
exit $fails
