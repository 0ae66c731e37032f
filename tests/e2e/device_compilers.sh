#!/bin/bash
# clang's back ends for NVIDIA and AMD GPUs accept every kernel of the cuda and rocm packages: of the example, and with
# RLXC_TEST_MODELS of the models of its folders tiny/ and (in f32 and mixed precision) full/. tests/support/device declares what
# CUDA's and HIP's headers would; nothing is linked or run.
set -uo pipefail
clang++ -print-targets 2>/dev/null | grep -q nvptx64 || { echo "clang++ has no back end for GPUs"; exit 77; }
fails=0 files=0 kernels=0
cuda=(-x cuda --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -Wno-unknown-cuda-version)
rocm=(-x hip --offload-arch=gfx90a -nogpuinc -nogpulib)

check() {  # model, flags of rlxc...
  local target source
  for target in cuda rocm; do
    local -n flags=$target
    rm -rf "$TMPDIR/out"
    "$RLXC" compile "$@" --target "$target" --emit kernels -o "$TMPDIR/out" > "$TMPDIR/log" 2>&1
    [ -d "$TMPDIR/out/kernels/$target" ] || { echo "FAIL $1 $target: $(grep -m1 'error' "$TMPDIR/log")"; fails=1; continue; }
    for source in "$TMPDIR/out/kernels/$target"/*.cu "$TMPDIR/out/kernels/$target"/*.hip.cpp; do
      [ -f "$source" ] || continue
      files=$((files + 1)) kernels=$((kernels + $(grep -c '__global__' "$source")))
      clang++ "${flags[@]}" --cuda-device-only -std=c++17 -O1 -Itests/support/device -S -o "$TMPDIR/assembly" "$source" 2> "$TMPDIR/log" ||
        { echo "FAIL $* $target $(basename "$source")"; head -5 "$TMPDIR/log"; fails=1; }
    done
  done
}

check examples/bert.onnx
check examples/bert.onnx --precision automixed-bf16
for model in "${RLXC_TEST_MODELS:-/none}"/tiny/*/model.onnx; do [ -f "$model" ] && check "$model"; done
for model in bert_base_s128 llama3_8b_s512 resnet50 whisper; do
  for file in "${RLXC_TEST_MODELS:-/none}"/full/*$model*/model.onnx; do
    [ -f "$file" ] && check "$file" --allow-missing-weights && check "$file" --allow-missing-weights --precision automixed
  done
done
echo "$kernels kernels in $files files compile for sm_80 and gfx90a"
exit $fails
