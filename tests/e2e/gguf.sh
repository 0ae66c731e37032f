#!/bin/bash
# GGUF files of each architecture: the reference evaluator and kernels agree with NumPy, without and with a past; every block format
# is among the weights; the metadata go with the package; a damaged file is refused.
set -uo pipefail
python3 -c 'import numpy' 2>"$TMPDIR/log" || { echo "needs NumPy for $(command -v python3)"; exit 77; }
fail() { echo "$1"; cat "$TMPDIR/log"; exit 1; }
python3 tests/support/python/gguf_models.py "$TMPDIR" >"$TMPDIR/log" 2>&1 || fail "the generator"
for model in "$TMPDIR"/*.gguf; do
  for engine in reference kernels; do
    "$RLXC" run "$model" --data "${model%.gguf}_data" --engine $engine --rtol 1e-3 --atol 2e-5 >"$TMPDIR/log" 2>&1 ||
      fail "$(basename "$model") by $engine"
  done
done

# The same data with a cache of fixed room, behind whose tokens there is garbage.
python3 tests/support/python/gguf_cache.py "$TMPDIR" >"$TMPDIR/log" 2>&1 || fail "data for a cache of fixed room"
for model in "$TMPDIR"/*.gguf; do
  for engine in reference kernels; do
    "$RLXC" run "$model" --kv-cache 40 --data "${model%.gguf}_cache" --engine $engine --rtol 1e-3 --atol 2e-5 >"$TMPDIR/log" 2>&1 ||
      fail "$(basename "$model") by $engine with a cache of fixed room"
  done
done
for model in "$TMPDIR"/{qwen3,gemma3,mistral_window}.gguf; do
  "$RLXC" run "$model" --kv-cache 40 --kv-type f16 --data "${model%.gguf}_cache16" --rtol 1e-2 --atol 1e-2 >"$TMPDIR/log" 2>&1 ||
    fail "$(basename "$model") with a cache of f16"
done
for model in "$TMPDIR"/qwen3.gguf "$TMPDIR"/gemma3.gguf; do
  data=${model%.gguf}_cache
  python3 - "$data" <<'PYTHON' >"$TMPDIR/log" 2>&1 || fail "the last logits"
import glob
import sys
import numpy as np
for file in glob.glob(f"{sys.argv[1]}/*/logits.npy"):
    np.save(file, np.load(file)[:, -1:])
PYTHON
  "$RLXC" run "$model" --kv-cache 40 --last-logits --data "$data" --rtol 1e-3 --atol 2e-5 >"$TMPDIR/log" 2>&1 ||
    fail "$(basename "$model") with the logits of the last token"
done
# A number of tokens that the cache has no room for, and tokens beyond the vocabulary, are refused.
python3 tests/support/python/gguf_indices.py "$TMPDIR/qwen3_cache/test_data_set_0" "$TMPDIR/indices" >"$TMPDIR/log" 2>&1 ||
  fail "data with indices out of range"
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py PYTHONPATH=$PWD/tests/support/python
"$RLXC" compile "$TMPDIR/qwen3.gguf" --kv-cache 40 --emit kernels -q -o "$TMPDIR/indices/out" >"$TMPDIR/log" 2>&1 || fail "the package"
package=$TMPDIR/indices/out/kernels/cpu
make -s -C "$package" CFLAGS=-O1 run >"$TMPDIR/log" 2>&1 || fail "the build of the package"
grep -q '"past_length" i64\[\], 0 to .*sequence.*room for 40' "$package"/*.h || fail "the header names the room"
grep -q '| past_length | i64.*room for 40 |' "$package/README.md" || fail "the README names the room"
grep -q '^| 0 | 2, past_key_values.0.key | 1, present.0.key |' "$package/README.md" || fail "the README names the states"
for data in "$TMPDIR"/indices/*_set; do
  valid=$([[ $data = */valid_* ]] && echo 0 || echo 9) code=0
  read -ra arguments <"$data/arguments"
  (cd "$data" && "$package/run" -w "$package" "${arguments[@]}") >"$TMPDIR/log" 2>&1 || code=$?
  [ $code = "$valid" ] || fail "$(basename "$data") in C: $code"
  [[ $data != */valid_* ]] || continue
  "$RLXC" run "$TMPDIR/qwen3.gguf" --kv-cache 40 --data "$data" --engine reference >"$TMPDIR/log" 2>&1 && fail "$(basename "$data") by reference"
  grep -Eq 'input "(past_length|input_ids)": -?[0-9]+ is out of range' "$TMPDIR/log" || fail "the reason for $(basename "$data")"
done
for target in cuda mlx ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run "$TMPDIR/qwen3.gguf" --kv-cache 40 --data "$TMPDIR/indices/full_set" --target $target >"$TMPDIR/log" 2>&1 && fail "a full cache on $target"
  grep -q 'past_length.* holds 40, which is not within' "$TMPDIR/log" || fail "the reason of $target"
done
RLXC_STABLEHLO= "$RLXC" run "$TMPDIR/qwen3.gguf" --kv-cache 40 --data "$TMPDIR/indices/token_set" --target tpu >"$TMPDIR/log" 2>&1 &&
  fail "a token beyond the vocabulary on tpu"
grep -q 'input_ids.* holds 288, which is not within' "$TMPDIR/log" || fail "the reason of tpu"

"$RLXC" compile examples/bert.onnx --kv-cache 40 -o "$TMPDIR/out" >"$TMPDIR/log" 2>&1 && fail "a cache of an ONNX model"
grep -q "for GGUF models" "$TMPDIR/log" || fail "why there is no cache"
"$RLXC" compile examples/bert.onnx --kv-type f16 -o "$TMPDIR/out" >"$TMPDIR/log" 2>&1 && fail "the type of a cache of an ONNX model"
"$RLXC" compile "$TMPDIR/qwen3.gguf" -q --emit fusion --kv-type bf16 -o "$TMPDIR/out" >"$TMPDIR/log" 2>&1 || fail "a growing cache of bf16"
grep -q "attention_casts  *[1-9]" "$TMPDIR/out/fusion.txt" || fail "attention reads the narrow cache"

# Other targets, emulated here; wgpu needs Dawn.
for target in cuda mlx ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run "$TMPDIR/qwen3.gguf" --kv-cache 40 --kv-type f16 --data "$TMPDIR/qwen3_cache16" --target $target --rtol 1e-2 --atol 1e-2 \
    >"$TMPDIR/log" 2>&1 || fail "qwen3 on $target with a cache of f16"
done
"$RLXC" run "$TMPDIR/qwen3.gguf" --data "$TMPDIR/qwen3_data/test_data_set_0" --target tpu --rtol 1e-3 --atol 2e-5 >"$TMPDIR/log" 2>&1 ||
  fail "qwen3 on tpu"

model=$TMPDIR/gemma3.gguf
"$RLXC" info "$model" >"$TMPDIR/log" 2>&1 || fail "info"
grep -q "GGUF" "$TMPDIR/log" || fail "info names the format"
for target in cpu metal cuda wgpu rocm; do
  "$RLXC" compile "$model" -q --target $target -o "$TMPDIR/$target" >"$TMPDIR/log" 2>&1 || fail "compile for $target"
  [ -s "$TMPDIR/log" ] && fail "warnings for $target"
  metadata=$TMPDIR/$target/kernels/$target/metadata.json
  scripts/validate-json schemas/metadata.schema.json "$metadata" >"$TMPDIR/log" 2>&1 || fail "metadata.json of $target"
  grep -q '"tokenizer.ggml.tokens": \["<unk>", "<s>", "</s>", "<0x00>"' "$metadata" || fail "the tokens of $target"
  grep -q "kernels/$target/metadata.json" "$TMPDIR/$target/manifest.json" || fail "the manifest of $target"
done
"$RLXC" run "$model" --random --bind batch=1,sequence=3,past=2 --weights int8 --min-cosine 0.99 >"$TMPDIR/log" 2>&1 ||
  fail "further quantization"
weights=$(stat -c %s "$TMPDIR/cpu/kernels/cpu/gemma3.weights") file=$(stat -c %s "$model")
[ "$weights" -le "$file" ] || { echo "weights of $weights bytes, of $file in the file"; exit 1; }

head -c 300000 "$model" >"$TMPDIR/cut.gguf"
"$RLXC" compile "$TMPDIR/cut.gguf" -q -o "$TMPDIR/out" >"$TMPDIR/log" 2>&1
[ $? = 4 ] || fail "a file that is cut short"
grep -q "beyond the end of the file" "$TMPDIR/log" || fail "the reason"
