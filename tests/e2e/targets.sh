#!/bin/bash
# The example model computes its expected outputs with the packages of targets that this machine lacks: metal, cuda and rocm
# sources run on the CPU, mlx and tpu by the NumPy stand-ins of tests/support, wgpu on Dawn where RLXC_WEBGPU names its module.
# One package of a model with symbolic sizes runs at several of them; products in mixed precision go through matrix units.
set -uo pipefail
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py PYTHONPATH=$PWD/tests/support/python
fails=0
for target in metal cuda rocm mlx tpu ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run examples/bert.onnx --data examples/bert_data --target $target --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL $target"; cat "$TMPDIR/log"; fails=1; }
done
RLXC_STABLEHLO= "$RLXC" run examples/bert.onnx --data examples/bert_data --target tpu > "$TMPDIR/log" 2>&1 ||
  { echo "FAIL tpu by its runner"; cat "$TMPDIR/log"; fails=1; }
dynamic=${RLXC_TEST_MODELS:-/none}/tiny/bert_ts_dyn/model.onnx
for target in metal cuda ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run examples/bert.onnx --data examples/bert_data --target $target --precision automixed --min-cosine 0.999 > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL $target in mixed precision"; cat "$TMPDIR/log"; fails=1; }
  [ ! -f "$dynamic" ] || "$RLXC" run "$dynamic" --random --size batch=1,seq=1 --size batch=2,seq=7 --size batch=3,seq=16 --target $target \
    --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1 || { echo "FAIL $target at several sizes"; cat "$TMPDIR/log"; fails=1; }
done
# Every runner refuses a weights file that does not begin with the fingerprint of its model.
head -c 16 /dev/zero > "$TMPDIR/input_0.bin"
refused() {
  "$RLXC" compile examples/mlp.json --bind batch=1 --target $1 --emit kernels -q -o "$TMPDIR/$1" || { echo "FAIL $1: no package"; fails=1; }
  cd "$TMPDIR/$1/kernels/$1" || exit 1
  "${@:2}" . "$TMPDIR/input_0.bin" > "$TMPDIR/log" 2>&1 || { echo "FAIL $1: its own weights"; cat "$TMPDIR/log"; fails=1; }
  printf x | dd of=mlp.weights conv=notrunc status=none
  "${@:2}" . "$TMPDIR/input_0.bin" > "$TMPDIR/log" 2>&1 && { echo "FAIL $1: other weights are taken"; fails=1; }
  grep -q 'belongs to another model' "$TMPDIR/log" || { echo "FAIL $1: no reason is given"; cat "$TMPDIR/log"; fails=1; }
  cd "$OLDPWD" || exit 1
}
refused mlx python3 model.py
refused tpu python3 run.py
[ -z "${RLXC_WEBGPU:-}" ] || NODE_PATH=$RLXC_WEBGPU refused wgpu node run.mjs
# An index that the inputs give is clamped into its range; hosts of hardened packages refuse it.
mkdir "$TMPDIR/indices"
python3 tests/support/python/index_cases.py "$TMPDIR/indices" || exit 1
runs_indices() { # folder of data, flags
  "$RLXC" run "$TMPDIR/indices/indices.ir" --data "$1" --target $target "${@:2}" > "$TMPDIR/log" 2>&1
}
for target in cpu metal cuda rocm ${RLXC_WEBGPU:+wgpu}; do
  runs_indices "$TMPDIR/indices/data" || { echo "FAIL $target: an index is not clamped"; cat "$TMPDIR/log"; fails=1; }
  for data in "$TMPDIR"/indices/data/*; do
    [[ $target = cpu || $data != *_below ]] || continue
    case $data in
      # Indices of a branch that is not taken are not read.
      *good | *other_branch) runs_indices "$data" --hardened || { echo "FAIL $target: hardened, ${data##*_set_}"; cat "$TMPDIR/log"; fails=1; } ;;
      *)
        runs_indices "$data" --hardened
        [ $? -eq 1 ] && grep -q 'out of range' "$TMPDIR/log" ||
          { echo "FAIL $target: a hardened package takes ${data##*_set_}"; cat "$TMPDIR/log"; fails=1; } ;;
    esac
  done
done
# Dot products of bytes, and what stands in for them in a WebGPU without packed_4x8_integer_dot_product.
cat > "$TMPDIR/bytes.ir" <<END
module "bytes" mir {
graph @main {
  %0 = input "x" : u8[20,70]
  %1 = input "w" : u8[70,24]
  %2 = input "v" : i8[70,24]
  %3 = input "zero" : u8[]
  %4 = q_matmul(%0, %1, %3, %3) : i32[20,24]
  %5 = q_matmul(%0, %2, %3, _) : i32[20,24]
  return %4 "y", %5 "z"
}
}
END
for target in metal cuda rocm ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run "$TMPDIR/bytes.ir" --random --target $target --rtol 0 --atol 0 > "$TMPDIR/log" 2>&1 || { echo "FAIL $target: bytes"; cat "$TMPDIR/log"; fails=1; }
done
if [ -n "${RLXC_WEBGPU:-}" ]; then
  "$RLXC" compile "$TMPDIR/bytes.ir" --target wgpu --emit kernels -q -o "$TMPDIR/bytes" || { echo "FAIL wgpu: no package of bytes"; fails=1; }
  cd "$TMPDIR/bytes/kernels/wgpu" || exit 1
  grep -q dot4I8Packed *.wgsl && grep -q dot4U8Packed *.wgsl || { echo "FAIL wgpu: no dot products"; fails=1; }
  head -c 1400 "$RLXC" > x.bin && tail -c 1680 "$RLXC" > w.bin && tail -c 9000 "$RLXC" | head -c 1680 > v.bin && printf '\200' > zero.bin
  for form in plain lacking; do
    node run.mjs . x.bin w.bin v.bin zero.bin > "$TMPDIR/log" 2>&1 || { echo "FAIL wgpu: $form"; cat "$TMPDIR/log"; fails=1; }
    cat output_0.bin output_1.bin > "$TMPDIR/$form.bin"
    rm -f output_*.bin
    sed -i "s/this.gpu.wgslLanguageFeatures?.has('packed_4x8_integer_dot_product')/false/" rlxc.mjs
  done
  grep -q 'packed_4x8' <(sed -n '/createShaderModule/{x;p;x};h' rlxc.mjs) && { echo "FAIL the test does not hide the feature"; fails=1; }
  cmp -s "$TMPDIR/plain.bin" "$TMPDIR/lacking.bin" || { echo "FAIL wgpu: other results without the feature"; fails=1; }
  cd "$OLDPWD" || exit 1
fi
# Memory and weights in pieces, as for devices that bind no more at a time.
in_pieces() {
  "$RLXC" run "$1" --target wgpu --max-binding "$2" "${@:3}" --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL wgpu in pieces of $2 bytes: $1"; cat "$TMPDIR/log"; fails=1; }
}
cat > "$TMPDIR/control.ir" <<END
module "control" mir {
graph @main {
  %0 = input "x" : f32[64,64]
  %1 = input "go" : bool[]
  %2 = constant {data = dense [3]} : i64[]
  %3 = constant {data = dense [1]} : bool[]
  %4, %5 = loop(%2, %3, %0) [@step] {carries = 1} : f32[64,64], f32[3,64,64]
  %6 = if(%1, %4) [@twice, @negated] : f32[64,64]
  %7, %8 = scan(%6, %5) [@row] {states = 1, scan_inputs = 1, input_axes = [0], input_reverse = [1], output_axes = [0], output_reverse = [0]} : f32[64,64], f32[3,64,64]
  return %7 "last", %8 "all"
}
graph @step {
  %0 = input "i" : i64[]
  %1 = input "c" : bool[]
  %2 = input "s" : f32[64,64]
  %3 = softmax(%2) {axis = 1} : f32[64,64]
  %4 = matmul(%2, %3) : f32[64,64]
  %5 = tanh(%4) : f32[64,64]
  return %1, %5, %4
}
graph @twice {
  %0 = input "a" : f32[64,64]
  %1 = add(%0, %0) : f32[64,64]
  return %1
}
graph @negated {
  %0 = input "a" : f32[64,64]
  %1 = neg(%0) : f32[64,64]
  return %1
}
graph @row {
  %0 = input "h" : f32[64,64]
  %1 = input "x" : f32[64,64]
  %2 = matmul(%0, %1) : f32[64,64]
  %3 = tanh(%2) : f32[64,64]
  return %3, %2
}
}
END
if [ -n "${RLXC_WEBGPU:-}" ]; then
  in_pieces examples/bert.onnx 16384 --data examples/bert_data
  in_pieces "$TMPDIR/control.ir" 65536 --random
  for name in ${RLXC_TEST_MODELS:+bert custom_unet custom_lstm swin custom_quant_qdq_cnn}; do
    in_pieces "$RLXC_TEST_MODELS/tiny/$name/model.onnx" 16384 --data "$RLXC_TEST_MODELS/tiny/$name"
  done
  [ ! -f "$dynamic" ] || in_pieces "$dynamic" 16384 --range batch=1..3,seq=1..16 --random --size batch=1,seq=1 --size batch=3,seq=16 --size batch=2,seq=7
fi
exit $fails
