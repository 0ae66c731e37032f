#!/bin/bash
# A language model as onnxruntime-genai's model builder writes it: a prompt and then single words, on a cache that is a state, give
# the logits that all words give at once; nothing copies the cache; and one package serves a cache of any length.
set -euo pipefail
for python in python3 /usr/bin/python3 ""; do
  [ -n "$python" ] || { echo "python3-numpy is not installed"; exit 77; }
  "$python" -c 'import numpy' 2> /dev/null && break
done
decoder=tests/support/python/genai_decoder.py
states=past_key_values.0.key=present.0.key,past_key_values.0.value=present.0.value
states+=,past_key_values.1.key=present.1.key,past_key_values.1.value=present.1.value
room=80
step() { # folder, words: runs the kernels on the inputs of the folder
  "$RLXC" run "$TMPDIR/$level.onnx" --data "$1" --save-outputs "$1/out" \
    --bind "batch_size=1,sequence_length=$2,past_sequence_length=$room,total_sequence_length=$room" --state $states > "$TMPDIR/log" ||
    { cat "$TMPDIR/log"; exit 1; }
}
for level in 0 4; do
  tolerance=$([ $level = 0 ] && echo 1e-5 || echo 0.05)
  "$python" $decoder write "$TMPDIR/$level.onnx" "$level"
  "$python" $decoder prompt "$TMPDIR/whole" $room 70
  "$python" $decoder prompt "$TMPDIR/step" $room 66
  step "$TMPDIR/whole" 70
  step "$TMPDIR/step" 66
  for length in 67 68 69 70; do
    "$python" $decoder next "$TMPDIR/step" $room $length
    step "$TMPDIR/step" 1
  done
  "$python" $decoder same "$TMPDIR/step/out" "$TMPDIR/whole/out" "$tolerance"
  rm -r "$TMPDIR/step" "$TMPDIR/whole"
done
"$RLXC" inspect "$TMPDIR/4.onnx" --state $states \
  --bind "batch_size=1,sequence_length=1,past_sequence_length=$room,total_sequence_length=$room" > "$TMPDIR/lir.txt"
if grep -E ' = (pad|concat)\(.*80,' "$TMPDIR/lir.txt"; then
  echo "the cache is copied"
  exit 1
fi
"$RLXC" compile "$TMPDIR/4.onnx" --emit kernels --state $states -q -o "$TMPDIR/package" \
  --bind "batch_size=1,sequence_length=1,past_sequence_length=$room,total_sequence_length=$room"
if grep -h '^ .*append_copy.*(OUT' "$TMPDIR"/package/kernels/cpu/*.c; then
  echo "the cache is copied to itself"
  exit 1
fi
"$RLXC" run "$TMPDIR/0.onnx" --random --bind batch_size=1,sequence_length=1 --size past_sequence_length=7,total_sequence_length=8 \
  --size past_sequence_length=8,total_sequence_length=9 --size past_sequence_length=40,total_sequence_length=41
