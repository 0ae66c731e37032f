#!/bin/bash
# Files that commands write are read back: they have the structure of what was read and compute the same. ONNX files also have
# unique names and pass ONNX's checker. Parts that `reduce` writes fail for the same nodes in every form.
set -euo pipefail
checker=$(dirname "$RLXC")/onnx_check
[ -x "$checker" ] || { echo "onnx_check is not built"; exit 77; }
fail() { echo "$1"; exit 1; }
quietly() { "$@" > "$TMPDIR/log" 2>&1 || fail "$*: $(cat "$TMPDIR/log")"; }
structure() { "$RLXC" inspect "$1" --stage input | sed 1d; } # without the name of the module
written=()
for original in examples/bert.onnx examples/mlp.json tests/onnx/written/*.onnx; do
  name=$(basename "$original") model=$TMPDIR/$(basename "$original")
  cp "$original" "$model" # JSON and IR text refer to weights of a file beside them
  quietly "$RLXC" run "$model" --random --engine reference --save-outputs "$TMPDIR/expected.npz"
  for form in json rlxc; do
    file=$TMPDIR/$name.$form
    quietly "$RLXC" transform "$model" -o "$file"
    quietly "$RLXC" run "$file" --random --engine reference --save-outputs "$TMPDIR/$form.npz"
    cmp "$TMPDIR/expected.npz" "$TMPDIR/$form.npz" || fail "$file computes something else"
  done
  diff <(structure "$TMPDIR/$name.json") <(structure "$TMPDIR/$name.rlxc") || fail "$model: JSON and IR text differ"
  for opset in 17 21; do
    for command in simplify extract; do
      options=(-o "$TMPDIR/$name.$command.$opset.onnx")
      [ $command = extract ] || options+=(--opset $opset)
      quietly "$RLXC" $command "$model" "${options[@]}"
      written+=("$TMPDIR/$name.$command.$opset.onnx")
    done
  done
  quietly "$RLXC" compile "$model" --emit onnx -o "$TMPDIR/$name.out"
  written+=("$TMPDIR/$name.out/model.onnx")
done
"$checker" "${written[@]}"
for file in "${written[@]}"; do quietly "$RLXC" run "$file" --random --engine reference; done

# Inputs stay in the order of the model's; a part has those that it cuts behind them.
quietly "$RLXC" extract tests/onnx/written/two_inputs.onnx --inputs b,a -o "$TMPDIR/part.json"
quietly "$RLXC" run "$TMPDIR/part.json" --random

for form in onnx json rlxc; do
  "$RLXC" reduce tests/onnx/written/reduce.onnx --check "'$RLXC' run {} --random --precision f16" -o "$TMPDIR/small.$form" \
    > "$TMPDIR/found" 2> "$TMPDIR/log" && fail "reduce finds nothing"
  sed 's/:.*//' "$TMPDIR/found" > "$TMPDIR/found.$form"
  cmp "$TMPDIR/found.onnx" "$TMPDIR/found.$form" || fail "reduce to $form: $(cat "$TMPDIR/found" "$TMPDIR/log")"
done
