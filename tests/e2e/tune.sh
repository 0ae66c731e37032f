#!/bin/bash
# Block sizes are measured, written to a file, and used by later compiles, which compute the same values with them.
set -euo pipefail
cd "$TMPDIR"
model() {
  cat <<'IR'
module "model" mir {
graph @main {
  %0 = input "x" : f32[130,600]
  %1 = constant {data = splat 0.01} : f32[600,96]
  %2 = matmul(%0, %1) : f32[130,96]
  %3 = relu(%2) : f32[130,96]
  return %3 "y"
}
}
IR
}
model > model.rlx
fail() { echo "FAIL $1"; exit 1; }
"$RLXC" tune model.rlx --repeat 3 -o measured.json > text || fail "tune"
grep -q ' operations gain; a run takes .* ms before and .* ms after$' text || fail "no summary: $(cat text)"
"$RLXC" compile model.rlx -q --emit kernels -o plain
key=$(sed -n 's/^.*"\(FusedMatMulBiasAct[^"]*\)".*$/\1/p' measured.json | head -n 1)
: "${key:=FusedMatMulBiasAct(f32[130,600], f32[600,96]) -> f32[130,96]}"
file() { printf '{"format": "rlxc-tuning", "nodes": {"%s": %s}}\n' "$1" "$2" > tuning.json; }
compile() { "$RLXC" compile model.rlx -q --emit kernels --tuning tuning.json -o "$1" 2> errors; }

file "$key" '{"gemm_rows": 32, "packed_depth": 128}'
compile tuned || fail "compile: $(cat errors)"
cmp -s plain/kernels/cpu/kernels_0.c tuned/kernels/cpu/kernels_0.c && fail "the kernels do not change"
compile again && cmp tuned/kernels/cpu/kernels_0.c again/kernels/cpu/kernels_0.c || fail "two compiles differ"
"$RLXC" run model.rlx --random --tuning tuning.json > ran || fail "the results are wrong"
file "Softmax(f32[4]) -> f32[4]" '{"gemm_rows": 32}'
compile other && cmp plain/kernels/cpu/kernels_0.c other/kernels/cpu/kernels_0.c || fail "another operation counts"

refused() {
  file "$key" "$1"
  compile bad && fail "accepted: $1"
  grep -q "$2" errors || fail "$1: $(cat errors)"
}
refused '{"gemm_rows": 0}' 'gemm_rows" must be at least 16'
refused '{"gemm_rows": 1e3}' 'gemm_rows" must be'
refused '{"gemm_rows": "many"}' 'gemm_rows" must be'
refused '{"rows": 32}' '"rows" is not known here'
refused '32' 'must be an object'
echo '{"format": "rlxc-tuning"}' > tuning.json
compile bad && fail "a file without nodes"
TMPDIR=/nowhere "$RLXC" tune model.rlx -o none.json 2> errors && fail "a folder that is missing"
grep -q 'RLX0106' errors || fail "a folder that is missing: $(cat errors)"
rm tuning.json
compile bad && fail "a file that is missing"
echo pass
