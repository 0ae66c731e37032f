#!/bin/bash
# The decoder of ONNX files reads what libprotobuf reads, and accepts what it accepts, of the models of the tests and of mutations.
set -uo pipefail
mapfile -t models < <(find tests/onnx tests/hostile examples -name '*.onnx'; dpkg -L libonnx-testdata 2> /dev/null | grep 'model\.onnx$')
build/onnx_decode "${RLXC_TEST_MUTATIONS:-20}" "${models[@]}" > "$TMPDIR/log" || { tail -20 "$TMPDIR/log"; exit 1; }
equal=$(sed -n 's/^\([0-9]*\) equal.*/\1/p' "$TMPDIR/log")
[ "${equal:-0}" -ge "${#models[@]}" ] || { echo "hardly anything was compared: $(cat "$TMPDIR/log")"; exit 1; }
