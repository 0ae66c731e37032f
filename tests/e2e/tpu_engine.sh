#!/bin/bash
# Packages for tpu on the real engine, XLA on the processor: the examples and models of the folder tiny/ of RLXC_TEST_MODELS compute
# their expected outputs. The optimised program of an encoder has no operation that moves or converts a weight, in f32 and in
# automixed, and the written one no conversion of a conversion. States stay on the device and are updated in place.
set -uo pipefail
jax=$PWD/build/peers/jax/bin
[ -x "$jax/python3" ] || { echo "scripts/setup-peers jax installs JAX"; exit 77; }
"$jax/python3" -c 'import jax; jax.numpy.zeros(1).block_until_ready()' 2> "$TMPDIR/log" || { echo "JAX does not run: $(tail -1 "$TMPDIR/log")"; exit 77; }
export PATH=$jax:$PATH JAX_PLATFORMS=cpu RLXC_STABLEHLO=
fails=0
runs() { # model, folder of data, flags
  "$RLXC" run "$1" --data "$2" --target tpu "${@:3}" > "$TMPDIR/log" 2>&1 || { echo "FAIL $1 ${*:3}"; head -20 "$TMPDIR/log"; fails=1; }
}
package() { # model, flags: its package is in $TMPDIR/package/kernels/tpu
  rm -rf "$TMPDIR/package"
  "$RLXC" compile "$1" "${@:2}" --target tpu --emit kernels -q -o "$TMPDIR/package" || { echo "FAIL $1 ${*:2}: no package"; fails=1; }
}
still() { # model, flags: no operation on a weight, no chain of conversions; XLA for the processor multiplies bf16 as f32
  local good='"chains": 0, "on_weights": {}'
  [[ $* = *automixed* ]] || good+=', "optimised_on_weights": {}'
  package "$@"
  python3 tests/support/python/xla_step.py "$TMPDIR/package/kernels/tpu" > "$TMPDIR/log" 2>&1 && grep -q "$good" "$TMPDIR/log" || { echo "FAIL $*: operations on weights"; tail -5 "$TMPDIR/log"; fails=1; }
}
runs examples/bert.onnx examples/bert_data --rtol 1e-3 --atol 1e-4
runs examples/bert.onnx examples/bert_data --precision automixed
runs examples/bert.onnx examples/bert_data --tpu-precision default --rtol 1e-3 --atol 1e-4
still examples/bert.onnx
still examples/bert.onnx --precision automixed
# A decoder, whose caches are states.
python3 tests/support/python/gguf_models.py "$TMPDIR" > "$TMPDIR/log" 2>&1 || { echo "FAIL the generator"; cat "$TMPDIR/log"; exit 1; }
still "$TMPDIR/qwen3.gguf" --kv-cache 40 --bind batch=1,sequence=1
[ "$(grep -o tf.aliasing_output "$TMPDIR/package/kernels/tpu/model.mlir" | wc -l)" = 4 ] || { echo "FAIL caches share no buffers"; fails=1; }
for name in ${RLXC_TEST_MODELS:+bert llama resnet_hf custom_gan_deconv custom_lstm whisper_encoder}; do
  folder=$RLXC_TEST_MODELS/tiny/$name
  [ ! -d "$folder" ] || runs "$folder/model.onnx" "$folder" --rtol 1e-3 --atol 1e-4
done
exit $fails
