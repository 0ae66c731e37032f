#!/bin/bash
# The tool chains of NVIDIA and AMD GPUs accept the cuda and rocm packages: nvcc (for sm_80 and sm_90a) and hipcc (for gfx90a) where
# they are installed, which also build the host programs; else clang's back ends, with tests/support/device in place of CUDA's and
# HIP's headers. clang-19, where it is installed, compiles the example for gfx942, which Debian's hipcc does not know. Of the example, and with RLXC_TEST_MODELS of the models of its folders tiny/ and (some, in f32 and mixed precision)
# full/: each kernel once, however many packages have it.
set -uo pipefail
PATH=$PATH:/usr/local/cuda/bin
[ ! -f build/cuda/env ] || . build/cuda/env  # of scripts/setup-device-compilers
fails=0 said=""
out=$TMPDIR/packages extension_cuda=cu extension_rocm=hip.cpp

emit() {  # name, model, flags of rlxc...
  local target
  for target in ${targets:-cuda rocm}; do
    "$RLXC" compile "${@:2}" --target $target --emit kernels -o "$out/$1_$target" > "$TMPDIR/log" 2>&1
    [ -d "$out/$1_$target/kernels/$target" ] || { echo "FAIL $2 $target: $(grep -m1 'error' "$TMPDIR/log")"; fails=1; }
  done
}

emit example examples/bert.onnx
emit example_mixed examples/bert.onnx --precision automixed-bf16
emit example_e4m3 examples/bert.onnx --precision fp8-e4m3
emit example_e5m2 examples/bert.onnx --precision fp8-e5m2
python3 tests/support/python/quantized_model.py examples/bert.onnx "$TMPDIR/quantized.onnx" || exit 1
targets=cuda emit example_quantized "$TMPDIR/quantized.onnx"  # clang 14 hangs on some matrix units of bytes of gfx90a
targets=rocm out=$TMPDIR/quantized emit example_quantized "$TMPDIR/quantized.onnx"
emit example_joined examples/bert.onnx --fuse-attn-threshold 4096
emit example_joined_mixed examples/bert.onnx --fuse-attn-threshold 4096 --precision automixed
for folder in "${RLXC_TEST_MODELS:-/none}"/tiny/*/; do [ -f "$folder/model.onnx" ] && emit "tiny_$(basename "$folder")" "$folder/model.onnx"; done
for model in bert_base_s128 llama3_8b_s512 timm_resnet50 whisper_large_encoder; do
  file=${RLXC_TEST_MODELS:-/none}/full/$model/model.onnx
  [ -f "$file" ] && emit $model "$file" --allow-missing-weights && emit ${model}_mixed "$file" --allow-missing-weights --precision automixed
done

# How a target's kernels are compiled: a command that the names of the object file and the source follow, and what it is called.
if command -v nvcc > /dev/null; then
  cuda=(nvcc -std=c++17 -O1 -fatbin -gencode "arch=compute_80,code=sm_80" -gencode "arch=compute_90a,code=sm_90a" -o)
  cuda_with="nvcc for sm_80 and sm_90a" cuda_make=(make -s)
elif clang++ -print-targets 2> /dev/null | grep -q nvptx64; then
  cuda=(clang++ -x cuda --cuda-gpu-arch=sm_80 -nocudainc -nocudalib -Wno-unknown-cuda-version --cuda-device-only -std=c++17 -O1 -Itests/support/device -S -o)
  cuda_with="clang for sm_80"
fi
if command -v hipcc > /dev/null; then
  rocm=(hipcc -std=c++17 -O1 --genco --offload-arch=gfx90a -o) rocm_with="hipcc for gfx90a" rocm_make=(make -s)
elif clang++ -print-targets 2> /dev/null | grep -q amdgcn; then
  rocm=(clang++ -x hip --offload-arch=gfx90a -nogpuinc -nogpulib --cuda-device-only -std=c++17 -O1 -Itests/support/device -S -o)
  rocm_with="clang for gfx90a"
fi

compile_each_once() {  # name of the array that holds the command, extension, what compiles, sources...
  local -n command=$1
  local counts
  mkdir -p "$TMPDIR/$3"
  counts=$(python3 tests/support/python/merge_kernels.py "$TMPDIR/$3/" "$2" 40 "${@:4}") || exit 1
  printf '%s\0' "$TMPDIR/$3"/*."$2" | sort -z |
    xargs -0 -P "$(nproc)" -I{} sh -c '"$@" > "$0.log" 2>&1 || { echo "FAIL $0"; grep -m5 error "$0.log"; exit 1; }' {} "${command[@]}" {}.o {} || fails=1
  said+="${counts#* } different kernels of ${counts% *} compiled by $3"
}

for target in cuda rocm; do
  declare -n with=${target}_with make=${target}_make extension=extension_$target
  said+="$target: "
  if [ -z "${with:-}" ]; then
    said+="no compiler; "
    continue
  fi
  if [ -n "${make:-}" ]; then
    "${make[@]}" -C "$out/example_$target/kernels/$target" > "$TMPDIR/log" 2>&1 && [ -x "$out/example_$target/kernels/$target/run" ] ||
      { echo "FAIL make in the package of $target"; grep -m5 -i error "$TMPDIR/log"; fails=1; }
  fi
  compile_each_once $target "$extension" "$with" "$out"/*/kernels/$target/*."$extension"
  said+="$([ -n "${make:-}" ] && echo ", with the host program"); "
done
if command -v clang++-19 > /dev/null; then
  cdna3=(clang++-19 -x hip --offload-arch=gfx942 -nogpuinc -nogpulib --cuda-device-only -std=c++17 -O1 -Itests/support/device -S -o)
  compile_each_once cdna3 hip.cpp "clang-19 for gfx942" "$out"/example*/kernels/rocm/*.hip.cpp "$TMPDIR"/quantized/*/kernels/rocm/*.hip.cpp
fi
[ "$said" = "cuda: no compiler; rocm: no compiler; " ] && { echo "neither nvcc nor hipcc nor a clang for GPUs"; exit 77; }
echo "${said%; }"
exit $fails
