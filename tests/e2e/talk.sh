#!/bin/bash
# The programs of examples/talk: greedy tokens are those of NumPy (GGUF) and of the reference evaluator (a genai folder), whole
# prompts and parts alike; Python and C++ draw the same tokens; a full cache, wrong tokens and wrong packages are errors; states stay
# in their buffers; the tokenizers, where build/peers has the libraries.
set -uo pipefail
python3 -c 'import numpy' 2>"$TMPDIR/log" || { echo "needs NumPy for $(command -v python3)"; exit 77; }
. tests/support/commands.sh
export PYTHONDONTWRITEBYTECODE=1 RLXC
talk=examples/talk support=tests/support/python warnings="-Wall -Wextra -Werror"
PYTHONPATH=$talk python3 $support/talk_parts.py >"$TMPDIR/log" 2>&1 || { fail "parts of the Python program"; cat "$TMPDIR/log"; }

prompt="1 17 33 90 4 208 60"
python3 $support/gguf_models.py "$TMPDIR" qwen3 gemma3 >"$TMPDIR/log" 2>&1 || fail "GGUF models"
python3 $support/genai_folder.py "$TMPDIR/genai" || fail "a genai folder"
for model in qwen3.gguf gemma3.gguf genai; do
  package=$TMPDIR/${model%.gguf}_package
  [ $model != genai ] || prompt="1 17 33 90 4 8 60"
  try 0 python3 $talk/build.py "$TMPDIR/$model" -o "$package" --room 48
  try 0 g++ -std=c++17 $warnings -O1 -I"$package" $talk/talk.cpp "$package/liblm.a" -pthread -lm -o "$package/talk"
  for part in 1 3 256; do
    try 0 python3 $talk/talk.py "$package" "$prompt" --ids --tokens 32 --part $part
    xargs <"$TMPDIR/log" >"$TMPDIR/tokens_$part"
  done
  [ "$(wc -w <"$TMPDIR/tokens_1")" = 32 ] || fail "32 tokens of $model: $(cat "$TMPDIR/tokens_1")"
  for part in 1 3; do cmp -s "$TMPDIR/tokens_$part" "$TMPDIR/tokens_256" || fail "$model: a prompt in parts of $part"; done
  read -ra tokens <"$TMPDIR/tokens_256"
  if [ $model = genai ]; then
    # shellcheck disable=SC2086
    python3 $support/talk_reference.py prompt "$TMPDIR/whole" $prompt "${tokens[@]}"
    try 0 "$RLXC" run "$TMPDIR/genai/model.onnx" --data "$TMPDIR/whole" --engine reference --save-outputs "$TMPDIR/whole/out"
    python3 $support/talk_reference.py likeliest "$TMPDIR/whole/out" 32 >"$TMPDIR/expected"
  else
    # shellcheck disable=SC2086
    python3 $support/talk_reference.py gguf ${model%.gguf} 32 $prompt >"$TMPDIR/expected"
  fi
  diff "$TMPDIR/expected" "$TMPDIR/tokens_256" >"$TMPDIR/log" || { fail "greedy tokens of $model"; cat "$TMPDIR/log"; }
  echo "$prompt" | "$package/talk" "$package" --tokens 32 | xargs >"$TMPDIR/cpp"
  cmp -s "$TMPDIR/cpp" "$TMPDIR/tokens_256" || fail "greedy tokens of $model in C++"

  # Draws, by one generator of random numbers.
  drawn=""
  for options in "--temperature 1.5" "--temperature 2 --top-k 40 --seed 1" "--temperature 1.5 --top-k 100 --top-p 0.8 --seed 2"; do
    # shellcheck disable=SC2086
    try 0 python3 $talk/talk.py "$package" "$prompt" --ids --tokens 24 $options
    # shellcheck disable=SC2086
    echo "$prompt" | "$package/talk" "$package" --tokens 24 --part 2 $options >"$TMPDIR/cpp" || fail "C++ with $options"
    cmp -s "$TMPDIR/cpp" "$TMPDIR/log" || fail "$model with $options: Python and C++ differ"
    drawn+="$(xargs <"$TMPDIR/cpp")"$'\n'
  done
  [ "$(sort -u <<<"$drawn" | grep -c .)" = 3 ] || fail "draws of $model: $drawn"

  # A token that ends the text: the first that is not the first token of all.
  for end in "${tokens[@]}"; do [ "$end" = "${tokens[0]}" ] || break; done
  try 0 python3 $talk/talk.py "$package" "$prompt" --ids --stop "$end" --tokens 32
  tail -1 "$TMPDIR/log" | grep -qx "${tokens[0]}" || fail "$model does not end at $end: $(xargs <"$TMPDIR/log")"
  grep -qx "$end" "$TMPDIR/log" && fail "$model shows the token that ends the text"
  "$package/talk" "$package" --tokens 32 --stop "$end" <<<"$prompt" | cmp -s - "$TMPDIR/log" || fail "$model in C++ does not end at $end"

  # 48 tokens are the room: the 42nd new one is the last that can be computed from them.
  try 1 python3 $talk/talk.py "$package" "$prompt" --ids --tokens 100
  said "49 tokens do not fit: the cache has room for 48"
  [ "$(grep -cx '[0-9]*' "$TMPDIR/log")" = 42 ] || fail "$model: tokens before the cache is full: $(grep -cx '[0-9]*' "$TMPDIR/log")"
  try 0 python3 $talk/talk.py "$package" "$prompt" --ids --tokens 42
  echo "$prompt" | "$package/talk" "$package" --tokens 42 | cmp -s - "$TMPDIR/log" || fail "$model to the end of the cache in C++"
  "$package/talk" "$package" --tokens 100 <<<"$prompt" >"$TMPDIR/log" 2>&1 && fail "$model: C++ takes a full cache"
  said "49 tokens do not fit: the cache has room for 48"
  # shellcheck disable=SC2046
  try 1 python3 $talk/talk.py "$package" "$(echo $(seq 1 60))" --ids
  said "60 tokens do not fit"
  for wrong in "5000" "-1" "" "1 x"; do
    try 1 python3 $talk/talk.py "$package" " $wrong" --ids
    "$package/talk" "$package" <<<"$wrong" >"$TMPDIR/log" 2>&1 && fail "C++ takes the tokens '$wrong'"
  done
done
if ! python3 -c 'import tokenizers' 2>/dev/null; then
  try 1 python3 $talk/talk.py "$TMPDIR/qwen3_package" "Hello"
  said "text needs the libraries tokenizers"
fi
try 1 python3 $talk/talk.py "$TMPDIR" "1" --ids
said "is no package of build.py"
try 1 python3 $talk/talk.py "$TMPDIR/qwen3_package" "1" --ids --temperature -1
try 0 "$RLXC" compile examples/mlp.json --name lm --emit kernels -q -o "$TMPDIR/mlp"
try 0 make -s -C "$TMPDIR/mlp/kernels/cpu" CFLAGS=-O1 liblm.so
try 1 python3 $talk/talk.py "$TMPDIR/mlp/kernels/cpu" "1" --ids
said "is no decoder with a cache of fixed room"
try 1 python3 $talk/build.py examples/bert.onnx -o "$TMPDIR/bert"

# The package itself: start and advance, and the README.
cat >"$TMPDIR/states.py" <<'PYTHON'
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
from lm_model import Error, Model

model = Model(sys.argv[1])
states = model.start()
assert len(states) == len(model.states) and all(s.shape == (1, 2, 48, 32) and not s.any() for s in states)
places = [s.ctypes.data for s in states]
(logits,) = model.advance(states, input_ids=np.array([[1, 17, 33]]), past_length=np.array(0))
assert [s.ctypes.data for s in states] == places and all(s[:, :, :3].all() and not s[:, :, 3:].any() for s in states)
# A call copies the states, and gives the same.
(expected, *present) = model(np.array([[4]]), np.array(3), *[s.copy() for s in states])
(logits,) = model.advance(states, input_ids=np.array([[4]]), past_length=np.array(3))
assert np.array_equal(logits, expected) and all(np.array_equal(a, b) for a, b in zip(present, states))


def refused(kind, text, call):
    try:
        call()
    except kind as e:
        assert text in str(e), e
    else:
        raise AssertionError(text)


step = {"input_ids": np.array([[4]]), "past_length": np.array(3)}
refused(TypeError, "has no size", lambda: model.start(batch=1))
refused(TypeError, "the inputs of lm are", lambda: model.advance(states, input_ids=step["input_ids"]))
refused(ValueError, "states, got 1", lambda: model.advance(states[:1], **step))
refused(ValueError, "no array of start()", lambda: model.advance([s.transpose(0, 1, 3, 2) for s in states], **step))
refused(ValueError, "has the shape", lambda: model.advance([s[:, :, :8].copy() for s in states], **step))
refused(TypeError, "has elements of type float32", lambda: model.advance([s.astype(np.float64) for s in states], **step))
refused(ValueError, "no array that a run can write", lambda: model.advance([np.frombuffer(s.tobytes(), s.dtype).reshape(s.shape)
                                                                         for s in states], **step))
refused(Error, "out of range", lambda: Model(sys.argv[1]).advance(model.start(), input_ids=np.array([[4]]), past_length=np.array(48)))
PYTHON
try 0 python3 "$TMPDIR/states.py" "$TMPDIR/qwen3_package"
readme=$TMPDIR/qwen3_package/README.md
block() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' "$readme"; }
for text in '^## A prompt and its steps' '`past_length` 0' 'LM_BAD_INDEX' 'A step reads the weights, [0-9]* bytes'; do
  grep -q "$text" "$readme" || fail "the README has no '$text'"
done
cd "$TMPDIR/qwen3_package" || exit 1
block python >example.py
try 0 python3 example.py
{ block cpp | sed -n '/^#/p'; echo 'int main() {'; block cpp | sed '/^#/d'; echo 'return outputs.size() == 5 ? 0 : 1; }'; } >example.cpp
try 0 g++ -std=c++17 $warnings example.cpp -I. liblm.a -pthread -lm -o example
try 0 ./example
block c >example.c
try 0 cc $warnings example.c -I. liblm.a -pthread -lm -o example
try 0 ./example
cd "$OLDPWD" || exit 1
[ $fails = 0 ] || exit 1

# Text: the tokenizers need libraries of PyPI, as scripts/talk-check does.
peer=build/peers/talk/bin/python
if [ -x $peer ] && $peer -c 'import tokenizers, gguf, jinja2' 2>/dev/null; then
  try 0 env PYTHONPATH=$talk $peer $support/talk_text.py "$TMPDIR"
else
  echo "without tokenizers: scripts/setup-peers talk installs them"
fi
exit $fails
