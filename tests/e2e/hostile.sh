#!/bin/bash
# Every file of tests/hostile through every command: an exit code of the documented ones within 60 seconds and 1 GB, and of a compile
# for all targets the one that tests/hostile/expected.txt names. What is written in C compiles without a warning, and Python parses
# what is written in Python.
set -uo pipefail
fails=0
limited() { (ulimit -d 1000000 && timeout 60 "$RLXC" "$@") >"$TMPDIR/log" 2>&1 </dev/null; }
grep -qa __asan_init "$RLXC" && limited() { timeout 60 "$RLXC" "$@" >"$TMPDIR/log" 2>&1 </dev/null; }  # its shadow is memory too
for file in tests/hostile/*.onnx tests/hostile/*.json tests/hostile/*.gguf; do
  name=$(basename "$file")
  expected=$(awk -v name="$name" '$1 == name { print $2 }' tests/hostile/expected.txt)
  limited compile "$file" -q --target all -o "$TMPDIR/out"
  status=$?
  [ "$status" = "$expected" ] || { echo "compile of $name: exit code $status, expected ${expected:-none}"; tail -3 "$TMPDIR/log"; fails=1; }
  sources=("$TMPDIR"/out/cpu/kernels/cpu/*.c)
  if [ -e "${sources[0]}" ]; then
    cc -fsyntax-only -Wall -Wextra -Werror -I "$TMPDIR/out/cpu/kernels/cpu" "${sources[@]}" 2>"$TMPDIR/log" ||
      { echo "the package of $name does not compile"; head -5 "$TMPDIR/log"; fails=1; }
  fi
  for module in "$TMPDIR"/out/mlx/kernels/mlx/*.py; do
    [ ! -e "$module" ] || python3 -c 'import sys; compile(open(sys.argv[1]).read(), "module", "exec")' "$module" 2>"$TMPDIR/log" ||
      { echo "the module of $name does not compile"; tail -1 "$TMPDIR/log"; fails=1; }
  done
  for command in "check --target all" inspect "inspect --json" "run --random --engine reference" "run --random" \
    "run --random --engine interpreter" "transform --jvp x -o -" "transform --vmap x --size 2 -o -" "simplify -o -" "compile --emit lir -o -" "compile --verify --emit plan -o -"; do
    read -ra arguments <<<"$command"
    limited "${arguments[0]}" "$file" "${arguments[@]:1}" --max-operations 100000000
    status=$?
    [ $status -le 7 ] || { echo "$command of $name: exit code $status"; tail -3 "$TMPDIR/log"; fails=1; }
  done
  rm -rf "$TMPDIR/out"
done
[ "$(find tests/hostile -name "*.onnx" -o -name "*.json" -o -name "*.gguf" | wc -l)" = "$(grep -vc '^#' tests/hostile/expected.txt)" ] ||
  { echo "expected.txt and the files of tests/hostile differ"; fails=1; }
exit $fails
