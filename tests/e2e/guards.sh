#!/bin/bash
# What would have no effect is refused or warned about: names that nothing has, versions that are not known, flags for other
# targets; kernels that are due and missing; and what a command leaves when it cannot write.
set -uo pipefail
. tests/support/commands.sh
bert=examples/bert.onnx mlp=examples/mlp.json out=$TMPDIR/out

# Nothing is written before targets and assertions are known to be right.
try 2 "$RLXC" compile $mlp -t cpu,metall -o "$out"; said 'did you mean metal'
for bad in 'fusion.misses.atention==0' 'ops.Convv==0' 'plan.peak<=nan'; do
  try 2 "$RLXC" compile $mlp --assert "$bad" -o "$out"
done
for given in gpu:cuda vulkan:wgpu hip:rocm x86:cpu; do
  try 2 "$RLXC" compile $mlp -t "${given%:*}" -o "$out"; said "did you mean .*${given#*:}"
done
try 2 "$RLXC" compile $mlp -target cpu -o "$out"; said 'did you mean --target'
try 2 "$RLXC" compile $mlp --precision int8 -o "$out"; said 'calibrate'
try 2 "$RLXC" compile $mlp --precision fp16 -o "$out"; said 'f16'
try 2 "$RLXC" compile $mlp -q -v -o "$out"
try 2 "$RLXC" compile $mlp --bind batch=4,batch=5 -o "$out"; said 'batch=4'
try 2 "$RLXC" compile $mlp --assume batch=bach -o "$out"; said 'did you mean batch'
try 2 "$RLXC" compile $mlp --value x=1,2 -o "$out"
try 2 "$RLXC" compile $bert --value input_ids=1,2 -o "$out"; said 'scalar or a vector'
try 2 "$RLXC" compile $bert --value input_idz=1,2 -o "$out"; said 'did you mean "input_ids"'
try 3 "$RLXC" compile https://example.com/model.onnx -o "$out"; said 'download'
[ ! -e "$out" ] || fail "a refused compile wrote $(find "$out")"

try 2 "$RLXC" run $mlp --random --size nonsense=3; said 'nonsense'
try 2 "$RLXC" run $mlp --random --size bach=3; said 'did you mean batch'
try 2 "$RLXC" eval 'a+b' a=1 b=2 c=3; said '"c"'
try 2 "$RLXC" eval 'floordiv(1,0)'
try 2 "$RLXC" extract $bert --inputs layer_norm_4 --outputs embedding -o "$TMPDIR/part.onnx"; said 'no output depends on'
try 2 "$RLXC" transform $mlp --vmap x --size=-1 -o "$TMPDIR/t.json"; said 'from 1 to'

# Flags without effect.
try 0 "$RLXC" compile $mlp -t metal --cpu zen4 --winograd off --emit plan -o "$TMPDIR/w"; said '--cpu has no effect for metal'; said '--winograd has no effect'
try 0 "$RLXC" compile $mlp -t tpu --bind batch=2 --embed-weights --emit plan -o "$TMPDIR/w"; said '--embed-weights has no effect'
try 0 "$RLXC" compile $mlp -t cpu,metal --cpu zen4 --emit plan -o "$TMPDIR/w2"; ! grep -q 'no effect' "$TMPDIR/log" || fail "--cpu is of cpu"
try 0 "$RLXC" compile $mlp --mesh data=2 --emit plan -o "$TMPDIR/w"; said 'splits nothing'

# Members and versions of files.
sed 's/"attrs"/"attributes"/' $mlp > "$TMPDIR/typo.json"
grep -q '"attributes"' "$TMPDIR/typo.json" || sed 's/"operands"/"operand"/' $mlp > "$TMPDIR/typo.json"
try 4 "$RLXC" check "$TMPDIR/typo.json"; said 'is not known here; did you mean'
echo '{"format": "rlxc-calibration", "tensors": {"relu": {"scales": [0.05], "zero_point": [-128]}}}' > "$TMPDIR/z.json"
try 4 "$RLXC" compile $mlp --calibration "$TMPDIR/z.json" -o "$out"; said 'zero_points'
for version in 99.0 0.9 abc; do
  echo "{\"format\": \"rlxc-config\", \"format_version\": \"$version\", \"options\": {}}" > "$TMPDIR/c.json"
  try 4 "$RLXC" compile $mlp --config "$TMPDIR/c.json" -o "$out"; said "\"$version\""
done
echo '{"format": "rlxc-config", "option": {"cpu": "zen4"}}' > "$TMPDIR/c.json"
try 4 "$RLXC" compile $mlp --config "$TMPDIR/c.json" -o "$out"; said 'did you mean "options"'
try 0 "$RLXC" compile $mlp -q -o "$TMPDIR/a"
cp -r "$TMPDIR/a" "$TMPDIR/b"
sed -i 's/"format_version": "[0-9.]*"/"format_version": "99.0"/' "$TMPDIR/b/plan.json"
try 4 "$RLXC" diff "$TMPDIR/a" "$TMPDIR/b"; said 'newer than this rlxc'
try 4 "$RLXC" report "$TMPDIR/b" -o "$TMPDIR/r.html"; said 'newer than this rlxc'

# --max-arena where a size is free.
try 7 "$RLXC" compile $mlp --max-arena 1 -o "$out"; said '--range'

# Kernels that are due and missing.
try 5 "$RLXC" compile $mlp -q -t tpu -o "$TMPDIR/tpu"; said 'kernels/tpu is not written'
[ -s "$TMPDIR/tpu/plan.json" ] || fail "the other artefacts"
try 0 "$RLXC" compile $mlp -q -t tpu --emit plan -o "$TMPDIR/tpu"

# Packages: named after the folder of a file that every exporter calls model, and kept beside packages of other targets.
mkdir -p "$TMPDIR/tiny/onnx"; cp $bert "$TMPDIR/tiny/onnx/model.onnx"
try 0 "$RLXC" compile "$TMPDIR/tiny/onnx/model.onnx" -q --emit kernels -o "$TMPDIR/named"
ls "$TMPDIR/named/kernels/cpu/" | grep -q '^\(bert\|tiny\)\.h$' || fail "the name: $(ls "$TMPDIR/named/kernels/cpu")"
try 0 "$RLXC" compile $mlp --emit kernels -o "$TMPDIR/mlp"
try 0 "$RLXC" compile $mlp --emit kernels -t wgpu -o "$TMPDIR/mlp"; said 'kernels/cpu of an earlier compile stays'
[ -s "$TMPDIR/mlp/kernels/cpu/mlp.h" ] && [ -d "$TMPDIR/mlp/kernels/wgpu" ] || fail "both packages"

# What cannot be written is exit code 6, and nothing is left; so it is after signals.
place=$TMPDIR/place; mkdir "$place"
(ulimit -f 2; try 6 "$RLXC" compile $bert -t cpu,cuda -o "$place/out"; exit $fails) || fails=1
(ulimit -n 6; "$RLXC" compile $bert -o "$place/out" > /dev/null 2>&1); [ $? -ne 0 ] || fail "six descriptors"
[ -z "$(ls -A "$place")" ] || fail "left: $(ls -A "$place")"
for signal in QUIT PIPE; do
  "$RLXC" compile $bert -t cpu,cuda,metal,wgpu -q -o "$place/out" 2> /dev/null & pid=$!
  for ((i = 0; i < 300; ++i)); do [ -z "$(ls -A "$place")" ] || break; sleep 0.01; done
  kill -$signal $pid 2> /dev/null; wait $pid 2> /dev/null
  [ -z "$(find "$place" -maxdepth 1 -name '.*')" ] || fail "left after $signal: $(ls -A "$place")"
  rm -rf "$place/out"
done
"$RLXC" compile $bert -t cpu,cuda,metal,wgpu -q -o "$place/out" 2> /dev/null & pid=$!
for ((i = 0; i < 300; ++i)); do [ -z "$(ls -A "$place")" ] || break; sleep 0.01; done
kill -KILL $pid 2> /dev/null; wait $pid 2> /dev/null
try 0 "$RLXC" compile $bert -t cpu,cuda -q -o "$place/out"
[ "$(ls -A "$place")" = out ] || fail "left for the next compile: $(ls -A "$place")"

# The cache: an entry that is not what was stored is a warning and a miss, whatever its manifest says.
cache=$TMPDIR/cache
cached() { try 0 "$RLXC" compile $mlp --cache "$cache" -o "$TMPDIR/$1"; }
cached c1; cached c2; said 'from the cache'
entry=$(ls -d "$cache"/[0-9a-f]*)
damage() { cached c3; said 'from the cache' && "$@" && cached c3 && said 'an entry of the cache is not used'; ! grep -q 'from the cache' "$TMPDIR/log" || fail "used: $*"; cmp "$TMPDIR/c1/lir.json" "$TMPDIR/c3/lir.json" || fail "$*"; }
damage sed -i 's/plan.txt/..\/..\/evil.txt/' "$entry/manifest.json"
damage sed -i 's/"sha256": "[0-9a-f]*"/"sha256": ""/' "$entry/manifest.json"
damage rm "$entry/.entry"
damage cp "$entry/plan.json" "$entry/lir.json"
damage ln -sf /etc/passwd "$entry/plan.txt"
[ -z "$(find "$TMPDIR" -name evil.txt)" ] || fail "a file outside"
cp -r "$entry" "$cache/$(printf '%064d' 7)"
try 0 "$RLXC" cache "$cache"; said '2 entries'; said 'mlp.json'
try 0 "$RLXC" cache "$cache" --limit 1; said '2 entries removed'; said '0 entries, 0 of 1 bytes'
cached c4; try 0 "$RLXC" cache "$cache"; said '0 entries'
try 3 "$RLXC" cache "$TMPDIR/nosuch"

exit $fails
