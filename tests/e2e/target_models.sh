#!/bin/bash
# Every model of the folder tiny/ of RLXC_TEST_MODELS computes its expected outputs on mlx and tpu by the NumPy stand-ins of
# tests/support, and on wgpu where RLXC_WEBGPU names its module; or on the targets of RLXC_TEST_TARGETS (minutes each).
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py PYTHONPATH=$PWD/tests/support/python
fails=0
for target in ${RLXC_TEST_TARGETS:-mlx tpu ${RLXC_WEBGPU:+wgpu}}; do
  passed=0 unsupported=0
  for folder in "$RLXC_TEST_MODELS"/tiny/*/; do
    "$RLXC" run "$folder/model.onnx" --data "$folder" --target "$target" --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1
    case $? in
      0) passed=$((passed + 1)) ;;
      5) unsupported=$((unsupported + 1)); echo "$target: $(basename "$folder"): $(grep -m1 'error\[' "$TMPDIR/log" | sed 's/.*error/error/')" ;;
      *) echo "FAIL $target $(basename "$folder")"; head -5 "$TMPDIR/log"; fails=1 ;;
    esac
  done
  echo "$target: $passed models agree with their expected outputs, $unsupported have nodes that it does not support"
done
exit $fails
