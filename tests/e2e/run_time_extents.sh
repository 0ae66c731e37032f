#!/bin/bash
# Data-dependent dims: a package with sanitizers writes outputs of their real size, for nothing, some and all selected;
# what has no bound is refused by name, what outgrows a given bound is an error. Every target but tpu computes selections,
# loops whose iterations, carried shape and rows follow from the data, and rows of odd numbers of bytes.
set -euo pipefail
export PYTHONPATH=$PWD/tests/support/python
cd "$TMPDIR"
export ASAN_OPTIONS=detect_leaks=0
cat >select.rlx <<'IR'
module "select" mir {
graph @main {
  %0 = input "x" : f32[6,3]
  %1 = input "keep" : u8[6]
  %2 = non_zero(%1) : i64[1,rows]
  %3 = reshape(%2) {dims = ["rows"]} : i64[rows]
  %4 = gather(%0, %3) {axis = 0} : f32[rows,3]
  %5, %6, %7, %8 = unique(%4) {flat = true, sorted = true} : f32[kinds], i64[kinds], i64[3*rows], i64[kinds]
  return %4 "picked", %5 "kinds"
}
}
IR
"$RLXC" compile select.rlx --emit=lir,kernels -o out
grep -q '"symbol": "kinds".*"bound": 18' out/lir.json
flags="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover"
make -s -C out/kernels/cpu CFLAGS="$flags" LDFLAGS="$flags"
for i in $(seq 18); do printf '\0\0\x80\x3f'; done >x.bin
for keep in '\0\0\0\0\0\0' '\0\1\0\1\1\0' '\1\1\1\1\1\1'; do
  printf "$keep" >keep.bin
  out/kernels/cpu/run -w out/kernels/cpu x.bin keep.bin
  rows=$(tr -d '\0' <keep.bin | wc -c)
  [ "$(stat -c %s output_0.bin)" -eq $((rows * 12)) ]
  [ "$(stat -c %s output_1.bin)" -eq $((rows > 0 ? 4 : 0)) ]
done

cat >free.rlx <<'IR'
module "free" mir {
graph @main {
  %0 = input "n" : i64[]
  %1 = iota(%0) "count" : i64[length]
  return %1 "numbers"
}
}
IR
if "$RLXC" check free.rlx --target cpu >said; then echo "a size without a bound passed"; exit 1; fi
grep -q 'Iota: .*"length"' said
grep -q 'at count' said
grep -q -- '--bound length=SIZE' said
if "$RLXC" check free.rlx --target cpu --bound lenght=4 >said; then echo "a bound of nothing passed"; exit 1; fi
grep -q 'did you mean length?' said
"$RLXC" compile free.rlx --bound length=4 --emit=kernels -o free
make -s -C free/kernels/cpu CFLAGS="$flags" LDFLAGS="$flags"
printf '\4\0\0\0\0\0\0\0' >n.bin
free/kernels/cpu/run n.bin
[ "$(stat -c %s output_0.bin)" -eq 32 ]
printf '\5\0\0\0\0\0\0\0' >n.bin
code=0
free/kernels/cpu/run n.bin || code=$?
[ "$code" -eq 4 ]

cat >loop.rlx <<'IR'
module "loop" mir {
graph @main {
  %0 = input "x" : f32[n]
  %1 = constant {data = dense [6]} : i64[]
  %2 = constant {data = dense [1]} : bool[]
  %3 = reshape(%0) {dims = ["1", "n"]} : f32[1,n]
  %4, %5, %6, %7 = loop(%1, %2, %0, %3, %0) [@body] {carries = 2} : f32[n], f32[grown,n], f32[trips,n], f32[trips,kept]
  %8 = if(%2, %7) [@then, @else] : f32[d,kept]
  return %4, %5, %6, %7, %8
}
graph @body {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "sum" : f32[n]
  %3 = input "rows" : f32[grown,n]
  %4 = input "x" : f32[n]
  %5 = add(%2, %4) : f32[n]
  %6 = reshape(%5) {dims = ["1", "n"]} : f32[1,n]
  %7 = concat(%3, %6) {axis = 0} : f32[grown+1,n]
  %8 = reduce(%5) {op = "max", axes = [0], keep_dim = false} : f32[]
  %9 = constant {data = dense [2]} : f32[]
  %10 = lt(%8, %9) : bool[]
  %11 = relu(%4) : f32[n]
  %12 = non_zero(%11) : i64[1,kept]
  %13 = reshape(%12) {dims = ["kept"]} : i64[kept]
  %14 = gather(%5, %13) {axis = 0} : f32[kept]
  return %10, %5, %7, %5, %14
}
graph @then {
  %0 = input "rows" : f32[trips,kept]
  %1 = concat(%0, %0) {axis = 0} : f32[2*trips,kept]
  return %1
}
graph @else {
  %0 = input "rows" : f32[trips,kept]
  return %0
}
}
IR
cat >rows.rlx <<'IR'
module "rows" mir {
graph @main {
  %0 = input "x" : u8[n,3]
  %1 = input "keep" : u8[n]
  %2, %3 = scan(%0, %1) [@step] {states = 0, scan_inputs = 2, input_axes = [0,0], input_reverse = [0,0], output_axes = [0,0], output_reverse = [1,0]} : u8[n,3], i64[n,1,set]
  return %2, %3
}
graph @step {
  %0 = input "row" : u8[3]
  %1 = input "k" : u8[]
  %2 = constant {data = dense [1, 0, 1]} : u8[3]
  %3 = non_zero(%2) : i64[1,set]
  return %0, %3
}
}
IR
cat >detect.rlx <<'IR'
module "detect" mir {
graph @main {
  %0 = input "boxes" : f32[1,n,4]
  %1 = input "scores" : f32[1,3,n]
  %2 = constant {data = dense [20]} : i64[1]
  %3 = constant {data = dense [0.25]} : f32[1]
  %4 = constant {data = dense [0.125]} : f32[1]
  %5 = non_max_suppression(%0, %1, %2, %3, %4) : i64[found,3]
  %6 = narrow(%5) {axis = 1, start = 2, len = 1} : i64[found,1]
  %7 = reshape(%6) {dims = ["found"]} : i64[found]
  %8 = gather(%0, %7) {axis = 1} : f32[1,found,4]
  return %5, %8
}
}
IR
# Symbols that are parts of the sizes of inputs only.
cat >parts.rlx <<'IR'
module "parts" mir {
graph @main {
  %0 = input "x" : f32[2*h,past+seq]
  %1 = input "y" : f32[seq]
  %2 = reshape(%0) {dims = ["h", "2*past+2*seq"]} : f32[h,2*past+2*seq]
  %3 = relu(%2) : f32[h,2*past+2*seq]
  %4 = tanh(%1) : f32[seq]
  return %3 "a", %4 "b"
}
}
IR
for target in cpu metal cuda rocm mlx ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run parts.rlx --random --size h=2,past=3,seq=4 --target $target >said || { echo "parts on $target"; cat said; exit 1; }
  "$RLXC" run select.rlx --random --target $target >said || { echo "select on $target"; cat said; exit 1; }
  for model in loop rows detect; do
    "$RLXC" run $model.rlx --random --size n=1 --size n=70 --target $target >said || { echo "$model on $target"; cat said; exit 1; }
  done
done
for target in metal ${RLXC_WEBGPU:+wgpu}; do
  if "$RLXC" run detect.rlx --random --size n=70 --bound found=3 --target $target >said 2>&1; then echo "beyond a bound on $target"; exit 1; fi
  grep -q 'dynamic size: "found" is .* 0..3' said
done
