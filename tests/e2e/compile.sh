#!/bin/bash
# The main job on the example model: every target writes its artefacts; they are valid JSON, the same bytes every time.
set -euo pipefail
model=examples/bert.onnx
"$RLXC" compile $model --target all -q -o "$TMPDIR/a"
for target in cpu metal mlx wgpu cuda rocm tpu; do
  for file in manifest.json lir.json plan.json fusion.json fusion.txt dispatch.json dispatch.txt precision.json quant.json graph.svg arena.svg; do
    [ -s "$TMPDIR/a/$target/$file" ] || { echo "missing $target/$file"; exit 1; }
  done
  for kind in manifest lir plan fusion dispatch precision quant; do
    scripts/validate-json schemas/$kind.schema.json "$TMPDIR/a/$target/$kind.json"
  done
done
[ -s "$TMPDIR/a/cpu/kernels/cpu/README.md" ]

# The programs of hosts, those of control flow and of data-dependent dims among them.
data=/usr/share/libonnx-testdata/data/node
for name in if loop11 scan9_sum nonzero_example; do
  "$RLXC" compile $data/test_$name/model.onnx --target metal --emit kernels -q -o "$TMPDIR/$name"
done
scripts/validate-json schemas/launch.schema.json "$TMPDIR"/*/*/kernels/*/launch.json "$TMPDIR"/*/kernels/*/launch.json

# Twice, from another folder, under another locale, with another layout of memory: no byte differs.
here=$PWD
mkdir "$TMPDIR/elsewhere"
cp $model "$TMPDIR/elsewhere/bert.onnx"
(cd "$TMPDIR/elsewhere" && LC_ALL=C "$RLXC" compile bert.onnx --target all -q -o b)
diff -r "$TMPDIR/a" "$TMPDIR/elsewhere/b"
LC_ALL=de_DE.UTF-8 setarch -R "$RLXC" compile "$here/$model" --target all -q -o "$TMPDIR/c"
diff -r "$TMPDIR/a" "$TMPDIR/c"

# One artefact to standard output is the same text as the file.
"$RLXC" compile $model --target cuda --emit fusion -o - | diff - "$TMPDIR/a/cuda/fusion.json"
"$RLXC" compile $model --target cuda --emit fusion -o - --text | diff - "$TMPDIR/a/cuda/fusion.txt"

# The command of the README, and dumps of every stage.
"$RLXC" compile $model --target metal --precision automixed -o "$TMPDIR/d" --dump 2> "$TMPDIR/summary"
{ sed "s| -> $TMPDIR/d\$| -> out/|" "$TMPDIR/summary"; sed -n '/^Fusions formed/,/^Formed/p' "$TMPDIR/d/fusion.txt" | grep -v '^Formed'; } |
  while read -r line; do
    grep -qF -- "$line" README.md || { echo "not in README.md: $line"; exit 1; }
  done
[ "$(ls "$TMPDIR/d/dump" | wc -l)" -gt 3 ]
RLX_IR_DUMP="$TMPDIR/ir/" "$RLXC" compile $model --emit lir -q -o "$TMPDIR/e"
[ -s "$TMPDIR/ir/000-import.txt" ]
