#!/bin/bash
# The C packages of the examples, and of the models in tiny/ of RLXC_TEST_MODELS, build without a warning by gcc and clang; so do
# hardened ones, and the C++ header. Every one of these models has a package.
set -uo pipefail
fails=0
warnings="-Wall -Wextra -Wshadow -Werror"
models=(examples/bert.onnx examples/mlp.json examples/decoder.json)
[ -z "${RLXC_TEST_MODELS:-}" ] || models+=("$RLXC_TEST_MODELS"/tiny/*/model.onnx)
compilers=()
for cc in gcc clang; do command -v $cc > /dev/null && compilers+=($cc); done
# The standard headers of C++ are parsed once.
declare -A cxx=([gcc]="g++ -include $TMPDIR/std.hpp" [clang]="clang++ -include-pch $TMPDIR/std.pch")
printf '#include <%s>\n' cstddef cstdint map memory stdexcept string utility vector > "$TMPDIR/std.hpp"
for cc in "${compilers[@]}"; do
  if [ $cc = gcc ]; then pch=$TMPDIR/std.hpp.gch; else pch=$TMPDIR/std.pch; fi
  # shellcheck disable=SC2086
  ${cxx[$cc]%% *} -std=c++17 $warnings -x c++-header -o "$pch" "$TMPDIR/std.hpp" || exit 1
done
# Compiles every source of a package in its folder, where a compiler cache knows the files that packages share; warnings that need
# optimisation come from what is built at -O1.
check() {  # folder, optimisation
  local cc source header
  cd "$1" || exit 1
  for cc in "${compilers[@]}"; do
    for source in *.c; do
      # shellcheck disable=SC2086
      $cc -std=gnu11 $2 -march=native $warnings -c -o object.o "$source" > "$TMPDIR/log" 2>&1 ||
        { echo "FAIL $cc $1/$source"; head -8 "$TMPDIR/log"; fails=1; }
    done
    for header in *.hpp; do
      # shellcheck disable=SC2086
      ${cxx[$cc]} -std=c++17 $warnings -fsyntax-only -x c++ -include "$header" /dev/null > "$TMPDIR/log" 2>&1 ||
        { echo "FAIL $cc $1/$header"; head -8 "$TMPDIR/log"; fails=1; }
    done
  done
  cd "$OLDPWD" || exit 1
}
count=0
for model in "${models[@]}"; do
  name=$(basename "$(dirname "$model")")_$(basename "$model" | tr . _)
  optimisation=-O0 variants=("")
  [ "${model%%/*}" != examples ] || optimisation=-O1 variants=("" --hardened)
  for hardened in "${variants[@]}"; do
    # shellcheck disable=SC2086
    "$RLXC" compile "$model" $hardened --emit kernels -q -o "$TMPDIR/$name$hardened" > "$TMPDIR/log" 2>&1 ||
      { echo "FAIL $model: no package"; head -3 "$TMPDIR/log"; fails=1; continue; }
    check "$TMPDIR/$name$hardened/kernels/cpu" $optimisation
    count=$((count + 1))
    rm -rf "${TMPDIR:?}/$name$hardened"
  done
done
echo "$count packages"
exit $fails
