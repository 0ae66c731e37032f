#!/bin/bash
# A model trained over processes of MPI has the parameters that one device gets; its checkpoints go on as if nothing had happened.
set -eu
fail() { echo "$1"; exit 1; }
command -v mpirun > /dev/null && command -v mpicc > /dev/null || { echo "no MPI"; exit 77; }
step=$PWD/tests/support/step.txt
cat > "$TMPDIR/drive.c" <<'C'
// Trains for ten steps and saves after five and ten; or loads the first checkpoint, and trains and saves the rest.
#include <stdio.h>
#include <stdlib.h>

#include "step_train.h"
#ifdef RANKS
#include "mpi_link.h"
#else
static int link_begin(int* argc, char*** argv) { return (void)argc, (void)argv, 0; }
static int link_rank(void) { return 0; }
static int link_end(int failed) { return failed; }
#endif

static int train(int resumes, const char* first, const char* last) {
  int error = 0;
  step_trainer* t = step_train_create(".", ".", &error);
  if (!error && resumes) error = step_load(t, first);
  for (int s = resumes ? 5 : 0; !error && s < 10; ++s) {
    float x[8 * 16], target[8 * 8];
    for (int i = 0; i < 8 * 16; ++i) x[i] = (float)((i * 7 + s * 3) % 11) / 11 - 0.5f;
    for (int i = 0; i < 8 * 8; ++i) target[i] = (float)((i * 5 + s) % 13) / 13;
    const void* inputs[] = {x, target};
    error = step_step(t, inputs, 2, NULL);
    if (!error && s == 4) error = step_save(t, first);
  }
  if (!error) error = step_save(t, last);
  if (error) fprintf(stderr, "%s\n", step_strerror(error));
  step_train_destroy(t);
  return error;
}

int main(int argc, char** argv) {
  char first[64], last[64];
  int failed = link_begin(&argc, &argv);
  if (failed) return failed;
  const char* name = getenv("FIRST");
  snprintf(first, sizeof first, "%s.%d", name ? name : "first", link_rank());
  snprintf(last, sizeof last, "%s.%d", argc > 1 ? "resumed" : "last", link_rank());
  failed = train(argc > 1, first, last);
  return link_end(failed) || failed;
}
C
root=$([ "$(id -u)" != 0 ] || echo --allow-run-as-root)
first=:
drive() {  # ranks, arguments; `first`: what each rank does before
  local ranks=$1
  shift
  if [ "$ranks" = 1 ]; then ./drive "$@"
  else timeout 100 mpirun $root --oversubscribe --mca btl_vader_single_copy_mechanism none -n "$ranks" sh -c "$first; exec ./drive $*"; fi
}
for ranks in 1 2 4; do
  mesh=$([ $ranks = 1 ] || echo "--mesh data=$ranks --parallel data")
  "$RLXC" compile "$step" --train --loss mse --optimizer adam $mesh -q -o "$TMPDIR/ranks$ranks" || fail "compile for $ranks ranks"
  cd "$TMPDIR/ranks$ranks/kernels/cpu"
  made="libstep.a forward/libstep_forward.a" compiler=cc
  [ $ranks = 1 ] || made="mpi_link.o $made" compiler="mpicc -DRANKS"
  make -s CFLAGS=-O1 $made > "$TMPDIR/said" 2>&1 || fail "make for $ranks ranks: $(cat "$TMPDIR/said")"
  $compiler -O1 -I. -o drive "$TMPDIR/drive.c" $made -pthread -lm > "$TMPDIR/said" 2>&1 || fail "$(cat "$TMPDIR/said")"
  drive $ranks > "$TMPDIR/said" 2>&1 && drive $ranks resume > "$TMPDIR/said" 2>&1 || fail "$ranks ranks: $(cat "$TMPDIR/said")"
  for ((r = 0; r < ranks; ++r)); do
    cmp last.$r resumed.$r || fail "$ranks ranks: the resumed training differs"
    cmp last.0 last.$r || fail "$ranks ranks: the checkpoints of ranks differ"
  done
done
# A rank that cannot write its checkpoint says so, and all end.
cd "$TMPDIR/ranks2/kernels/cpu"
rm first.1 && mkdir first.1
began=$SECONDS
drive 2 > "$TMPDIR/said" 2>&1 && fail "a checkpoint that is a folder"
[ $((SECONDS - began)) -le 10 ] || fail "a checkpoint that is not written: took $((SECONDS - began)) s"
grep -q 'rank 1 (data=1): cannot write the checkpoint first.1' "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"
rmdir first.1
first='[ $OMPI_COMM_WORLD_RANK != 1 ] || export FIRST=nowhere/first'
cp first.0 before
drive 2 > "$TMPDIR/said" 2>&1 && fail "a checkpoint in no folder"
grep -q 'rank 1 (data=1): cannot write the checkpoint nowhere/first.1' "$TMPDIR/said" || fail "$(cat "$TMPDIR/said")"
cmp first.0 before || fail "the checkpoint of another rank is replaced"
python3 - "$TMPDIR"/ranks*/kernels/cpu/last.0 <<'PY' || fail "ranks have other parameters than one device"
import json, struct, sys

def states(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    out = {}
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            begin, end = (8 + length + at for at in tensor["data_offsets"])
            out[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return out

one, *divided = map(states, sys.argv[1:])
assert len(divided) == 2 and sum(map(len, one.values())) >= 3 * 128, one.keys()
for other in divided:
    for name in one:
        for a, b in zip(one[name], other[name], strict=True):
            assert abs(a - b) <= 1e-6 + 1e-4 * abs(a), (name, a, b)
PY
