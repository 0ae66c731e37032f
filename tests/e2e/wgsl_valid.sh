#!/bin/bash
# naga, a WGSL compiler beside Dawn's, accepts every kernel of the examples in f32 and in mixed precision, and of the folder tiny/ of
# RLXC_TEST_MODELS. In f32, none of the example's kernels uses atomic operations; forms with f16 never do.
set -uo pipefail
command -v naga > /dev/null || { echo "no naga: cargo install naga-cli"; exit 77; }
fails=0 models=(examples/bert.onnx examples/decoder.json)
for name in ${RLXC_TEST_MODELS:+bert swin mamba custom_int_ops}; do models+=("$RLXC_TEST_MODELS/tiny/$name/model.onnx"); done
for model in "${models[@]}"; do
  for precision in f32 automixed; do
    rm -rf "$TMPDIR/out"
    "$RLXC" compile "$model" --target wgpu --precision $precision --emit kernels -q -o "$TMPDIR/out" || { echo "FAIL $model"; fails=1; continue; }
    naga --bulk-validate "$TMPDIR"/out/kernels/wgpu/*.wgsl > "$TMPDIR/log" 2>&1 || { echo "FAIL $model, $precision"; head -20 "$TMPDIR/log"; fails=1; }
    case $precision in f32) files=$TMPDIR/out/kernels/wgpu/*.wgsl ;; *) files=$TMPDIR/out/kernels/wgpu/*.f16.wgsl ;; esac
    grep -l 'atomic' $files 2> /dev/null && { echo "FAIL $model, $precision: atomic operations"; fails=1; }
  done
done
exit $fails
