#!/bin/bash
# Gradients that compute values again for a smaller arena give the same results as those that keep them.
set -eu
models=${RLXC_TEST_MODELS:-}
fail() { echo "$1"; exit 1; }
arena() { grep -o '"arena_bytes": [0-9]*' "$1/plan.json" | head -1 | grep -o '[0-9]*$'; }
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
  python3 - "$TMPDIR/keeps.npz" "$TMPDIR/shrinks.npz" <<'EOF' || fail "$1: a smaller arena changes the results"
import sys, numpy
a, b = (numpy.load(path) for path in sys.argv[1:])
assert sorted(a) == sorted(b)
for name in a:
    scale = numpy.abs(a[name]).max(initial=0) if a[name].dtype.kind == "f" else 0
    assert numpy.allclose(a[name], b[name], rtol=1e-4, atol=1e-5 * max(scale, 1)), name
EOF
}
python3 -c 'import numpy' 2> /dev/null || { echo "needs NumPy for $(command -v python3)"; exit 77; }
check examples/bert.onnx layer_norm_4 params
check examples/bert.onnx layer_norm_4 params automixed
if [ -n "$models" ]; then
  for name in llama gpt2; do
    model=$models/tiny/$name/model.onnx
    loss=$("$RLXC" info "$model" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["outputs"][0]["name"])')
    check "$model" "$loss" params
  done
fi
