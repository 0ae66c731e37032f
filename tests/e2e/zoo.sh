#!/bin/bash
# Many models built by ninja, with a cache that builds share.
set -eu
fail() { echo "$1"; exit 1; }
command -v ninja > /dev/null || { echo "no ninja"; exit 77; }
top=$PWD
mkdir -p "$TMPDIR/models" "$TMPDIR/a" "$TMPDIR/b"
for i in 1 2 3 4 5 6; do cp examples/mlp.json "$TMPDIR/models/m$i.json"; printf '\n%*s' "$i" "" >> "$TMPDIR/models/m$i.json"; done
export RLXC
build() { (cd "$1" && "$top/examples/zoo/make-ninja" ../models cpu > build.ninja && ninja); }

build "$TMPDIR/a" > "$TMPDIR/said" 2>&1 || fail "$(cat "$TMPDIR/said")"
[ "$(ls "$TMPDIR/a/out" | wc -l)" = 6 ] || fail "six models"
build "$TMPDIR/a" | grep -q 'no work to do' || fail "a second build has work"
echo '--no-reorder' > "$TMPDIR/models/m3.json.flags"
build "$TMPDIR/a" > "$TMPDIR/said" 2>&1
[ "$(grep -c '^\[.*rlxc ' "$TMPDIR/said")" = 1 ] || fail "one flag: $(cat "$TMPDIR/said")"
touch "$TMPDIR/models/m2.json"
"$RLXC" compile "$TMPDIR/models/m2.json" --cache "$TMPDIR/a/cache" -o "$TMPDIR/again" 2>&1 | grep -q 'from the cache' || fail "no hit"

# Builds that share a cache do no harm, nor does one that is killed.
rm -rf "$TMPDIR/a/out" "$TMPDIR/a/cache" "$TMPDIR/a/.ninja_log" "$TMPDIR/a/.ninja_deps"
ln -s ../a/cache "$TMPDIR/b/cache"
mkdir "$TMPDIR/a/cache"
build "$TMPDIR/a" > /dev/null 2>&1 & first=$!
build "$TMPDIR/b" > "$TMPDIR/said" 2>&1 || fail "beside another build: $(cat "$TMPDIR/said")"
wait $first || fail "the other build"
for m in 1 2 3 4 5 6; do cmp "$TMPDIR/a/out/m$m/manifest.json" "$TMPDIR/b/out/m$m/manifest.json" || fail "m$m differs"; done
rm -rf "$TMPDIR/a/cache"/*
for delay in 0.01 0.03 0.06; do
  "$RLXC" compile "$TMPDIR/models/m1.json" --cache "$TMPDIR/a/cache" -q -o "$TMPDIR/killed" & victim=$!
  sleep $delay
  kill -9 $victim 2> /dev/null || true
  wait $victim 2> /dev/null || true
done
"$RLXC" compile "$TMPDIR/models/m1.json" --cache "$TMPDIR/a/cache" -q -o "$TMPDIR/killed" || fail "after a kill"
cmp "$TMPDIR/killed/manifest.json" "$TMPDIR/b/out/m1/manifest.json" || fail "after a kill: another result"

# A damaged entry is compiled again.
entry=$(ls -d "$TMPDIR/a/cache"/*/ | head -1)
echo damage >> "$entry/lir.json"
"$RLXC" compile "$TMPDIR/models/m1.json" --cache "$TMPDIR/a/cache" -o "$TMPDIR/whole" 2>&1 | grep -q 'from the cache' && fail "a damaged entry is used"
cmp "$TMPDIR/whole/lir.json" "$TMPDIR/b/out/m1/lir.json" || fail "after damage"

"$RLXC" compile "$TMPDIR/models/m1.json" --depfile "$TMPDIR/d" -q -o "$TMPDIR/o" && grep -q 'm1.json' "$TMPDIR/d" || fail "depfile"

# A compile reads its inputs and nothing else, and its results do not depend on the environment.
if command -v strace > /dev/null && strace true 2> /dev/null; then
  (cd "$TMPDIR" && strace -f -e trace=open,openat -o trace "$RLXC" compile models/m1.json --depfile inputs -q -o traced) || fail "under strace"
  grep -v ' = -1 \|O_DIRECTORY\|O_WRONLY\|O_RDWR' "$TMPDIR/trace" | sed -n 's/.*open[a-z]*([^"]*"\([^"]*\)".*/\1/p' |
    grep -v '^/lib\|^/usr/lib\|^/etc/ld\.so\|^/proc/\|^/sys/\|^/dev/' | sort -u > "$TMPDIR/opened"
  grep -q 'models/m1.json' "$TMPDIR/opened" || fail "the trace lacks the model: $(cat "$TMPDIR/trace")"
  while read -r file; do
    [[ "$file" = */.traced.* ]] || grep -q -F "$file" "$TMPDIR/inputs" || fail "$file is read, but no input in the depfile"
  done < "$TMPDIR/opened"
fi
(cd "$TMPDIR" && env -i LANG=de_DE TZ=UTC+5 "$RLXC" compile models/m1.json -q -o bare) || fail "without an environment"
cmp "$TMPDIR/bare/manifest.json" "$TMPDIR/b/out/m1/manifest.json" || fail "the environment has an effect"
