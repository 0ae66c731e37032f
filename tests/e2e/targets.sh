#!/bin/bash
# Every model of RLXC_TEST_MODELS/tiny computes its expected outputs with the packages of targets that this machine lacks: metal
# and cuda sources run on the CPU, wgpu on Dawn where RLXC_WEBGPU is set, mlx and tpu by the NumPy stand-ins of tests/support.
# RLXC_TEST_TARGETS names other targets than these.
set -uo pipefail
[ -n "${RLXC_TEST_MODELS:-}" ] && [ -d "$RLXC_TEST_MODELS/tiny" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py PYTHONPATH=$PWD/tests/support/python
fails=0
targets=${RLXC_TEST_TARGETS:-metal cuda}
[ -n "${RLXC_TEST_TARGETS:-}" ] || { [ -n "${RLXC_WEBGPU:-}" ] && targets="$targets wgpu" || echo "wgpu skipped: RLXC_WEBGPU is not set"; }
[ -n "${RLXC_TEST_TARGETS:-}" ] || { python3 -c 'import numpy' 2>/dev/null && targets="$targets mlx tpu" || echo "mlx and tpu skipped: no numpy"; }
for target in $targets; do
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
