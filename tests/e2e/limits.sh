#!/bin/bash
# What is too much work ends with exit code 7 and names the limit, the node, and the flag that raises it.
set -uo pipefail
export PYTHONPATH=$PWD/tests/support/python PYTHONDONTWRITEBYTECODE=1
fails=0
python3 tests/support/python/endless_models.py "$TMPDIR" || exit 1
stops() { # words of the message, command...: within 60 seconds
  local words=$1 said status word
  shift
  said=$(timeout 60 "$RLXC" "$@" 2>&1 </dev/null)
  status=$?
  [ $status -eq 7 ] || { echo "exit code $status instead of 7: rlxc $*"; echo "$said" | tail -5; fails=1; }
  for word in RLX0105 $words; do
    grep -q -e "$word" <<<"$said" || { echo "no \"$word\" from rlxc $*: $said"; fails=1; }
  done
}
few="--max-operations 10000000"
for model in endless nested; do
  node=forever
  [ $model = endless ] || node='Loop_o\|outer'
  # shellcheck disable=SC2086  # several words
  stops "$node --max-operations" run "$TMPDIR/$model.onnx" --random --engine reference $few
  # The kernels themselves, on data that says what to expect.
  mkdir -p "$TMPDIR/$model" && python3 - "$TMPDIR/$model" <<'END'
import sys
import numpy as np
from onnx_writer import tensor
for name in ("input_0", "output_0"):
    open(f"{sys.argv[1]}/{name}.pb", "wb").write(tensor(np.zeros(2, np.float32)))
END
  # shellcheck disable=SC2086
  stops "$node --max-operations" run "$TMPDIR/$model.onnx" --data "$TMPDIR/$model" $few
  # shellcheck disable=SC2086
  stops "--max-operations" run "$TMPDIR/$model.onnx" --data "$TMPDIR/$model" --engine interpreter $few
  timeout 60 "$RLXC" compile "$TMPDIR/$model.onnx" --target all -q -o "$TMPDIR/out" 2>"$TMPDIR/log" </dev/null
  status=$?
  [ $status -eq 0 ] || [ $status -eq 5 ] || { echo "compile of $model: exit code $status"; tail -3 "$TMPDIR/log"; fails=1; }
done
stops "--max-operations" run tests/hostile/loop_2_62.onnx --random --max-operations 10000000
stops "first_call --max-nodes" check "$TMPDIR/functions.onnx" --target all
stops "wide --max-memory" run "$TMPDIR/large.onnx" --random --engine reference --max-memory 1000000000
if ! grep -qa __asan_init "$RLXC"; then # whose shadow is memory of the process
  stops "stage --max-memory" run tests/hostile/loop_2_62.onnx --random --max-memory 100000
fi
stops "stage --max-time" run "$TMPDIR/endless.onnx" --random --max-time 1 --max-operations 1000000000000000
if ! grep -qa __asan_init "$RLXC"; then
  python3 tests/support/python/growing_models.py "$RLXC" "$TMPDIR" || fails=1
fi
left=$(find "$TMPDIR" -maxdepth 1 -name 'rlxc-*')
[ -z "$left" ] || { echo "left: $left"; fails=1; }
exit $fails
