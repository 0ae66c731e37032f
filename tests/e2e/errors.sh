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
echo '{"format": "rlxc-graph", ' > "$TMPDIR/bad.json"
compile 4 'RLX0104' "$TMPDIR/bad.json"
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
expect 3 'folder' "$RLXC" run examples/bert.onnx --data "$TMPDIR/none"
expect 2 'RLX0110' "$RLXC" explain RLX9999
exit $fails
