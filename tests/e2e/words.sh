#!/bin/bash
# Words and errors: advice for what is misspelt, explanations, help, completion and manual pages made from the tables.
set -uo pipefail
. tests/support/commands.sh
try 2 "$RLXC" compile --traget cpu examples/bert.onnx
said 'unknown flag "--traget"'
said 'did you mean --target'
try 2 "$RLXC" compile examples/bert.onnx --threads 2
said 'it is a flag of bench, profile'
try 2 "$RLXC" lst passes
said 'did you mean "rlxc list"'
try 2 "$RLXC" viz
said '"rlxc report OUTDIR" does that'
try 2 "$RLXC" --save-config x.json compile examples/mlp.json
said 'the flag "--save-config" is before the command'
try 2 "$RLXC" list pases
said 'did you mean passes'
try 2 "$RLXC" completion tcsh
said 'bash, zsh, fish'
try 0 env RLX_DISABEL_CSE=1 RLX_FUSE_ATTN_THRESHOLD=abc "$RLXC" compile examples/mlp.json --emit plan -o "$TMPDIR/out"
said 'RLX_DISABEL_CSE'
said 'did you mean RLX_DISABLE_CSE'
said 'RLX_FUSE_ATTN_THRESHOLD is ignored'
said ' fusions formed, '
try 0 "$RLXC" compile examples/mlp.json -q --max-arena 1MiB --emit plan -o "$TMPDIR/out"
try 2 "$RLXC" compile examples/mlp.json -q --max-arena 1Q --emit plan -o "$TMPDIR/out"
said '64K or 8MiB'

for word in rlx0214 RLX0101 304 multi_consumer cost attention matmul_bias_act fuse_matmul_bias_act constant_folding Softmax; do
  try 0 "$RLXC" explain $word
done
for topic in codes reasons patterns passes; do
  "$RLXC" list $topic --json | python3 -c 'import json, sys
for row in json.load(sys.stdin)["items"]: print(list(row.values())[0])' | while read -r word; do
    "$RLXC" explain "$word" | grep -q 'example' || echo "$word"
  done >"$TMPDIR/without"
  [ ! -s "$TMPDIR/without" ] || fail "$topic without an example: $(tr '\n' ' ' <"$TMPDIR/without")"
done
# Every word of a report is explained.
for target in cpu cuda wgpu; do
  for model in examples/bert.onnx examples/decoder.json ${RLXC_TEST_MODELS:+"$RLXC_TEST_MODELS"/tiny/*/model.onnx}; do
    "$RLXC" compile "$model" -t $target -q --emit fusion -o "$TMPDIR/fusion" 2>/dev/null || continue
    python3 -c 'import json, sys
f = json.load(open(sys.argv[1]))
for d in f["formed"] + f["declined"]:
    print(d["pattern"])
    if "reason" in d: print(d["reason"])' "$TMPDIR/fusion/fusion.json"
  done
done | sort -u >"$TMPDIR/words"
while read -r word; do "$RLXC" explain "$word" >/dev/null 2>&1 || fail "no explanation of $word"; done <"$TMPDIR/words"
try 2 "$RLXC" explain multi_consumers
said 'did you mean multi_consumer'

# Help fits the terminal; each command has its own; manual pages are well-formed.
for command in $("$RLXC" list options --json | python3 -c 'import json, sys
print(*sorted({c for o in json.load(sys.stdin)["items"] for c in o["commands"].split(", ") if c}))'); do
  "$RLXC" "$command" --help >"$TMPDIR/help" || fail "$command --help"
  grep -q "rlxc $command" "$TMPDIR/help" || fail "$command --help has no usage"
  "$RLXC" manual "$command" >"$TMPDIR/page.1" || fail "manual $command"
  if command -v groff >/dev/null; then
    said=$(groff -man -Tutf8 -ww "$TMPDIR/page.1" 2>&1 >/dev/null)
    [ -z "$said" ] || fail "manual $command: $said"
  fi
done
"$RLXC" --help | grep -q '^Run and measure' || fail "--help has no groups"
"$RLXC" --version | grep -q '^commit ' || fail "--version has no commit"
"$RLXC" --version | grep -Eq '^features: (static|dynamic), images BMP, ' || fail "--version has no features"

# Completion offers values.
"$RLXC" completion bash >"$TMPDIR/rlxc.bash"
complete_words() { # words of the command line; the last is completed
  bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rlxc; echo "${COMPREPLY[@]}"' bash "$TMPDIR/rlxc.bash" "$@"
}
[ "$(complete_words rlxc compile --target wg)" = wgpu ] || fail "completion of targets: $(complete_words rlxc compile --target wg)"
[ "$(complete_words rlxc compile --emit lir,pla)" = lir,plan ] || fail "completion of lists: $(complete_words rlxc compile --emit lir,pla)"
[ "$(complete_words rlxc prof)" = profile ] || fail "completion of commands"
complete_words rlxc explain multi_ | grep -q multi_consumer || fail "completion of reasons"
"$RLXC" completion zsh >"$TMPDIR/_rlxc"
"$RLXC" completion fish >"$TMPDIR/rlxc.fish"
grep -q -- "-l precision -xa 'f32 f16" "$TMPDIR/rlxc.fish" || fail "fish has no values"
if command -v zsh >/dev/null; then zsh -n "$TMPDIR/_rlxc" || fail zsh; fi
if command -v fish >/dev/null; then fish -n "$TMPDIR/rlxc.fish" || fail fish; fi
exit $fails
