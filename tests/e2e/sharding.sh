#!/bin/bash
# Models divided over processes of MPI compute what one device computes; faults of a rank end all of them with a message.
set -eu
fail() { echo "$1"; exit 1; }
command -v mpirun > /dev/null && command -v mpicc > /dev/null || { echo "no MPI"; exit 77; }
bert=examples/bert.onnx mlp=examples/mlp.json

for engine in reference kernels; do
  "$RLXC" run $bert --data examples/bert_data --engine $engine --mesh model=2 --parallel tensor > "$TMPDIR/said" 2>&1 ||
    fail "$engine: $(cat "$TMPDIR/said")"
  grep -q '^passed' "$TMPDIR/said" || fail "$engine: $(cat "$TMPDIR/said")"
done
mixed="--bind batch=4 --mesh data=2,model=2 --parallel tensor,data"
"$RLXC" run $mlp --random $mixed > "$TMPDIR/said" 2>&1 || fail "mixed mesh: $(cat "$TMPDIR/said")"
for name in gpt2 llama qwen3 t5 vit; do
  model=${RLXC_TEST_MODELS:-}/tiny/$name
  [ -d "$model" ] || continue
  "$RLXC" run "$model/model.onnx" --data "$model/test_data_set_0" --mesh model=2 --parallel tensor > "$TMPDIR/said" 2>&1 ||
    fail "$model: $(cat "$TMPDIR/said")"
done

"$RLXC" compile $mlp $mixed -q -o "$TMPDIR/out" 2> "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"
grep -q '"devices": 4' "$TMPDIR/out/sharding.json" || fail "sharding.json"
grep -q 'over model' "$TMPDIR/out/sharding.txt" || fail "$(cat "$TMPDIR/out/sharding.txt")"
"$RLXC" diff "$TMPDIR/out" "$TMPDIR/out" --fail-on 'sharding.bytes>+0' > /dev/null || fail "diff"
echo '{"format": "rlxc-shard-rules", "rules": [{"name": "fc1.*", "shard": "model:0"}]}' > "$TMPDIR/rules.json"
"$RLXC" compile $mlp --bind batch=4 --mesh model=2 --shard-rules "$TMPDIR/rules.json" -q --emit sharding -o - > "$TMPDIR/said" || fail "rules"
grep -q '"slices": \[$' "$TMPDIR/said" || fail "rules: $(cat "$TMPDIR/said")"

refused() {  # code, words, arguments
  local code=$1 words=$2
  shift 2
  ! "$RLXC" compile "$@" -q -o "$TMPDIR/no" 2> "$TMPDIR/error" || fail "$* passes"
  grep -q "$code.*$words" "$TMPDIR/error" || fail "$*: $(cat "$TMPDIR/error")"
}
refused RLX0110 'need --mesh' $mlp --parallel tensor
refused RLX0110 'size of mesh axis' $mlp --mesh model=0
refused RLX0230 'no value of the model' $mlp --mesh model=2 --shard nowhere=model:0
refused RLX0230 'does not divide' $mlp --mesh data=2 --parallel data
refused RLX0202 'ReduceScatter.*one device' $bert --mesh model=2 --parallel tensor --target cuda --emit kernels

# Faults. The package runs four ranks.
cd "$TMPDIR/out/kernels/cpu"
make -s run CFLAGS=-O1 > "$TMPDIR/said" 2>&1 || fail "make: $(cat "$TMPDIR/said")"
root=$([ "$(id -u)" != 0 ] || echo --allow-run-as-root)
ranks() { timeout 60 mpirun $root --oversubscribe --mca btl_vader_single_copy_mechanism none "$@" > "$TMPDIR/said" 2>&1; }
head -c 1000000 /dev/zero > zero
weights=$(ls ./*.weights)
cp "$weights" whole
ranks -n 3 ./run zero && fail "three ranks of four"
grep -q 'runs on 4 ranks' "$TMPDIR/said" || fail "three ranks: $(cat "$TMPDIR/said")"
head -c 100 whole > "$weights"
ranks -n 4 ./run zero && fail "weights cut short"
grep -q 'failed; all ranks end' "$TMPDIR/said" || fail "weights: $(cat "$TMPDIR/said")"
