#!/bin/bash
# Every model of RLXC_TEST_MODELS/tiny computes its expected outputs with both engines, in bf16 by the interpreter of kernels. Every one of
# RLXC_TEST_MODELS/found compiles for four targets, without kernels where sizes have no bounds, and computes what its data expect.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] && [ -d "$RLXC_TEST_MODELS/tiny" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
fails=0
for engine in reference kernels; do
  passed=0
  for folder in "$RLXC_TEST_MODELS"/tiny/*/; do
    if "$RLXC" run "$folder/model.onnx" --data "$folder" --engine=$engine --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1; then
      passed=$((passed + 1))
    else
      echo "FAIL $engine $(basename "$folder") (exit code $?)"
      head -5 "$TMPDIR/log"
      fails=1
    fi
  done
  echo "$engine: $passed models agree with their expected outputs"
done
for folder in "$RLXC_TEST_MODELS"/tiny/*/; do
  "$RLXC" run "$folder/model.onnx" --data "$folder" --precision automixed-bf16 --engine interpreter --min-cosine 0.999 > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL bf16 $(basename "$folder")"; cat "$TMPDIR/log"; fails=1; }
done
for model in "$RLXC_TEST_MODELS"/found/*.onnx; do
  for target in cpu metal cuda wgpu; do
    "$RLXC" compile "$model" --target $target --allow-missing-weights -q -o "$TMPDIR/found" > "$TMPDIR/log" 2>&1 ||
      { [ $? -eq 5 ] && grep -q 'give a bound with --bound' "$TMPDIR/log"; } || { echo "FAIL $target $(basename "$model")"; cat "$TMPDIR/log"; fails=1; }
  done
  data=${model%.onnx}
  data=${data%_wrong}_data
  for engine in reference kernels; do
    [ ! -d "$data" ] || "$RLXC" run "$model" --data "$data" --engine $engine > "$TMPDIR/log" 2>&1 ||
      { echo "FAIL $engine $(basename "$model")"; cat "$TMPDIR/log"; fails=1; }
  done
done
for model in bert llama; do
  folder=$RLXC_TEST_MODELS/tiny/$model
  "$RLXC" run "$folder/model.onnx" --data "$folder" --precision automixed --engine interpreter --min-cosine 0.999 || fails=1
done
exit $fails
