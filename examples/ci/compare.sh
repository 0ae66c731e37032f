#!/bin/bash
# Compares the compiles of models at a revision with those in the working tree, for a comment on a change.
# usage: compare.sh REVISION MODEL...     in a git checkout
#
# Writes comment.md (tables of launches, arena, traffic and what else differs) and junit/*.xml to $OUT (rlxc-compare). Exit code 1: a
# condition of $FAIL_ON fails; 2 and more: a model does not compile. A model that the revision lacks is compiled only.
#   RLXC     the program (rlxc)            FLAGS    options of `rlxc compile` ("--target cuda")
#   FAIL_ON  conditions of `rlxc diff` ("fusion.launches>+0 plan.arena>+2%")
#   BENCH    a number of runs: also measures both versions in turn on this machine's processor
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
revision=$1 rlxc=${RLXC:-rlxc} out=${OUT:-rlxc-compare} code=0
shift
read -ra flags <<<"${FLAGS:-}"
conditions=()
for condition in ${FAIL_ON:-}; do conditions+=(--fail-on "$condition"); done
mkdir -p "$out/junit" || exit
base=$(mktemp -d) || exit
trap 'git worktree remove --force "$base/tree" >/dev/null 2>&1; rm -rf "$base"' EXIT
git worktree add --quiet --detach "$base/tree" "$revision" || exit

worse() { [ "$1" -le "$code" ] || code=$1; }
compile() { "$rlxc" compile "$1" --emit lir,plan,fusion,dispatch,precision -q "${flags[@]}" -o "$2"; }
for model in "$@"; do
  name=${model//\//_}
  echo "### $model"
  echo
  if ! compile "$model" "$base/new/$name" 2>"$base/log"; then
    printf 'Does not compile:\n\n```\n%s\n```\n' "$(cat "$base/log")"
    worse 2
    continue
  fi
  if [ ! -e "$base/tree/$model" ]; then
    echo "A new model, which compiles."
    continue
  fi
  if ! compile "$base/tree/$model" "$base/old/$name" 2>"$base/log"; then
    printf 'Did not compile at %s.\n' "$revision"
    continue
  fi
  "$rlxc" diff "$base/old/$name" "$base/new/$name" --markdown --junit "$out/junit/$name.xml" "${conditions[@]}" 2>"$base/log"
  status=$?
  # Without conditions a difference is news, not a failure.
  [ $status -eq 1 ] && [ ${#conditions[@]} -eq 0 ] && status=0
  [ $status -le 1 ] || printf '```\n%s\n```\n' "$(cat "$base/log")"
  worse $status
  if [ -n "${BENCH:-}" ]; then
    echo
    "$rlxc" bench "$model" --against "$base/tree/$model" --repeat "$BENCH" --json 2>/dev/null |
      python3 -c 'import json, sys
a, b = (c["median_ms"] for c in json.load(sys.stdin)["candidates"])
print(f"Median of a run: {b:.3g} ms -> {a:.3g} ms ({(a / b - 1) * 100:+.1f} %)")' || echo "Was not measured."
  fi
  echo
done >"$out/comment.md"
cat "$out/comment.md"
exit $code
