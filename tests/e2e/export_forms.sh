#!/bin/bash
# Small models in the forms that exporters give to well-known families: for cpu and metal, what the authors wrote is recognised in as
# many launches as it should take, the reports name every fusion that is missed and no other, and the kernels compute what the
# evaluator does. The reports tell the truth in narrow types too.
set -euo pipefail
for python in python3 /usr/bin/python3 ""; do
  [ -n "$python" ] || { echo "python3-numpy is not installed"; exit 77; }
  "$python" -c 'import numpy' 2> /dev/null && break
done
forms=tests/support/python/export_forms.py
mkdir "$TMPDIR/models" "$TMPDIR/cpu" "$TMPDIR/metal" "$TMPDIR/narrow"
"$python" $forms write "$TMPDIR/models"
for model in "$TMPDIR"/models/*.onnx; do
  name=$(basename "$model" .onnx)
  for target in cpu metal; do
    "$RLXC" compile "$model" --target $target --emit fusion,lir -q -o "$TMPDIR/$target/$name" --verify
  done
  "$RLXC" compile "$model" --target metal --precision automixed --emit fusion,lir -q -o "$TMPDIR/narrow/$name-automixed"
  "$RLXC" compile "$model" --precision f16 --emit fusion,lir -q -o "$TMPDIR/narrow/$name-f16"
  "$RLXC" compile "$model" --target wgpu --weights int8 --emit fusion,lir -q -o "$TMPDIR/narrow/$name-int8"
  symbols=$("$RLXC" info "$model" | sed -n 's/^  \([a-z]*\)  .*--bind.*/\1/p')
  sizes=$(for size in batch=2 seq=5 past=3; do ! grep -qx "${size%=*}" <<<"$symbols" || echo "$size"; done | paste -sd,)
  "$RLXC" run "$model" --random ${sizes:+--size "$sizes"} --engine interpreter --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1 || { cat "$TMPDIR/log"; exit 1; }
done
"$python" $forms check "$TMPDIR/cpu" "$TMPDIR/metal"
scripts/check-fusion "$TMPDIR"/cpu/* "$TMPDIR"/metal/* "$TMPDIR"/narrow/*
