#!/bin/bash
# Every op kind on awkward sizes in f32, as C on this machine and interpreted with lanes as on a GPU.
set -uo pipefail
scripts/op-matrix --engines interpreter:cuda,cpu --dtypes f32 > "$TMPDIR/matrix" || { grep FAIL "$TMPDIR/matrix" | head -20; exit 1; }
grep '^| total' "$TMPDIR/matrix"
