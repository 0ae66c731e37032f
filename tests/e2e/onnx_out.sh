#!/bin/bash
# Models written as ONNX compute what they did before: read back here, and in ONNX Runtime where RLXC_ORT names a folder with
# onnxruntime-node. Writing twice changes nothing more.
set -eu
models=${RLXC_TEST_MODELS:-}
fail() { echo "$1"; exit 1; }
check() { # MODEL DATA NAME
  local out="$TMPDIR/$3.onnx"
  "$RLXC" simplify "$1" -o "$out" || fail "simplify of $1"
  "$RLXC" run "$out" --data "$2" --engine reference > "$TMPDIR/run" || fail "$1 differs: $(cat "$TMPDIR/run")"
  "$RLXC" simplify "$out" -o "$TMPDIR/again.onnx"
  cmp "$out" "$TMPDIR/again.onnx" || fail "$1: a second simplification changes it"
  pairs+=("$out" "$2")
}
after_passes() { # MODEL DATA NAME, then options of compile
  local model=$1 data=$2 out="$TMPDIR/$3"
  shift 3
  "$RLXC" compile "$model" --emit onnx -q -o "$out" "$@" || fail "compile $model --emit onnx $*"
  "$RLXC" run "$out/model.onnx" --data "$data" --engine reference > "$TMPDIR/run" || fail "$model $* differs: $(cat "$TMPDIR/run")"
  pairs+=("$out/model.onnx" "$data")
}
pairs=()
check examples/bert.onnx examples/bert_data/test_data_set_0 bert_example
for target in cpu cuda tpu; do after_passes examples/bert.onnx examples/bert_data/test_data_set_0 "bert_$target" --target $target; done
after_passes examples/bert.onnx examples/bert_data/test_data_set_0 bert_ort --target cuda --dialect ort
for opset in 13 14 16 17; do
  after_passes examples/bert.onnx examples/bert_data/test_data_set_0 bert_$opset --opset $opset
done
after_passes examples/bert.onnx examples/bert_data/test_data_set_0 bert_stopped --stop-after recognise_attention
grep -q 'com.microsoft' "$TMPDIR/bert_ort/model.onnx" || fail "--dialect ort has no operator of com.microsoft"
! grep -q 'com.microsoft' "$TMPDIR/bert_cuda/model.onnx" || fail "the standard dialect has an operator of com.microsoft"
grep -q '"model.onnx"' "$TMPDIR/bert_cpu/manifest.json" || fail "the manifest lacks model.onnx"
if [ -n "$models" ]; then
  for folder in "$models"/tiny/*/; do
    data=$(ls -d "$folder"test_data_set_0 2>/dev/null || true)
    [ -n "$data" ] && check "$(ls "$folder"*.onnx | head -1)" "$data" "$(basename "$folder")"
  done
  # Models of symbolic sizes, and large ones whose weights are not there: simplified once, they stay the same.
  for model in "$models"/found/*.onnx "$models"/full/*/model.onnx; do
    for to in once again; do
      [ $to = once ] && from=$model || from=$TMPDIR/once.onnx
      "$RLXC" simplify "$from" -q -o "$TMPDIR/$to.onnx" > "$TMPDIR/log" 2>&1 || fail "simplify of $model: $(tail -3 "$TMPDIR/log")"
    done
    cmp "$TMPDIR/once.onnx" "$TMPDIR/again.onnx" || fail "$model: a second simplification changes it"
  done
fi
"$RLXC" transform examples/mlp.json --grad y --wrt params -o "$TMPDIR/mlp.onnx" 2> /dev/null
"$RLXC" run "$TMPDIR/mlp.onnx" --random --size batch=3 | grep -q 'ok .* grad:fc1.weight' || fail "a gradient as ONNX"
[ -z "${RLXC_ORT:-}" ] || node scripts/run-onnx.mjs "$RLXC_ORT" "${pairs[@]}"
