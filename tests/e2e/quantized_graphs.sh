#!/bin/bash
# Random graphs as quantizers write them, whose arithmetic is exact: the kernels of processors with and without dot products of bytes,
# and of GPUs, give the bits of the reference evaluator, with no rows too.
set -uo pipefail
for python in python3 /usr/bin/python3 ""; do
  [ -n "$python" ] || { echo "python3-numpy is not installed"; exit 77; }
  "$python" -c 'import numpy' 2> /dev/null && break
done
"$python" tests/support/python/quantized_graphs.py "$TMPDIR" 40 || exit 1
fails=0
same() {  # number of the graph, sizes of its symbolic dim, if it has one, options of rlxc run
  local sizes=()
  "$RLXC" info "$TMPDIR/$1.onnx" > "$TMPDIR/log"
  ! grep -q '^  m  ' "$TMPDIR/log" || for size in $2; do sizes+=(--size "m=$size"); done
  "$RLXC" run "$TMPDIR/$1.onnx" --random --rtol 0 --atol 0 "${sizes[@]}" "${@:3}" > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL graph $1, ${*:2}"; grep -m 2 -E 'FAIL|error' "$TMPDIR/log"; fails=1; }
}
for i in {0..39}; do same "$i" "0 3" --engine interpreter; done
for i in {0..9}; do same "$i" "1 0 17" --cpu native; done
for i in {10..15}; do same "$i" 2 --cpu haswell; done
for i in {16..19}; do same "$i" 3 --target cuda; done
for i in 20 21; do same "$i" 3 --target metal; done
# Compilers fuse products with sums.
"$RLXC" run "$TMPDIR/sum.onnx" --engine reference --data "$TMPDIR" --save-outputs "$TMPDIR/want" > "$TMPDIR/log" || exit 1
"$RLXC" compile "$TMPDIR/sum.onnx" --cpu native --emit kernels -q -o "$TMPDIR/sum" || exit 1
cd "$TMPDIR/sum/kernels/cpu" || exit 1
for compiler in gcc clang; do
  { make -s -B run CC="$compiler" && ./run "$TMPDIR/0.bin" "$TMPDIR/1.bin" > "$TMPDIR/log"; } || exit 1
  tail -c 1998 "$TMPDIR/want/output_0.npy" | cmp - output_0.bin || { echo "FAIL sum, $compiler"; fails=1; }
done
exit $fails
