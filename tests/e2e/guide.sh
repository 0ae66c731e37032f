#!/bin/bash
# Every command of docs/guide.md, and every line of the cookbook in docs/json.md, runs.
set -uo pipefail
fails=0
mkdir "$TMPDIR/bin"
ln -s "$RLXC" "$TMPDIR/bin/rlxc"
export PATH=$TMPDIR/bin:$PATH
cp -r examples "$TMPDIR/"
for page in docs/guide.md docs/json.md; do
  grep -E '^    (rlxc|make|cat|jq) ' "$page" | sed 's/^ *//' >"$TMPDIR/commands"
  [ -s "$TMPDIR/commands" ] || { echo "no commands in $page"; fails=1; }
  (
    cd "$TMPDIR" || exit 1
    while read -r line; do
      case $line in *jq*) command -v jq >/dev/null || continue ;; esac
      bash -o pipefail -c "$line" >log 2>&1 </dev/null
      code=$?
      # diff exits with 1 where compiles differ.
      [ $code -eq 0 ] || [[ $code -eq 1 && $line == rlxc\ diff* ]] || { echo "FAIL $page: $line"; head -5 log; exit 1; }
    done <commands
  ) || fails=1
done
exit $fails
