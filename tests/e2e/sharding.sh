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
# Sizes that devices cannot share are padded: heads, words and hidden units, and a batch.
"$RLXC" run $bert --data examples/bert_data --mesh model=3 --parallel tensor > "$TMPDIR/said" 2>&1 || fail "three ranks: $(cat "$TMPDIR/said")"
"$RLXC" run $mlp --random --bind batch=5 --mesh data=2 --parallel data > "$TMPDIR/said" 2>&1 || fail "odd batch: $(cat "$TMPDIR/said")"
mixed="--bind batch=4 --mesh data=2,model=2 --parallel tensor,data"
"$RLXC" run $mlp --random $mixed > "$TMPDIR/said" 2>&1 || fail "mixed mesh: $(cat "$TMPDIR/said")"
for name in gpt2 llama qwen3 t5 vit; do
  model=${RLXC_TEST_MODELS:-}/tiny/$name
  [ -d "$model" ] || continue
  for devices in 2 4; do
    "$RLXC" run "$model/model.onnx" --data "$model/test_data_set_0" --mesh model=$devices --parallel tensor > "$TMPDIR/said" 2>&1 ||
      fail "$model on $devices devices: $(cat "$TMPDIR/said")"
  done
done

moe=${RLXC_TEST_MODELS:-}/found/moe_without_bias.onnx
for how in "expert=2 --parallel expert" "model=2 --parallel tensor" "data=2,expert=2 --parallel data,expert"; do
  [ -f "$moe" ] || break
  "$RLXC" run "$moe" --random --mesh $how > "$TMPDIR/said" 2>&1 || fail "experts, $how: $(cat "$TMPDIR/said")"
done

# Stages of a pipeline, alone, in micro-batches and beside other strategies.
for engine in reference kernels; do
  for how in "pipe=2 --parallel pipeline" "pipe=2,model=2 --parallel pipeline,tensor"; do
    "$RLXC" run $bert --data examples/bert_data --engine $engine --mesh $how > "$TMPDIR/said" 2>&1 || fail "$engine, $how: $(cat "$TMPDIR/said")"
    grep -q '^passed' "$TMPDIR/said" || fail "$engine, $how: $(cat "$TMPDIR/said")"
  done
done
"$RLXC" run $mlp --random --bind batch=8 --mesh pipe=2,data=2 --parallel pipeline,data > "$TMPDIR/said" 2>&1 ||
  fail "pipeline and data: $(cat "$TMPDIR/said")"
"$RLXC" compile $bert --mesh pipe=2 --parallel pipeline -q -o "$TMPDIR/stages" || fail "stages"
grep -q '^Stage 1: ' "$TMPDIR/stages/sharding.txt" || fail "stages: $(cat "$TMPDIR/stages/sharding.txt")"

cat > "$TMPDIR/image.txt" <<'END'
module "image" mir {
graph @main {
  %0 = input "x" : f32[1,2,16,8]
  %1 = param {data = splat 0.25} "w" : f32[4,2,3,3]
  %2 = conv(%0, %1) {strides = [1, 1], pads_begin = [1, 1], pads_end = [1, 1], dilations = [1, 1], output_padding = [0, 0], groups = 1} : f32[1,4,16,8]
  %3 = relu(%2) : f32[1,4,16,8]
  %4 = conv(%3, %1) {strides = [2, 2], pads_begin = [1, 1], pads_end = [0, 0], dilations = [1, 1], output_padding = [0, 0], groups = 2} : f32[1,4,8,4]
  return %4 "y"
}
}
END
# A step of training: the moments of the optimizer and the update are divided.
"$RLXC" run tests/support/step.txt --train --loss mse --optimizer adam --random --mesh data=2 --parallel data > "$TMPDIR/said" 2>&1 ||
  fail "training: $(cat "$TMPDIR/said")"
"$RLXC" compile tests/support/step.txt --train --loss mse --optimizer adam --mesh data=2 --parallel data -q -o "$TMPDIR/step" || fail "training"
grep -q 'reduce_scatter over data' "$TMPDIR/step/sharding.txt" || fail "training: $(cat "$TMPDIR/step/sharding.txt")"
grep -q '"mean:w1", 256u, [0-9]*u, 0, 1u, 256u, 2}' "$TMPDIR/step/kernels/cpu/step_train.c" || fail "training: the moments are whole"

# Rows of an image, of which devices exchange those at the borders.
"$RLXC" run "$TMPDIR/image.txt" --random --mesh s=2 --shard x=s:2 > "$TMPDIR/said" 2>&1 || fail "image: $(cat "$TMPDIR/said")"

# Many rows are worked on in parts, whose results take the place of the rows.
cat > "$TMPDIR/rows.txt" <<'END'
module "rows" mir {
graph @main {
  %0 = input "x" : f32[1,512,32]
  %1 = param "w" : f32[32,128]
  %2 = param "v" : f32[128,32]
  %3 = sigmoid(%0) : f32[1,512,32]
  %4 = matmul(%3, %1) : f32[1,512,128]
  %5 = gelu(%4) : f32[1,512,128]
  %6 = matmul(%5, %2) : f32[1,512,32]
  %7 = add(%3, %6) : f32[1,512,32]
  return %7 "y"
}
}
END
for target in cpu cuda; do
  "$RLXC" run "$TMPDIR/rows.txt" --random --target $target --mesh model=2 --parallel tensor > "$TMPDIR/said" 2>&1 ||
    fail "rows, $target: $(cat "$TMPDIR/said")"
done
"$RLXC" compile "$TMPDIR/rows.txt" --allow-missing-weights --mesh model=2 --parallel tensor --emit plan --text -q -o - > "$TMPDIR/said" ||
  fail "rows"
grep -q 'activations: 160.0 KiB' "$TMPDIR/said" || fail "rows: $(cat "$TMPDIR/said")"

# GPUs, whose link is emulated.
"$RLXC" run $mlp --random --bind batch=4 --target cuda --mesh model=2 --parallel tensor > "$TMPDIR/said" 2>&1 || fail "cuda: $(cat "$TMPDIR/said")"
grep -q '^passed' "$TMPDIR/said" || fail "cuda: $(cat "$TMPDIR/said")"

cat > "$TMPDIR/odd.txt" <<'END'
module "odd" mir {
graph @main {
  %0 = input "x" : f32[4,5]
  %1 = param {data = dense [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]} "w" : f32[5,5]
  %2 = param {data = splat 0.5} "v" : f32[5,3]
  %3 = matmul(%0, %1) : f32[4,5]
  %4 = exp(%3) : f32[4,5]
  %5 = matmul(%4, %2) : f32[4,3]
  return %5 "y", %4 "z"
}
}
END
for how in "cpu model=3 w=model:1" "cuda model=3 w=model:1" "tpu model=3 w=model:1" "cuda model=2 x=model:0" "tpu model=2 w=model:0" "cpu model=2 w=model:0"; do
  read -r target mesh shard <<< "$how"
  [ "$target" != tpu ] || python3 -c 'import numpy' 2> /dev/null || continue
  RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py "$RLXC" run "$TMPDIR/odd.txt" --random --target "$target" --mesh "$mesh" --shard "$shard" > "$TMPDIR/said" 2>&1 ||
    fail "odd sizes, $how: $(cat "$TMPDIR/said")"
done

# The module for tpu, all partitions at once.
export RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py
if python3 -c 'import numpy' 2> /dev/null; then
  for mesh in model=2 model=4; do
    "$RLXC" run $bert --data examples/bert_data --target tpu --mesh $mesh --parallel tensor > "$TMPDIR/said" 2>&1 ||
      fail "tpu, $mesh: $(cat "$TMPDIR/said")"
    grep -q '^passed' "$TMPDIR/said" || fail "tpu, $mesh: $(cat "$TMPDIR/said")"
  done
  "$RLXC" compile $bert --target tpu --mesh model=2 --parallel tensor -q -o "$TMPDIR/annotated" || fail "annotations"
  grep -q 'sdy.mesh @mesh = <\["model"=2\]>' "$TMPDIR/annotated/kernels/tpu/sdy/model.mlir" || fail "annotations"
  (cd "$TMPDIR/annotated/kernels/tpu/sdy" && head -c 256 /dev/zero > zero && python3 "$RLXC_STABLEHLO" . zero zero) > "$TMPDIR/said" 2>&1 ||
    fail "annotations: $(cat "$TMPDIR/said")"
  "$RLXC" run $mlp --random --target tpu $mixed > "$TMPDIR/said" 2>&1 || fail "tpu, mixed mesh: $(cat "$TMPDIR/said")"
fi

# An ONNX model that is written carries the shardings: read again, it is divided in the same way without a strategy.
carries() {  # model, mesh and strategy
  local model=$1 way=$2
  "$RLXC" transform "$model" -q -o "$TMPDIR/plain.onnx" && "$RLXC" transform "$model" --mesh $way -q -o "$TMPDIR/carries.onnx" &&
    "$RLXC" compile "$model" --mesh $way --emit onnx -q -o "$TMPDIR/carries" || fail "$model, $way is not written"
  "$RLXC" compile "$TMPDIR/plain.onnx" --mesh $way --emit sharding --text -q -o - > "$TMPDIR/expected" || fail "$model, $way"
  for written in "$TMPDIR/carries.onnx" "$TMPDIR/carries/model.onnx"; do
    "$RLXC" compile "$written" --mesh "${way%% *}" --emit sharding --text -q -o - | diff "$TMPDIR/expected" - || fail "$written of $model, $way"
  done
}
for way in "model=2 --parallel tensor" "model=3 --parallel tensor" "data=2,model=2 --parallel data,tensor" "pipe=2 --parallel pipeline" \
  "pipe=2,model=2 --parallel pipeline,tensor"; do
  carries $bert "$way"
  [ ! -d "${RLXC_TEST_MODELS:-}/tiny/gpt2" ] || carries "$RLXC_TEST_MODELS/tiny/gpt2/model.onnx" "$way"
done

# The memory of a device decides for `auto`.
"$RLXC" compile $mlp --bind batch=4 --mesh d=2 --parallel auto -q --emit sharding -o "$TMPDIR/auto" || fail "auto"
grep -q '^Mesh d=2' "$TMPDIR/auto/sharding.txt" || fail "auto: $(cat "$TMPDIR/auto/sharding.txt")"
"$RLXC" compile $mlp --bind batch=4 --mesh d=2 --parallel auto --device-memory 100 -q -o "$TMPDIR/no" 2> "$TMPDIR/error" &&
  fail "100 bytes are enough"
grep -q 'RLX0230.*no strategy fits 100 bytes.*tensor over d needs.*data over d needs' "$TMPDIR/error" || fail "auto: $(cat "$TMPDIR/error")"

# A device of a pipeline has the weights of its stage alone.
"$RLXC" compile $bert --mesh pipe=2 --parallel pipeline --device-memory 280000 -q --emit sharding -o "$TMPDIR/stage" 2> "$TMPDIR/error" ||
  fail "a stage in 280000 bytes: $(cat "$TMPDIR/error")"
! "$RLXC" compile $bert --device-memory 280000 -q --emit plan -o "$TMPDIR/no" 2> /dev/null || fail "a model in the memory of a stage"

# A part of a gathered output is computed in it.
cat > "$TMPDIR/head.txt" <<'END'
module "head" mir {
graph @main {
  %0 = input "x" : f32[16,4]
  %1 = param {data = dense [1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3, -4, -5, -6, -7, -8, 0, 1, 0, 2, 0, 3, 0, 4, 1, 0, 2, 0, 3, 0, 4, 0]} "w" : f32[4,8]
  %2 = matmul(%0, %1) : f32[16,8]
  return %2 "y"
}
}
END
columns="--mesh model=4 --shard w=model:1"
"$RLXC" run "$TMPDIR/head.txt" --random $columns > "$TMPDIR/said" 2>&1 || fail "columns: $(cat "$TMPDIR/said")"
"$RLXC" compile "$TMPDIR/head.txt" $columns -q -o "$TMPDIR/columns" || fail "columns"
grep -q '|| gather_from_end(' "$TMPDIR/columns/kernels/cpu/head.c" || fail "columns: the part is elsewhere"

"$RLXC" compile $mlp $mixed -q -o "$TMPDIR/out" 2> "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"
grep -q '"devices": 4' "$TMPDIR/out/sharding.json" || fail "sharding.json"
grep -q '^<text.*data=1,model=1' "$TMPDIR/out/mesh.svg" || fail "mesh.svg"
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
refused RLX0230 'does not divide' $bert --mesh model=5 --shard '.*=model:0/3'
refused RLX0230 'at most 32 stages' $mlp --mesh pipe=33 --parallel pipeline
refused RLX0230 'already splits node' $mlp --mesh pipe=2 --parallel pipeline --shard fc1.*=pipe:0
refused RLX0202 'ReduceScatter.*one device' $bert --mesh model=2 --parallel tensor --target metal --emit kernels

"$RLXC" compile $bert --mesh model=2 --parallel tensor -q -o "$TMPDIR/bert" || fail "bert"

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

# Faults of one rank of two end both within 10 seconds.
cd "$TMPDIR/bert/kernels/cpu"
make -s run CFLAGS=-O0 > "$TMPDIR/said" 2>&1 || fail "make: $(cat "$TMPDIR/said")"
head -c 256 /dev/zero > zero
ranks -n 2 ./run zero zero || fail "two ranks: $(cat "$TMPDIR/said")"
mkdir short
cp run zero short
head -c 1000 bert.weights > short/bert.weights
ended() {  # words, what rank 1 does before the model
  local began=$SECONDS
  export RLXC_TIMEOUT=4
  ranks -n 2 sh -c "[ \$OMPI_COMM_WORLD_RANK != 1 ] || $2; exec ./run zero zero" && fail "$2: passes"
  [ $((SECONDS - began)) -le 10 ] || fail "$2: took $((SECONDS - began)) s"
  grep -q "$1" "$TMPDIR/said" || fail "$2: $(cat "$TMPDIR/said")"
}
ended 'non-zero exit code\|signal' 'kill -9 $$'
ended 'has not started in time\|has not answered' 'sleep 60'
ended 'rank 1 (model=1): failed' 'cd short'

# A rank reads the bytes of its slices.
if command -v strace > /dev/null && strace true 2> /dev/null; then
  ranks -n 2 sh -c 'exec strace -f -y -e trace=pread64 -o trace.$OMPI_COMM_WORLD_RANK ./run zero zero' || fail "strace: $(cat "$TMPDIR/said")"
  slices=$(sed -n 's/.*{"name": .*"bytes": \([0-9]*\), "whole_bytes".*/\1/p' "$TMPDIR/bert/sharding.json" | awk '{s += $1} END {print s + 0}')
  for rank in 0 1; do
    read=$(grep 'pread64(.*\.weights' trace.$rank | sed 's/.*= //' | awk '{s += $1} END {print s + 0}')
    [ "$slices" -gt 0 ] && [ "$read" = "$slices" ] || fail "rank $rank reads $read bytes, its slices have $slices"
  done
fi
