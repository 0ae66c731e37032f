#!/bin/bash
# A command that is interrupted leaves the old artefacts or the new ones, never both, and a signal leaves no temporary file or folder
# and no child process. RLXC_TEST_KILLS sets how often a compile is (60); files that are saved and runs are a third as often, and
# trainings a twelfth.
set -u
kills=${RLXC_TEST_KILLS:-60}
fail() { echo "$*"; exit 1; }
export HOME="$TMPDIR"
mkdir "$TMPDIR/tmp" "$TMPDIR/place"
state() { (cd "$1" && find . -type f ! -name notes.txt | sort | xargs -d '\n' sha256sum | sha256sum); }
compile() { "$RLXC" compile examples/bert.onnx --target "$1" -q -o "$TMPDIR/place/out" 2>/dev/null; }

compile cuda && compile cpu && cpu=$(state "$TMPDIR/place/out") || fail "compile for cpu"
echo mine >"$TMPDIR/place/out/notes.txt"
compile cuda && cuda=$(state "$TMPDIR/place/out") || fail "compile for cuda"  # the package for cpu stays
[ "$cuda" != "$cpu" ] || fail "the two states are alike"
start=$(date +%s%N)
compile cuda
took=$((($(date +%s%N) - start) / 1000))  # microseconds
signals=(TERM INT HUP KILL QUIT)
for ((i = 0; i < kills; ++i)); do
  target=cpu
  [ $((i % 2)) -eq 0 ] || target=cuda
  # An interactive shell's background job: SIGINT is not ignored.
  setsid bash -c 'trap - INT; exec "$@"' _ env --default-signal=HUP,INT,QUIT "$RLXC" compile examples/bert.onnx --target $target -q \
    -o "$TMPDIR/place/out" >/dev/null 2>&1 &
  pid=$!
  pause=$((RANDOM * took / 32768))
  sleep "$(printf '%d.%06d' $((pause / 1000000)) $((pause % 1000000)))"
  signal=${signals[$((i % 5))]}
  kill -"$signal" "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  now=$(state "$TMPDIR/place/out")
  [ "$now" = "$cpu" ] || [ "$now" = "$cuda" ] || fail "after $signal number $i the folder is mixed"
  [ "$(cat "$TMPDIR/place/out/notes.txt")" = mine ] || fail "after $signal number $i a foreign file is gone"
  left=$(find "$TMPDIR/place" -maxdepth 1 -name '.*rlxc*')
  [ -z "$left" ] || [ "$signal" = KILL ] || fail "after $signal number $i there is $left"
  rm -rf "$TMPDIR"/place/.*rlxc*
done

# Saved files are whole: the record of a calibration, and a configuration.
interrupted() { # signal, longest pause in microseconds, command...
  local signal=$1 pause=$((RANDOM * $2 / 32768))
  shift 2
  setsid bash -c 'trap - INT; exec "$@"' _ env --default-signal=HUP,INT "$RLXC" "$@" >/dev/null 2>&1 &
  pid=$!
  sleep "$(printf '%d.%06d' $((pause / 1000000)) $((pause % 1000000)))"
  kill -"$signal" "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
}
mkdir "$TMPDIR/saves"
record="$TMPDIR/saves/record.json" config="$TMPDIR/saves/config.json"
for n in 1 2; do
  "$RLXC" calibrate examples/mlp.json --random $n -o "$TMPDIR/record.$n" 2>/dev/null || fail "calibrate"
  "$RLXC" compile examples/mlp.json --unroll $n --save-config "$TMPDIR/config.$n" --print-config >"$TMPDIR/log" || fail "--save-config"
done
cmp -s "$TMPDIR/record.1" "$TMPDIR/record.2" && fail "the two records are alike"
cp "$TMPDIR/record.1" "$record" && cp "$TMPDIR/config.1" "$config"
for ((i = 0; i < kills / 3; ++i)); do
  signal=${signals[$((i % 4))]} n=$((RANDOM % 2 + 1))
  interrupted "$signal" 60000 calibrate examples/mlp.json --random $n -o "$record"
  cmp -s "$record" "$TMPDIR/record.1" || cmp -s "$record" "$TMPDIR/record.2" || fail "after $signal number $i the record is mixed"
  interrupted "$signal" 20000 compile examples/mlp.json --unroll $n --save-config "$config" --print-config
  cmp -s "$config" "$TMPDIR/config.1" || cmp -s "$config" "$TMPDIR/config.2" || fail "after $signal number $i the configuration is mixed"
  left=$(find "$TMPDIR/saves" -name '*.tmp-*')
  [ -z "$left" ] || [ "$signal" = KILL ] || fail "after $signal number $i there is $left"
  rm -f "$TMPDIR"/saves/*.tmp-*
done

# Runs leave nothing, whatever they were at; a run that is killed leaves a folder that a later one removes.
runs="$TMPDIR/runs"
mkdir "$runs"
for ((i = 0; i < kills / 3; ++i)); do
  signal=${signals[$((i % 3))]}
  TMPDIR=$runs interrupted "$signal" 1500000 run examples/mlp.json --random
  for ((t = 0; t < 200; ++t)); do
    [ -n "$(ps -o stat= -g "$pid" | grep -v Z)" ] || break
    sleep 0.01
  done
  [ "$t" -lt 200 ] || fail "a process outlives $signal number $i"
  [ -z "$(ls -A "$runs")" ] || fail "run leaves $(ls -A "$runs") after $signal number $i"
done

# The checkpoint of a training is whole, and nothing is left beside it.
mkdir "$TMPDIR/train"
cat >"$TMPDIR/samples.py" <<'PY'
import struct, sys
def array(path, descr, shape, body):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    open(path, "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + body)
array(sys.argv[1] + "/x.npy", "<f4", "(64, 4)", struct.pack("<256f", *[i % 7 - 3 for i in range(256)]))
array(sys.argv[1] + "/y.npy", "<i8", "(64,)", struct.pack("<64q", *[i % 4 for i in range(64)]))
PY
python3 "$TMPDIR/samples.py" "$TMPDIR/train"
training=(train examples/mlp.json --data "$TMPDIR/train/x.npy" --labels "$TMPDIR/train/y.npy" --loss cross-entropy --threads 1 --batch 64
  --checkpoint "$TMPDIR/train/point" -q -o "$TMPDIR/train/model.onnx")
for ((i = 0; i < (kills + 11) / 12; ++i)); do
  signal=${signals[$((i % 4))]}
  rm -f "$TMPDIR/train/point"
  setsid env --default-signal=HUP,INT "$RLXC" "${training[@]}" --epochs 1000000 >/dev/null 2>&1 &
  pid=$!
  for ((t = 0; t < 12000; ++t)); do
    [ ! -e "$TMPDIR/train/point" ] || break
    sleep 0.01
  done
  sleep 0.$((RANDOM % 300 + 100))
  kill -"$signal" "$pid"
  wait "$pid" 2>/dev/null
  left=$(find "$TMPDIR/train" -name '*.tmp-*')
  [ -z "$left" ] || [ "$signal" = KILL ] || fail "after $signal number $i of a training there is $left"
  rm -f "$TMPDIR"/train/*.tmp-*
  [ ! -e "$TMPDIR/train/model.onnx" ] || fail "a training that is ended by $signal writes a model"
  "$RLXC" "${training[@]}" --epochs 1 --resume "$TMPDIR/train/point" 2>"$TMPDIR/log" || fail "after $signal number $i: $(cat "$TMPDIR/log")"
  rm "$TMPDIR/train/model.onnx"
done

# `run` ends its compiler with itself.
export TMPDIR="$TMPDIR/tmp"
for signal in TERM INT HUP; do
  setsid env --default-signal=HUP,INT "$RLXC" run examples/bert.onnx --data examples/bert_data >/dev/null 2>&1 &
  pid=$!
  for ((t = 0; t < 200; ++t)); do
    [ -z "$(find "$TMPDIR" -name '*.c' | head -1)" ] || break
    sleep 0.01
  done
  sleep 0.1
  children=$(pgrep -P "$pid")
  [ -n "$children" ] || fail "run has no compiler to end"
  kill -$signal "$pid"
  wait "$pid" 2>/dev/null
  status=$?
  [ $status -gt 128 ] || fail "run ends with $status on $signal"
  for child in $children; do
    for ((t = 0; t < 200; ++t)); do  # an orphan is a zombie until the system reaps it
      [[ $(ps -o stat= -p "$child") = [!Z]* ]] || break
      sleep 0.01
    done
    [ "$t" -lt 200 ] || fail "a compiler outlives $signal"
  done
  [ -z "$(ls -A "$TMPDIR")" ] || fail "run leaves $(ls -A "$TMPDIR") after $signal"
done

# A full device is an error of every command that prints, whatever it found.
"$RLXC" compile examples/mlp.json -q -o "$TMPDIR/full.1" && "$RLXC" compile examples/mlp.json -q --target cuda -o "$TMPDIR/full.2" ||
  fail "compile"
printf 'id,lower,upper,size\n0,0,2,64\n' >"$TMPDIR/full.csv"
while read -r command; do
  "$RLXC" $command >/dev/full 2>"$TMPDIR/log" </dev/null
  status=$?
  [ $status -eq 6 ] || fail "rlxc $command on a full device ends with $status"
  grep -q 'RLX0106' "$TMPDIR/log" || fail "rlxc $command on a full device says $(cat "$TMPDIR/log")"
done <<END
--help
--version
compile --help
list passes
list options --markdown
explain RLX0106
schema plan
manual
completion bash
eval 1+1
plan $TMPDIR/full.csv
info examples/mlp.json
check examples/mlp.json
check examples/mlp.json --target all
inspect examples/mlp.json
inspect examples/mlp.json --json
compile examples/mlp.json --print-config
compile examples/mlp.json --emit plan -o -
transform examples/mlp.json --vmap x --size 2 -o -
simplify examples/bert.onnx -o -
calibrate examples/mlp.json --random 1 -o -
run examples/mlp.json --random --engine reference
profile examples/mlp.json --repeat 1 --json
report $TMPDIR/full.1 -o -
diff $TMPDIR/full.1 $TMPDIR/full.2
END

# A model that is cut short while it is read is an input that cannot be read.
cat >"$TMPDIR/cut.py" <<'PY'
import os, subprocess, sys, time
model = sys.argv[2]
with open("examples/bert.onnx", "rb") as f:
    data = f.read()
for delay in [i * 0.0002 for i in range(60)]:
    with open(model, "wb") as f:
        f.write(data)
    p = subprocess.Popen([sys.argv[1], "compile", model, "-q", "--emit", "lir", "-o", model + ".out"], stderr=subprocess.PIPE)
    time.sleep(delay)
    os.truncate(model, 4096)
    said = p.communicate()[1].decode()
    if p.returncode not in (0, 3, 4) or (p.returncode == 3 and "cut short" not in said):
        sys.exit(f"after {delay} s: exit code {p.returncode}\n{said}")
PY
python3 "$TMPDIR/cut.py" "$RLXC" "$TMPDIR/cut.onnx" || fail "a model that is cut short"
