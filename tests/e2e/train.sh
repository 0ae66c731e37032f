#!/bin/bash
# The commands of docs/training.md, in order; what they write; and checkpoints: whole whenever the program is killed, refused if damaged.
set -u
python3 -c 'import numpy' 2> /dev/null || { echo "python3-numpy is not installed"; exit 77; }
root=$PWD fails=0
fail() { echo "FAIL $*"; head -20 "$TMPDIR/log" 2> /dev/null; fails=1; }

mkdir "$TMPDIR/bin"
ln -s "$RLXC" "$TMPDIR/bin/rlxc"
ln -s "$root/examples" "$TMPDIR/examples"
export PATH=$TMPDIR/bin:$PATH
cd "$TMPDIR" || exit 1
while read -r command; do
  bash -c "$command" > log 2>&1 || fail "$command"
  grep -q $'\r' log && fail "progress is shown without a terminal: $command"
done < <(sed -n 's/^    \([a-z].*\)/\1/p' "$root/docs/training.md")

# At least 97 % of the samples that training did not see.
python3 - <<'PY' || fail "accuracy"
import json
epochs = json.load(open("digits/mlp_history.json"))["epochs"]
assert len(epochs) == 12 and epochs[-1]["accuracy"] >= 0.97, epochs[-1]
assert epochs[-1]["loss"] < 0.2 * epochs[0]["loss"], epochs
PY
"$RLXC" train digits/cnn.json --data digits/x.npy --labels digits/y.npy --validation-data digits/x_test.npy --validation-labels digits/y_test.npy \
  --loss cross-entropy --optimizer sgd --lr 0 --resume digits/cnn.safetensors --epochs 1 --batch 500 -o no.onnx > log 2>&1
[ $? -ne 0 ] || fail "a checkpoint of another optimizer passed"
grep -q "no checkpoint of this program" log || fail "the error of a foreign checkpoint"
"$RLXC" train digits/cnn.json --data digits/x.npy --labels digits/y.npy --validation-data digits/x_test.npy --validation-labels digits/y_test.npy \
  --loss cross-entropy --optimizer adamw --lr 0 --resume digits/cnn.safetensors --epochs 1 --batch 500 --history cnn.json -o again.onnx > log 2>&1 ||
  fail "a resumed run"
python3 -c 'import json; e = json.load(open("cnn.json"))["epochs"][0]; assert e["accuracy"] >= 0.97, e' || fail "accuracy of the CNN"

# A checkpoint does not take the place of a device or a pipe.
mkfifo pipe
"$RLXC" train digits/mlp.json --data digits/x.npy --labels digits/y.npy --loss cross-entropy --epochs 1 --batch 100 -q --checkpoint pipe -o no.onnx > log 2>&1
[ $? -eq 6 ] && [ -p pipe ] && grep -q 'RLX0106.*pipe' log || fail "a checkpoint to a pipe"

# Samples that cannot be right are errors that name the first one.
python3 - <<'PY'
import numpy as np
x, y = np.load("digits/x.npy"), np.load("digits/y.npy")
np.save("from1.npy", y + 1)
below = y.copy()
below[7] = -2
np.save("below.npy", below)
np.save("ignored.npy", np.full_like(y, -100))
odd = x.astype(np.float32)
odd.reshape(len(x), -1)[5, 3] = np.nan
np.save("nan.npy", odd)
PY
refused() { # data, labels, message
  "$RLXC" train digits/mlp.json --data "$1" --labels "$2" --loss cross-entropy --epochs 1 --batch 500 -o no.onnx > log 2>&1
  [ $? -eq 4 ] && grep -q "$3" log || fail "samples that cannot be right: $3"
}
refused digits/x.npy from1.npy 'the label of sample [0-9]* is 10: classes are 0 to 9.*\|the labels count from 1'
refused digits/x.npy below.npy 'the label of sample 7 is -2'
refused digits/x.npy ignored.npy 'every label is -100'
refused nan.npy digits/y.npy 'sample 5, element .* is -*nan'

# The same seed gives the same weights.
for i in 1 2; do
  "$RLXC" train digits/mlp.json --data digits/x.npy --labels digits/y.npy --loss cross-entropy --epochs 1 --batch 100 --threads 1 -q -o same$i.onnx > log 2>&1 ||
    fail "the same twice"
done
cmp -s same1.onnx same2.onnx || fail "the same seed gives other weights"
"$RLXC" run digits/mlp.onnx --random --size batch=3 > log 2>&1 || fail "the trained model runs"

# The package: its report, its API, and a killed save.
grep -q '"name": "mean:fc1.weight", "kind": "moment"' digits/package/training.json || fail "states in training.json"
cd digits/package/kernels/cpu || exit 1
cat > saves.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlp_train.h"

#define CHECK(x) do { const int e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, mlp_strerror(e)); return 1; } } while (0)

// Steps and saves until it is killed; "check": reads the checkpoint.
int main(int argc, char** argv) {
  enum { BATCH = 8 };
  int error = 0;
  mlp_trainer* t = mlp_train_create(".", ".", &error);
  CHECK(error);
  const int64_t batch = BATCH;
  CHECK(mlp_step_sizes(t, &batch, 1));
  CHECK(mlp_loss_sizes(t, &batch, 1));
  if (argc > 2 && strcmp(argv[2], "check") == 0) CHECK(mlp_load(t, argv[1]));
  static float x[BATCH * 144];
  int64_t label[BATCH];
  for (int i = 0; i < BATCH * 144; ++i) x[i] = (float)(i % 7) / 7;
  for (int i = 0; i < BATCH; ++i) label[i] = i;
  const void* inputs[] = {x, label};
  double before = 0, loss = 0, first = 0;
  CHECK(mlp_loss(t, inputs, 2, NULL, 0, &before));
  CHECK(mlp_step(t, inputs, 2, &first));
  if (before - first > 1e-5 || first - before > 1e-5) return fprintf(stderr, "the losses of a step and of an evaluation differ\n"), 1;
  for (int i = 0; i < 20; ++i) CHECK(mlp_step(t, inputs, 2, &loss));
  if (!(loss < first)) return fprintf(stderr, "the loss does not shrink: %g %g\n", first, loss), 1;
  if (mlp_step(t, inputs, 1, NULL) != MLP_BAD_ARGUMENT || mlp_load(t, "/nowhere") != MLP_NO_CHECKPOINT ||
      mlp_save(t, "/nowhere/x") != MLP_NOT_WRITTEN || mlp_save(NULL, "x") != MLP_BAD_ARGUMENT)
    return fprintf(stderr, "a wrong call passed\n"), 1;
  CHECK(mlp_save(t, argv[1]));
  printf("saved\n");
  fflush(stdout);
  for (int i = 0; argc > 2 && strcmp(argv[2], "forever") == 0; ++i) {
    CHECK(mlp_step(t, inputs, 2, NULL));
    CHECK(mlp_save(t, argv[1]));
  }
  mlp_train_destroy(t);
  return 0;
}
C
cc -Wall -Wextra -Werror saves.c -I. libmlp.a forward/libmlp_forward.a -pthread -lm -o saves > "$TMPDIR/log" 2>&1 || fail "the C API builds"
for i in 1 2 3 4 5 6; do
  mkfifo pipe
  ./saves kept.safetensors forever > pipe 2> "$TMPDIR/log" &
  pid=$!
  read -r line < pipe
  sleep "0.0$((i * 7 % 10))"
  kill -9 "$pid"
  wait "$pid" 2> /dev/null
  rm pipe
  ./saves kept.safetensors check > "$TMPDIR/log" 2>&1 || fail "after a kill the checkpoint is not whole"
done
# Damaged checkpoints are refused, and change nothing.
size=$(stat -c %s kept.safetensors)
for at in 0 7 8 100 $((size - 1)); do
  head -c "$at" kept.safetensors > short.safetensors
  ./saves short.safetensors check > "$TMPDIR/log" 2>&1 && fail "a checkpoint of $at bytes passed"
done
{ head -c 60 kept.safetensors; printf 'x'; tail -c +62 kept.safetensors; } > other.safetensors
./saves other.safetensors check > "$TMPDIR/log" 2>&1 && fail "a checkpoint with another header passed"
# Other programs read it.
python3 - <<'PY' || fail "the checkpoint is a safetensors file"
import json, struct, numpy as np
b = open("kept.safetensors", "rb").read()
n, = struct.unpack("<Q", b[:8])
header = json.loads(b[8:8 + n])
begin, end = header["fc1.weight"]["data_offsets"]
w = np.frombuffer(b[8 + n:][begin:end], "<f4").reshape(header["fc1.weight"]["shape"])
assert w.shape == (144, 64) and np.isfinite(w).all() and max(t["data_offsets"][1] for k, t in header.items() if k[0] != "_") == len(b) - 8 - n
PY
make -s lib"mlp.so" > "$TMPDIR/log" 2>&1 && cc saves.c -I. ./libmlp.so -o shared > "$TMPDIR/log" 2>&1 && ./shared one.safetensors > "$TMPDIR/log" 2>&1 ||
  fail "the shared library"
cmake -S . -B cmake -DMLP_OPTIONS=-O1 > "$TMPDIR/log" 2>&1 && cmake --build cmake >> "$TMPDIR/log" 2>&1 || fail "CMake"
exit $fails
