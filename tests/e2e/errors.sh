#!/bin/bash
# Every kind of bad input: one clear message, the documented exit code, nothing written.
set -uo pipefail
fails=0
expect() { # code, words that the message must hold, command...
  local code=$1 words=$2
  shift 2
  local errors
  errors=$("$@" 2>&1 >/dev/null </dev/null)
  local got=$?
  if [ $got -ne "$code" ]; then echo "exit code $got instead of $code: $*"; echo "$errors"; fails=1; fi
  if ! grep -q "$words" <<<"$errors"; then echo "no \"$words\" in: $errors"; fails=1; fi
  if [ -e "$TMPDIR/out" ] && [ -n "$(find "$TMPDIR/out" -type f)" ]; then echo "partial output: $*"; fails=1; rm -rf "$TMPDIR/out"; fi
}
compile() { expect "$1" "$2" "$RLXC" compile "${@:3}" -o "$TMPDIR/out"; }

compile 3 'RLX0100' "$TMPDIR/missing.onnx"
compile 3 'RLX0100' "$TMPDIR"
: > "$TMPDIR/empty.onnx"
compile 4 'empty' "$TMPDIR/empty.onnx"
echo 'this is a text file' > "$TMPDIR/text.onnx"
compile 4 'RLX0101' "$TMPDIR/text.onnx"
head -c 200000 examples/bert.onnx > "$TMPDIR/truncated.onnx"
compile 4 'RLX0101' "$TMPDIR/truncated.onnx"
# y = x + a + b, with a in a.bin and b in b.bin.
python3 - "$TMPDIR/external.onnx" <<'END'
import sys
def field(number, body):
    return bytes([number << 3 | 2, len(body)]) + body
def number(at, value):
    return bytes([at << 3, value])
def tensor_type(shape):
    return field(1, number(1, 1) + field(2, b"".join(field(1, number(1, d)) for d in shape)))
def value(name):
    return field(1, name) + field(2, tensor_type([4]))
def weight(name):
    entry = field(1, b"location") + field(2, name + b".bin")
    return number(1, 4) + number(2, 1) + field(8, name) + field(13, entry) + number(14, 1)
def add(x, y, z):
    return field(1, x) + field(1, y) + field(2, z) + field(4, b"Add")
graph = (field(1, add(b"x", b"a", b"t")) + field(1, add(b"t", b"b", b"y")) + field(2, b"g") + field(5, weight(b"a")) + field(5, weight(b"b")) +
         field(11, value(b"x")) + field(12, value(b"y")))
open(sys.argv[1], "wb").write(number(1, 8) + field(8, number(2, 17)) + bytes([7 << 3 | 2, len(graph) & 127 | 128, len(graph) >> 7]) + graph)
END
compile 3 'RLX0102.*a.bin.*1 tensors, 16 bytes' "$TMPDIR/external.onnx"
compile 3 'RLX0102.*b.bin' "$TMPDIR/external.onnx"
head -c 16 /dev/zero > "$TMPDIR/a.bin"
expect 0 'warning.RLX0102.*b.bin' "$RLXC" compile "$TMPDIR/external.onnx" -o "$TMPDIR/allowed"
expect 3 'error.RLX0102.*b.bin' "$RLXC" run "$TMPDIR/external.onnx" --data examples/bert_data
head -c 8 /dev/zero > "$TMPDIR/b.bin"
compile 3 'RLX0102.*which has 8' "$TMPDIR/external.onnx"
head -c 16 /dev/zero > "$TMPDIR/b.bin"
expect 0 '' "$RLXC" compile "$TMPDIR/external.onnx" -o "$TMPDIR/whole"

echo '{"format": "rlxc-graph", ' > "$TMPDIR/bad.json"
compile 4 'RLX0104' "$TMPDIR/bad.json"
sequences=/usr/share/libonnx-testdata/data/node/test_sequence_map_identity_1_sequence/model.onnx
compile 5 'SequenceMap_0.*no sequences' "$sequences" --emit kernels
compile 5 'SequenceMap_0.*no sequences' "$sequences" --emit kernels --target metal
compile 2 'automixed' examples/bert.onnx --precision half
compile 2 'did you mean cuda' examples/bert.onnx --target cudo
compile 2 'did you mean' examples/bert.onnx --disable-pass dead_code_eliminaton
compile 2 'NAME=SIZE' examples/bert.onnx --bind batch
compile 2 'RLX0219' examples/bert.onnx --bind nothing=3
compile 2 'help' examples/bert.onnx --no-such-flag
compile 2 'power of two' examples/bert.onnx --align 48
expect 2 'did you mean "rlxc compile"' "$RLXC" compil examples/bert.onnx
expect 6 'RLX0106' "$RLXC" compile examples/bert.onnx -o /proc/nowhere
expect 2 'emit' "$RLXC" compile examples/bert.onnx -o -
compile 2 'needs -o - and one of' examples/bert.onnx --text
expect 2 'needs -o - and one of' "$RLXC" compile examples/bert.onnx --emit lir -o - --text
expect 2 'nothing to write for --emit' "$RLXC" compile examples/bert.onnx --emit sharding -o -
expect 3 'folder' "$RLXC" run examples/bert.onnx --data "$TMPDIR/none"
expect 2 'RLX0110' "$RLXC" explain RLX9999
compile 7 'step 22, node "node_view_3" (Attention).*most are live here: "node_MatMul_55" f32\[2,16,192\] (24576 bytes)' examples/bert.onnx --max-arena 40000
compile 7 'the least arena that was found takes' examples/bert.onnx --max-arena 1K
compile 2 'sizes of symbols are 1 or more' examples/mlp.json --bind batch=0
compile 2 '"batch"' examples/mlp.json --range batch=1..4 --bind batch=9
printf '\x08\x04CoreML' > "$TMPDIR/net.mlmodel"
compile 4 'Core ML model' "$TMPDIR/net.mlmodel"
"$RLXC" calibrate examples/bert.onnx --data examples/bert_data -q -o "$TMPDIR/record.json"
sed -i 's/"format_version": "1/"format_version": "9/' "$TMPDIR/record.json"
compile 4 'version "9.0" of rlxc-calibration is newer than this rlxc' examples/bert.onnx --calibration "$TMPDIR/record.json"
sed 's/"format_version": "1.0"/"format_version": "4.0"/' examples/mlp.json > "$TMPDIR/newer.json"
compile 4 'newer than this rlxc' "$TMPDIR/newer.json"
# Runtimes that are missing are named with the way to get them. (A file in place of the module: one that is installed is not found.)
mkdir "$TMPDIR/none"
for module in mlx jax; do echo 'raise ImportError' > "$TMPDIR/none/$module.py"; done
expect 9 'module mlx is missing: pip install mlx' env PYTHONPATH="$TMPDIR/none" "$RLXC" run examples/bert.onnx --random --target mlx
expect 9 'module jax is missing: pip install jax' env PYTHONPATH="$TMPDIR/none" RLXC_STABLEHLO= "$RLXC" run examples/bert.onnx --random --target tpu
expect 5 'help: --bind batch=N' "$RLXC" compile examples/mlp.json --target tpu --emit kernels -o "$TMPDIR/tpu"
exit $fails
