#!/bin/bash
# Resize from and to data-dependent dims, by each mode and coordinate rule, on targets with code of their own for it: kernels
# that compute with f64 and without, and MLX.
set -uo pipefail
export PYTHONPATH=$PWD/tests/support/python
number=0 results=""
resize() {  # attributes
  number=$((number + 1)) results+="${results:+, }%$number \"$*\""
  echo "  %$number = resize(%0) {sizes = [\"2\", \"2*h+1\", \"w+3\"], ${*//\'/\"}} : f32[2,2*h+1,w+3]"
}
# The region of tf_crop_and_resize is one in which no source coordinate is so near a jump of the result that f32 decides it.
{
  echo 'module "resize" mir {
graph @main {
  %0 = input "x" : f32[2,h,w]'
  for coord in half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn tf_crop_and_resize; do
    rule="coord = '$coord'"
    [ $coord = tf_crop_and_resize ] && rule+=", roi = [0, -0.2137, 0.1319, 1, 0.8271, 1.3083], extrapolation = 2"
    for nearest in round_prefer_floor round_prefer_ceil floor ceil; do resize "mode = 'nearest', nearest = '$nearest', $rule"; done
    for mode in linear cubic; do resize "mode = '$mode', $rule"; done
  done
  for mode in linear cubic; do resize "mode = '$mode', exclude_outside = true"; done
  for mode in nearest linear cubic; do resize "mode = '$mode', scales = [1, 2, 1.5], coord = 'half_pixel_symmetric'"; done
  echo "  return ${results//\'/}"
  echo '}
}'
} > "$TMPDIR/resize.ir"
# Pixels that are repeated are read where they lie by the region that sums them, of sizes that are known and of others.
{
  echo 'module "repeat" mir {
graph @main {
  %0 = input "a" : f32[2,5,8,16]
  %1 = input "b" : f32[2,5,4,8]
  %2 = input "c" : f32[2,5,1,2]
  %3 = resize(%1) {sizes = [2, 5, 8, 16], scales = [1, 1, 2, 2], coord = "asymmetric", nearest = "floor"} : f32[2,5,8,16]
  %4 = resize(%2) {sizes = [2, 5, 8, 16], coord = "half_pixel"} : f32[2,5,8,16]
  %5 = add(%0, %3) : f32[2,5,8,16]
  %6 = add(%5, %4) : f32[2,5,8,16]
  %7 = relu(%6) "known" : f32[2,5,8,16]
  %8 = input "x" : f32[2,h,w]
  %9 = input "y" : f32[2,1,1]
  %10 = resize(%8) {sizes = ["2", "2*h", "3*w"], scales = [1, 2, 3], coord = "half_pixel"} : f32[2,2*h,3*w]
  %11 = mul(%10, %9) : f32[2,2*h,3*w]
  %12 = tanh(%11) "open" : f32[2,2*h,3*w]
  return %7 "known", %12 "open"
}
}'
} > "$TMPDIR/repeat.ir"
fails=0
"$RLXC" compile "$TMPDIR/repeat.ir" --emit fusion -o - -q | grep -q '"launches": {"before": 5, "after": 2' || { echo "FAIL: repeated pixels are copied"; fails=1; }
for target in cpu metal mlx ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run "$TMPDIR/repeat.ir" --random --size h=5,w=7 --size h=16,w=12 --target $target --rtol 1e-5 --atol 1e-5 > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL $target, repeated pixels"; grep -E 'FAIL|error' "$TMPDIR/log" | head -12; fails=1; }
  "$RLXC" run "$TMPDIR/resize.ir" --random --size h=5,w=7 --size h=9,w=12 --size h=100,w=57 --target $target --rtol 1e-3 --atol 1e-4 \
    > "$TMPDIR/log" 2>&1 || { echo "FAIL $target"; grep -E 'FAIL|error' "$TMPDIR/log" | head -12; fails=1; }
done
exit $fails
