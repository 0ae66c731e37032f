#!/bin/bash
# Memory plans: buffers from CSV, ranges of sizes, another plan from lir.json alone, a limit of the arena, guards between buffers.
set -euo pipefail
fail() { echo "$1"; exit 1; }

printf 'id,lower,upper,size\na,0,3,4\nb,1,5,4\nc,4,8,4\n' > "$TMPDIR/buffers.csv"
"$RLXC" plan "$TMPDIR/buffers.csv" --capacity 8 --effort 2 > "$TMPDIR/offsets.csv"
[ "$(wc -l < "$TMPDIR/offsets.csv")" -eq 4 ] || fail "a line a buffer"
if "$RLXC" plan "$TMPDIR/buffers.csv" --capacity 7 > /dev/null 2>&1; then fail "7 bytes cannot do"; fi

"$RLXC" run examples/bert.onnx --data examples/bert_data --sanitize --rtol 1e-3 --atol 1e-4
# The interpreter runs the kernels in the planned arena, too, and takes a tenth of the time of a build with AddressSanitizer.
interpret() { "$RLXC" run "$@" --engine interpreter --rtol 1e-3 --atol 1e-4; }
interpret examples/bert.onnx --data examples/bert_data --no-reorder --no-in-place

if "$RLXC" compile examples/bert.onnx --emit plan --max-arena 64 -q -o "$TMPDIR/small" 2> "$TMPDIR/log"; then fail "64 bytes cannot do"; fi
grep -q RLX0105 "$TMPDIR/log" || fail "the limit is named"

packed() { sed -n 's/.*"region": "packed", "bytes": \([^,]*\),.*/\1/p' "$1/plan.json"; }
least() {  # that --max-packed can be, of a command
  if "$@" --emit plan -q --max-packed 0 -o "$TMPDIR/least" 2> "$TMPDIR/log"; then fail "no byte cannot do"; fi
  grep -q RLX0105 "$TMPDIR/log" || fail "the limit is named"
  sed -n 's/.* takes \([0-9]*\) bytes at least.*/\1/p' "$TMPDIR/log"
}
# Packed weights within a limit: all of them, half, none but what must be there; results stay right.
"$RLXC" compile examples/bert.onnx --emit lir,plan -q -o "$TMPDIR/packed"
all=$(packed "$TMPDIR/packed")
grep -q '"packing": {"known": true, "nodes": [1-9]' "$TMPDIR/packed/plan.json" || fail "nodes that keep packed weights are told"
most=$(least "$RLXC" compile examples/bert.onnx)
for most in $((all / 2)) "$most"; do
  "$RLXC" compile examples/bert.onnx --emit lir,plan -q --max-packed "$most" -o "$TMPDIR/within"
  [ "$(packed "$TMPDIR/within")" -le "$most" ] || fail "more than $most bytes are packed"
  grep -q '"unpacked_nodes": [1-9]' "$TMPDIR/within/plan.json" || fail "nodes that read weights where they lie are told"
  interpret examples/bert.onnx --data examples/bert_data --max-packed "$most"
done
"$RLXC" run examples/bert.onnx --data examples/bert_data --sanitize --max-packed "$most" --rtol 1e-3 --atol 1e-4
# A compiled module has its weights side by side already.
side=$(least "$RLXC" specialize "$TMPDIR/packed/lir.json")
[ "$side" -gt "$most" ] || fail "weights side by side need room"
"$RLXC" specialize "$TMPDIR/packed/lir.json" --emit plan -q --max-packed "$side" -o "$TMPDIR/within"
[ "$(packed "$TMPDIR/within")" -eq "$side" ] || fail "the least does"
"$RLXC" compile examples/bert.onnx --target mlx --emit plan -q -o "$TMPDIR/mlx"
grep -q '"packing": {"known": false}' "$TMPDIR/mlx/plan.json" || fail "what other kernels keep is not known"

arena() { sed -n 's/.*"arena": {"bytes": \([^,]*\),.*/\1/p' "$1/plan.json"; }
# Steps of training (gradients by the weights) in a smaller arena: cheap values are computed again, and all results stay right.
in_less() {  # a model, and per cent of its arena
  local model=$1 most
  python3 tests/support/python/add_gradient.py "$model" "$TMPDIR/training.onnx"
  "$RLXC" compile "$TMPDIR/training.onnx" --emit plan -q -o "$TMPDIR/training"
  most=$(($(arena "$TMPDIR/training") * $2 / 100))
  "$RLXC" compile "$TMPDIR/training.onnx" --emit plan -q --max-arena "$most" -o "$TMPDIR/training"
  grep -q '"computed_again"' "$TMPDIR/training/plan.json" || fail "$model: nothing was computed again"
  [ "$(arena "$TMPDIR/training")" -le "$most" ] || fail "$model: the arena is too large"
  interpret "$TMPDIR/training.onnx" --random --max-arena "$most" > "$TMPDIR/log" 2>&1 ||
    { cat "$TMPDIR/log"; fail "$model: with values computed again"; }
}
in_less examples/bert.onnx 97
for name in ${RLXC_TEST_MODELS:+gpt2 custom_unet mobilenet_v2_hf}; do in_less "$RLXC_TEST_MODELS/tiny/$name/model.onnx" 88; done

[ -n "${RLXC_TEST_MODELS:-}" ] || exit 0
# Models in an arena of exactly the planned size; RLXC_TEST_SANITIZED_MODELS names others for AddressSanitizer, or `all`.
sanitized=${RLXC_TEST_SANITIZED_MODELS:-custom_topk_nms_head}
for model in custom_unet gpt2; do
  interpret "$RLXC_TEST_MODELS/tiny/$model/model.onnx" --data "$RLXC_TEST_MODELS/tiny/$model" ||
    fail "$model: in an arena of the planned size"
done
[ "$sanitized" != all ] || sanitized=$(ls "$RLXC_TEST_MODELS/tiny")
for model in $sanitized; do
  "$RLXC" run "$RLXC_TEST_MODELS/tiny/$model/model.onnx" --data "$RLXC_TEST_MODELS/tiny/$model" --sanitize --rtol 1e-3 --atol 1e-4 ||
    fail "$model: in an arena of the planned size"
done
# Without gradients: a part of a value that waits is copied.
mamba="$RLXC_TEST_MODELS/tiny/mamba"
"$RLXC" compile "$mamba/model.onnx" --emit plan -q -o "$TMPDIR/mamba"
interpret "$mamba/model.onnx" --data "$mamba" --max-arena $(($(arena "$TMPDIR/mamba") * 98 / 100)) ||
  fail "mamba: with a part copied"
for model in bert_ts_dyn llama_ts_dyn; do
  dyn="$RLXC_TEST_MODELS/tiny/$model/model.onnx"
  "$RLXC" compile "$dyn" --emit lir,plan -q --verify -o "$TMPDIR/dyn"
  "$RLXC" compile "$dyn" --emit lir,plan -q --verify --bind batch=2,seq=9 -o "$TMPDIR/bound"
  "$RLXC" specialize "$TMPDIR/dyn/lir.json" -q --verify --bind batch=2,seq=9 -o "$TMPDIR/specialized"
  "$RLXC" specialize "$TMPDIR/dyn/lir.json" -q --verify --range batch=1..2,seq=1..9 -o "$TMPDIR/ranged"
  [ "$(arena "$TMPDIR/specialized")" -le "$(($(arena "$TMPDIR/bound") * 11 / 10))" ] || fail "$model: a specialised plan is as good"
  [ "$(arena "$TMPDIR/ranged")" -ge "$(arena "$TMPDIR/specialized")" ] || fail "$model: a range holds its sizes"
  [ ! -e "$TMPDIR/specialized/model.onnx" ] || fail "no model is needed"
  # One package, three sizes; then a plan for a range; against the reference evaluator.
  "$RLXC" run "$dyn" --data "$RLXC_TEST_MODELS/tiny/$model" --rtol 1e-3 --atol 1e-4
  for sizes in batch=1,seq=1 batch=2,seq=7 batch=3,seq=12; do echo "--size $sizes"; done |
    xargs "$RLXC" run "$dyn" --random --engine interpreter --rtol 1e-3 --atol 1e-4 || fail "$model: other sizes"
  interpret "$dyn" --random --size batch=1,seq=3 --size batch=2,seq=9 --range batch=1..2,seq=1..9
  if interpret "$dyn" --random --size batch=1,seq=10 --range batch=1..2,seq=1..9 2> "$TMPDIR/log"; then fail "outside the range"; fi
  grep -q "memory was planned for 1..9" "$TMPDIR/log" || fail "the range is named"
done
