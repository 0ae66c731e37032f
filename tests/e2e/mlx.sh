#!/bin/bash
# Packages for mlx on the engine itself, on the processor: the example and the models of the folder tiny/ of RLXC_TEST_MODELS compute
# their expected outputs, GGUF decoders theirs. Steps of decoders: one call of fused attention for a layer, quantized weights packed,
# no operation on weights, the compiled step as the one op by op, a stream of tokens as the steps on the whole text.
set -uo pipefail
mlx=$PWD/build/peers/mlx/bin
[ -x "$mlx/python3" ] || { echo "scripts/setup-peers mlx installs MLX"; exit 77; }
"$mlx/python3" -c 'import mlx.core as mx; mx.eval(mx.zeros([1]) + 1)' 2> "$TMPDIR/log" || { echo "MLX does not run: $(tail -1 "$TMPDIR/log")"; exit 77; }
export PATH=$mlx:$PATH
fails=0
runs() { # model, folder of data, tolerances
  "$RLXC" run "$1" --data "$2" --target mlx "${@:3}" > "$TMPDIR/log" 2>&1 || { echo "FAIL $1"; head -20 "$TMPDIR/log"; fails=1; }
}
steps() { # model, flags, --, what mlx_step.py checks
  local model=$1 flags=()
  shift
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  rm -rf "$TMPDIR/package"
  "$RLXC" compile "$model" "${flags[@]}" --target mlx --emit kernels -q -o "$TMPDIR/package" || { echo "FAIL $model: no package"; fails=1; return; }
  python3 tests/support/python/mlx_step.py "$TMPDIR/package/kernels/mlx" "${@:2}" > "$TMPDIR/log" 2>&1 ||
    { echo "FAIL $model ${flags[*]}"; tail -5 "$TMPDIR/log"; fails=1; }
}
runs examples/bert.onnx examples/bert_data --rtol 1e-3 --atol 1e-4
steps examples/bert.onnx --
steps examples/bert.onnx --precision automixed --
python3 tests/support/python/gguf_models.py "$TMPDIR" > "$TMPDIR/log" 2>&1 || { echo "FAIL the generator"; cat "$TMPDIR/log"; exit 1; }
for model in "$TMPDIR"/*.gguf; do
  runs "$model" "${model%.gguf}_data" --rtol 1e-3 --atol 2e-5
done
steps "$TMPDIR/qwen3.gguf" --kv-cache 40 -- attentions=2 packed=12 stream=2
for folder in ${RLXC_TEST_MODELS:+"$RLXC_TEST_MODELS"/tiny/*/}; do
  runs "$folder/model.onnx" "$folder" --rtol 1e-3 --atol 1e-4
done
if [ -n "${RLXC_TEST_MODELS:-}" ]; then
  steps "$RLXC_TEST_MODELS/tiny/llama/model.onnx" -- attentions=2
  steps "$RLXC_TEST_MODELS/tiny/llama/model.onnx" --weights int4:32 --precision automixed -- attentions=2
fi
exit $fails
