#!/bin/bash
# The C packages of the examples, and of the models in tiny/ of RLXC_TEST_MODELS, build without a warning by gcc and clang; so do
# hardened ones, and the C++ header.
set -uo pipefail
fails=0
warnings="-Wall -Wextra -Wshadow -Werror"
models=(examples/bert.onnx examples/mlp.json examples/decoder.json)
[ -z "${RLXC_TEST_MODELS:-}" ] || models+=("$RLXC_TEST_MODELS"/tiny/*/model.onnx)
# Compiles every source of a package; warnings that need optimisation come from what is built at -O1.
check() {  # folder, optimisation
  local cc source
  for cc in gcc clang; do
    command -v $cc > /dev/null || continue
    for source in "$1"/*.c; do
      # shellcheck disable=SC2086
      $cc -std=gnu11 $2 -march=native $warnings -c -o "$TMPDIR/object.o" "$source" > "$TMPDIR/log" 2>&1 ||
        { echo "FAIL $cc $source"; head -8 "$TMPDIR/log"; fails=1; }
    done
  done
}
count=0
for model in "${models[@]}"; do
  name=$(basename "$(dirname "$model")")_$(basename "$model" | tr . _)
  for hardened in "" --hardened; do
    [ -z "$hardened" ] || [ "${model%%/*}" = examples ] || continue
    # shellcheck disable=SC2086
    "$RLXC" compile "$model" $hardened --emit kernels -q -o "$TMPDIR/$name$hardened" > "$TMPDIR/log" 2>&1 || continue  # of no kernels
    if [ "${model%%/*}" = examples ]; then optimisation=-O1; else optimisation=-O0; fi
    check "$TMPDIR/$name$hardened/kernels/cpu" $optimisation
    for header in "$TMPDIR/$name$hardened"/kernels/cpu/*.hpp; do
      for cc in g++ clang++; do
        command -v $cc > /dev/null || continue
        # shellcheck disable=SC2086
        $cc -std=c++17 $warnings -fsyntax-only -x c++ -include "$header" /dev/null > "$TMPDIR/log" 2>&1 ||
          { echo "FAIL $cc $header"; head -8 "$TMPDIR/log"; fails=1; }
      done
    done
    count=$((count + 1))
    rm -rf "${TMPDIR:?}/$name$hardened"
  done
done
echo "$count packages"
[ $count -ge 6 ] || { echo "FAIL packages of the examples"; fails=1; }
exit $fails
