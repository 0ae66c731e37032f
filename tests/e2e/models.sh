#!/bin/bash
# Every model of RLXC_TEST_MODELS/tiny computes its expected outputs with both engines.
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
for model in bert llama; do
  folder=$RLXC_TEST_MODELS/tiny/$model
  "$RLXC" run "$folder/model.onnx" --data "$folder" --precision automixed --min-cosine 0.999 || fails=1
done
exit $fails
