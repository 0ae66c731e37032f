#!/bin/bash
# Every op kind on awkward sizes: in f32 as C on this machine and interpreted with lanes as on a GPU, in all types on mlx and tpu.
set -uo pipefail
matrix() { scripts/op-matrix "$@" > "$TMPDIR/matrix" || { grep FAIL "$TMPDIR/matrix" | head -20; exit 1; } && grep '^| total' "$TMPDIR/matrix"; }
matrix --engines interpreter:cuda,cpu --dtypes f32
matrix --engines mlx,tpu
