#!/bin/bash
# Packed weights in a file: later contexts map it, need no weights that only packing reads, and give the same results. A file that
# is cut off, or that another package wrote, is not read.
set -euo pipefail
cd "$TMPDIR"
model() {
  cat <<IR
module "model" mir {
graph @main {
  %0 = input "x" : f32[4,8]
  %1 = constant {data = splat $1} : f32[8,64]
  %2 = constant {data = splat 0.5} : f32[64,64]
  %3 = matmul(%0, %1) : f32[4,64]
  %4 = matmul(%3, %2) : f32[4,64]
  return %4 "y"
}
}
IR
}
for i in {1..32}; do printf '\0\0\200\77'; done > x
run() { (cd "$1/kernels/cpu" && ./run "$OLDPWD/x" "${@:2}"); }
for name in half quarter; do
  [ $name = half ] && model 0.5 > $name.rlx || model 0.25 > $name.rlx
  "$RLXC" compile $name.rlx --name p --emit kernels -q -o $name
  make -s -C $name/kernels/cpu run
  run $name > /dev/null
  cp $name/kernels/cpu/output_0.bin $name.bin
done
cmp -s half.bin quarter.bin && { echo "the models compute the same"; exit 1; }
same() {
  rm -f "$1/kernels/cpu/output_0.bin"
  run "$1" > /dev/null && cmp "$1/kernels/cpu/output_0.bin" "$1.bin" || { echo "FAIL $1: $2"; exit 1; }
}

# Written with the package, it is the file that `make prepack` writes.
"$RLXC" compile half.rlx --name p --emit kernels -q --prepack -o "with ' quotes"
ls "with ' quotes/kernels/cpu" | grep -qE '\.o$|^run$|log|model$' && { echo "the build is left in the package"; exit 1; }
grep -q '"kernels/cpu/p.packed"' "with ' quotes/manifest.json"
for arguments in "--target cuda" "--emit plan" "--train --loss mse"; do
  # shellcheck disable=SC2086  # several arguments
  "$RLXC" compile half.rlx -q --prepack $arguments -o refused 2> log && { echo "--prepack $arguments"; exit 1; }
  grep -q 'error\[' log
done

make -s -C half/kernels/cpu prepack
cmp half/kernels/cpu/p.packed "with ' quotes/kernels/cpu/p.packed"
cp half/kernels/cpu/p.packed first
make -s -C half/kernels/cpu prepack
cmp first half/kernels/cpu/p.packed
same half "a mapped file"
run half --repeat 2 | grep -q '^loaded in .* ms, first result after .* ms, at most .* MB of memory$'
mv half/kernels/cpu/p.weights weights
same half "a mapped file alone"
cp first quarter/kernels/cpu/p.packed
same quarter "a file of another package"
mv weights half/kernels/cpu/p.weights
head -c 5000 first > half/kernels/cpu/p.packed
same half "a file that is cut off"
: > half/kernels/cpu/p.packed
same half "an empty file"
rm half/kernels/cpu/p.packed
mkdir half/kernels/cpu/p.packed
same half "a folder"
if (cd half/kernels/cpu && ./run --prepack) 2> log; then echo "a folder was replaced"; exit 1; fi
grep -q 'a file could not be written' log
[ -z "$(find half -name '*.tmp-*')" ] || { echo "a temporary file is left"; exit 1; }
