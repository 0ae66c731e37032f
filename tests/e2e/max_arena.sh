#!/bin/bash
# Gradients that compute values again for a smaller arena, and nets of convolutions that run on parts of their rows, give the same
# results as those that keep all.
set -eu
models=${RLXC_TEST_MODELS:-}
fail() { echo "$1"; exit 1; }
arena() { grep -o '"arena_bytes": [0-9]*' "$1/plan.json" | head -1 | grep -o '[0-9]*$'; }
equal() { # FILE FILE
  python3 - "$1" "$2" <<'EOF'
import sys, numpy
a, b = (numpy.load(path) for path in sys.argv[1:])
assert sorted(a) == sorted(b)
for name in a:
    scale = numpy.abs(a[name]).max(initial=0) if a[name].dtype.kind == "f" else 0
    assert numpy.allclose(a[name], b[name], rtol=1e-4, atol=1e-5 * max(scale, 1)), name
EOF
}
check() { # MODEL LOSS WRT [PRECISION]
  local out="$TMPDIR/out" flags=(--grad "$2" --wrt "$3" --precision "${4:-f32}")
  local rtol=1e-3 atol=1e-4
  [ "${4:-f32}" = f32 ] || rtol=0.1 atol=0.05
  "$RLXC" compile "$1" "${flags[@]}" --emit plan -q -o "$out"
  local before=$(arena "$out")
  local limit=$((before * 19 / 20))
  "$RLXC" compile "$1" "${flags[@]}" --emit plan -q -o "$out" --max-arena $limit || fail "$1: no arena of $limit bytes"
  [ "$(arena "$out")" -le $limit ] || fail "$1: the arena takes $(arena "$out") bytes of $limit"
  grep -q '"computed_again"' "$out/plan.json" || fail "$1: nothing is computed again"
  for again in keeps shrinks; do
    [ $again = keeps ] && more=() || more=(--max-arena $limit)
    "$RLXC" run "$1" "${flags[@]}" --random --rtol $rtol --atol $atol --save-outputs "$TMPDIR/$again.npz" "${more[@]}" > "$TMPDIR/run" ||
      fail "$1 ${more[*]}: $(tail -3 "$TMPDIR/run")"
  done
  equal "$TMPDIR/keeps.npz" "$TMPDIR/shrinks.npz" || fail "$1: a smaller arena changes the results"
}
# A net of tests/support/python/conv_nets.py meets a limit in bytes, or in per cent of its arena; q/NET: as a Q/DQ model, whose
# integers the kernels may round otherwise than the reference.
parts() { # NET SIZE LIMIT [FLAG...]
  local net="${1#q/}" limit="$3" out="$TMPDIR/out" tolerance=1e-4
  local model="$TMPDIR/$net.onnx"
  python3 tests/support/python/conv_nets.py "$net" "$model" "$2"
  if [ "$1" != "$net" ]; then
    python3 tests/support/python/quantized_model.py "$model" "$TMPDIR/quantized.onnx"
    model="$TMPDIR/quantized.onnx" tolerance=0.1
  fi
  shift 3
  local flags=("$@")
  if [ "${limit%\%}" != "$limit" ]; then
    "$RLXC" compile "$model" --emit plan -q -o "$out" "${flags[@]}"
    limit=$(($(arena "$out") * ${limit%\%} / 100))
  fi
  "$RLXC" compile "$model" --emit plan -q --verify -o "$out" --max-arena $limit "${flags[@]}" || fail "$net $*: no arena of $limit bytes"
  [ "$(arena "$out")" -le $limit ] || fail "$net $*: the arena takes $(arena "$out") bytes of $limit"
  grep -q '"patches"' "$out/plan.json" || fail "$net $*: nothing runs in parts"
  grep -q 'parts of their rows' "$out/plan.txt" || fail "$net $*: plan.txt does not say what runs in parts"
  for way in whole parts; do
    [ $way = whole ] && more=() || more=(--max-arena $limit)
    "$RLXC" run "$model" --random --rtol $tolerance --atol $tolerance --max-operations 1000000000000 --save-outputs "$TMPDIR/$way.npz" \
      "${flags[@]}" "${more[@]}" > "$TMPDIR/run" || fail "$net $* ${more[*]}: $(tail -3 "$TMPDIR/run")"
  done
  equal "$TMPDIR/whole.npz" "$TMPDIR/parts.npz" || fail "$net $*: parts of rows change the results"
}
python3 -c 'import numpy' 2> /dev/null || { echo "needs NumPy for $(command -v python3)"; exit 77; }
parts mobilenet_v2 224 1500000
parts mobilenet_v2 64 40% --target cuda
parts resnet 64 75%
parts resnet 64 75% --target cuda
for net in densenet inception dilated shuffle segments; do parts $net 48 70%; done
parts unet 64 80%
parts upscale 16 50%
for net in mlp ratio parts reader; do parts $net 128 50%; parts q/$net 128 50%; done
parts q/unet 32 65%
"$RLXC" compile "$TMPDIR/resnet.onnx" --emit plan -q -o "$TMPDIR/out" --max-arena 4K 2> "$TMPDIR/error" && fail "an arena of 4 KiB"
grep -q 'the least arena that was found takes [0-9]* bytes' "$TMPDIR/error" || fail "$(cat "$TMPDIR/error")"
check examples/bert.onnx layer_norm_4 params
check examples/bert.onnx layer_norm_4 params automixed
if [ -n "$models" ]; then
  for target in cpu cuda; do
    "$RLXC" compile "$models/full/timm_resnet50/model.onnx" --allow-missing-weights --emit plan -q --verify -o "$TMPDIR/out" \
      --target $target --max-arena 3500000 2> "$TMPDIR/error" || fail "$(cat "$TMPDIR/error")"
    [ "$(arena "$TMPDIR/out")" -le 3500000 ] || fail "ResNet-50: the arena takes $(arena "$TMPDIR/out") bytes"
  done
  for name in llama gpt2; do
    model=$models/tiny/$name/model.onnx
    loss=$("$RLXC" info "$model" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["outputs"][0]["name"])')
    check "$model" "$loss" params
  done
fi
