#!/bin/bash
# StableHLO: a text of JAX compiles and runs; packages of tpu, read back, compute what the models compute; damaged texts give
# diagnostics; JAX from build/peers, where it is installed, agrees with what its functions become.
set -uo pipefail
fails=0
check() { # what, command...
  "${@:2}" > "$TMPDIR/log" 2>&1 || { echo "FAIL $1"; head -20 "$TMPDIR/log"; fails=1; }
}
check run "$RLXC" run examples/attention.mlir --random
check info "$RLXC" info examples/attention.mlir
grep -q '^format *StableHLO\|StableHLO' "$TMPDIR/log" || { echo "FAIL info names no format"; fails=1; }
"$RLXC" compile examples/attention.mlir --target metal -o "$TMPDIR/out" > "$TMPDIR/log" 2>&1 || { echo "FAIL compile"; cat "$TMPDIR/log"; fails=1; }
grep -q '^ *attention  *1 ' "$TMPDIR/out/fusion.txt" || { echo "FAIL attention of JAX is not fused"; head -20 "$TMPDIR/out/fusion.txt"; fails=1; }
for n in 30 200 700 1500; do
  head -c $n examples/attention.mlir > "$TMPDIR/cut.mlir"
  "$RLXC" inspect "$TMPDIR/cut.mlir" > "$TMPDIR/log" 2>&1
  code=$?
  { [ $code = 4 ] && grep -q 'error\[RLX0101\]: line ' "$TMPDIR/log"; } || { echo "FAIL a text cut at $n: $code"; cat "$TMPDIR/log"; fails=1; }
done
sed 's/stablehlo.exponential/stablehlo.frobnicate/' examples/attention.mlir > "$TMPDIR/unknown.mlir"
"$RLXC" inspect "$TMPDIR/unknown.mlir" > "$TMPDIR/log" 2>&1
code=$?
{ [ $code = 5 ] && grep -q 'line [0-9]* column [0-9]*, stablehlo.frobnicate: it is not in the vocabulary' "$TMPDIR/log"; } ||
  { echo "FAIL an unknown operation: $code"; cat "$TMPDIR/log"; fails=1; }

build=$(dirname "$(readlink -f "$RLXC")")
python=$(sed -n 's/^RLXC_SYSTEM_PYTHON:FILEPATH=//p' "$build/CMakeCache.txt" 2> /dev/null)
if [ -n "$python" ] && grep -q rlxc_native "$build/build.ninja" && "$python" -c 'import numpy' 2> /dev/null; then
  scripts/build rlxc_python || exit 1
  export PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1
  models=(examples/bert.onnx examples/mlp.json)
  [ -z "${RLXC_TEST_MODELS:-}" ] || models+=("$RLXC_TEST_MODELS"/tiny/*/model.onnx)
  "$python" tests/support/python/stablehlo_back.py "$TMPDIR/packages" "${models[@]}" > "$TMPDIR/log" 2>&1 || { grep -a '^FAIL' "$TMPDIR/log"; fails=1; }
  peer=build/peers/jax/bin/python
  if [ -x $peer ] && $peer -c 'import jax, rlxc; rlxc.targets()' 2> /dev/null; then
    (cd tests/python && JAX_PLATFORMS=cpu ../../$peer -m unittest test_jax) > "$TMPDIR/log" 2>&1 || { tail -40 "$TMPDIR/log"; fails=1; }
  else
    echo "without JAX (scripts/setup-peers jax): its functions are not compared"
  fi
else
  echo "without the Python module or NumPy: packages of tpu are not read back"
fi
exit $fails
