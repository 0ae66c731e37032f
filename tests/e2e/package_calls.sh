#!/bin/bash
# What a C package checks of its callers, under sanitizers; contexts in several threads; packages of several models in one program
# and one shared object; weights that belong to another model, and weights within the library; sizes that are missing; indices out of range.
set -uo pipefail
cd "$TMPDIR" || exit 1
source=$OLDPWD/tests/support/c fails=0
fail() { echo "FAIL $*"; fails=1; }
model() {  # of 0.5 in most places, or other weights
  cat <<IR
module "model" mir {
graph @main {
  %0 = input "x" : f32[batch,8]
  %1 = input "ids" : i64[batch]
  %2 = param {data = splat $1} "w" : f32[8,20]
  %3 = constant {data = dense [0, 1, 2, 3]} : f32[4,1]
  %4 = matmul(%0, %2) : f32[batch,20]
  %5 = gather(%3, %1) {axis = 0} : f32[batch,1]
  %6 = add(%4, %5) : f32[batch,20]
  %7 = non_zero(%1) : i64[1,kept]
  return %6 "y", %7 "kept"
}
}
IR
}
model 0.5 > half.rlx
model 0.25 > quarter.rlx
"$RLXC" compile half.rlx --name caller --emit kernels -q -o caller || exit 1
"$RLXC" compile quarter.rlx --name caller --emit kernels -q -o other || exit 1
"$RLXC" compile half.rlx --name caller --embed-weights --emit kernels -q -o embedded || exit 1
warnings="-Wall -Wextra -Werror"
for cc in gcc clang; do
  command -v $cc > /dev/null || continue
  make -s -B -C caller/kernels/cpu CC=$cc CFLAGS="-O1 -g $warnings -fsanitize=address,undefined -fno-sanitize-recover=all" libcaller.a > log 2>&1 ||
    { fail "build with $cc"; head -20 log; }
  $cc -std=c11 -g $warnings -fsanitize=address,undefined -fno-sanitize-recover=all -Icaller/kernels/cpu -o misuse "$source/misuse.c" \
    caller/kernels/cpu/libcaller.a -pthread -lm > log 2>&1 || { fail "misuse with $cc"; head -20 log; }
  ./misuse caller/kernels/cpu other/kernels/cpu > log 2>&1 || { fail "calls of the package of $cc"; head -20 log; }
done

# Threads.
cat > wide.rlx <<'IR'
module "wide" mir {
graph @main {
  %0 = input "x" : f32[64,256]
  %1 = param {data = splat 0.125} "w" : f32[256,256]
  %2 = matmul(%0, %1) : f32[64,256]
  %3 = tanh(%2) : f32[64,256]
  %4 = softmax(%3) {axis = 1} : f32[64,256]
  return %4 "y"
}
}
IR
"$RLXC" compile wide.rlx --emit kernels -q -o wide || exit 1
for sanitizer in thread address; do
  echo 'int main(void) { return 0; }' > empty.c
  { cc -fsanitize=$sanitizer -o empty empty.c && ./empty; } > /dev/null 2>&1 || { echo "no $sanitizer sanitizer here"; continue; }
  make -s -B -C wide/kernels/cpu CFLAGS="-O1 -g $warnings -fsanitize=$sanitizer" libwide.a > log 2>&1 || { fail "threads, $sanitizer"; head log; }
  cc -std=gnu11 -g $warnings -fsanitize=$sanitizer -Iwide/kernels/cpu -o threads "$source/two_threads.c" wide/kernels/cpu/libwide.a \
    -pthread -lm > log 2>&1 || { fail "threads, $sanitizer"; head log; }
  ./threads wide/kernels/cpu > log 2>&1 || { fail "threads, $sanitizer"; head -40 log; }
done

# Every symbol has the prefix; both models link, whole, into a program and into a shared object.
for name in caller wide; do
  make -s -B -C $name/kernels/cpu CFLAGS="-O1 $warnings" > log 2>&1 || { fail "build of $name"; head log; }
  for symbols in "nm -g --defined-only $name/kernels/cpu/lib$name.a" "nm -D --defined-only $name/kernels/cpu/lib$name.so"; do
    $symbols | awk 'NF == 3 { print $3 }' | grep -v "^${name}_" > foreign
    [ ! -s foreign ] || fail "symbols of $name: $(xargs < foreign)"
  done
done
cat > both.c <<'C'
#include <stdio.h>
#include "caller.h"
#include "wide.h"
int both(const char* first, const char* second);
int both(const char* first, const char* second) {
  int errors[2];
  caller_ctx* a = caller_create(first, NULL, &errors[0]);
  wide_ctx* b = wide_create(second, NULL, &errors[1]);
  printf("%s, %s; %zu bytes\n", caller_strerror(errors[0]), wide_strerror(errors[1]), wide_arena_size(b));
  caller_destroy(a), wide_destroy(b);
  return errors[0] || errors[1];
}
C
echo 'int both(const char*, const char*); int main(int n, char** v) { return n == 3 ? both(v[1], v[2]) : 2; }' > main.c
libraries="-Wl,--whole-archive caller/kernels/cpu/libcaller.a wide/kernels/cpu/libwide.a -Wl,--no-whole-archive -pthread -lm"
includes="-Icaller/kernels/cpu -Iwide/kernels/cpu"
# shellcheck disable=SC2086
{ cc $warnings -Wno-missing-prototypes -o both both.c main.c $includes $libraries && ./both caller/kernels/cpu wide/kernels/cpu &&
  cc -fPIC -shared -o libboth.so both.c $includes $libraries && cc -o shared main.c -L. -lboth -Wl,-rpath,. && ./shared caller/kernels/cpu wide/kernels/cpu; } \
  > log 2>&1 || { fail "two models"; head -20 log; }

# Weights within the library: nothing else is needed when it runs.
make -s -C embedded/kernels/cpu CFLAGS="-O1 $warnings" run > log 2>&1 || { fail "embedded weights"; head log; }
mkdir elsewhere && cp embedded/kernels/cpu/run elsewhere
head -c 64 /dev/zero > elsewhere/x.bin && head -c 16 /dev/zero > elsewhere/ids.bin
(cd elsewhere && ./run batch=2 x.bin ids.bin) > log 2>&1 || { fail "a program with its weights"; head log; }
grep -q '^output_0.bin \[2,20\]$' log || fail "outputs of a program with its weights: $(cat log)"

# The runner names sizes that are missing, wrong weights, and inputs of another size.
expect() {  # exit code, text, arguments
  local code=0
  caller/kernels/cpu/run "${@:3}" > log 2>&1 || code=$?
  if [ $code -ne "$1" ] || ! grep -qF -- "$2" log; then fail "run ${*:3}: exit code $code, not $1, or no '$2':"; head -5 log; fi
}
expect 64 'the size batch is missing' -w caller/kernels/cpu elsewhere/x.bin elsewhere/ids.bin
expect 64 'batch=N INPUT_0 INPUT_1' -w caller/kernels/cpu batch=2 elsewhere/x.bin
expect 64 'not a size' -w caller/kernels/cpu batch=two elsewhere/x.bin elsewhere/ids.bin
expect 66 'its size is not 96 bytes' -w caller/kernels/cpu batch=3 elsewhere/x.bin elsewhere/ids.bin
expect 2 'a weights file is missing or too short' -w /nowhere batch=2 elsewhere/x.bin elsewhere/ids.bin
expect 7 'a weights file belongs to another model' -w other/kernels/cpu batch=2 elsewhere/x.bin elsewhere/ids.bin
expect 0 'output_0.bin [2,20]' -w caller/kernels/cpu batch=2 elsewhere/x.bin elsewhere/ids.bin

# Indices that the inputs give are clamped; hardened packages refuse them.
"$RLXC" compile half.rlx --name caller --hardened --emit kernels -q -o hardened || exit 1
make -s -C hardened/kernels/cpu CFLAGS="-O1 $warnings -fsanitize=address,undefined -fno-sanitize-recover=all" run > log 2>&1 || { fail "hardened"; head log; }
while read -r indices clamped checked; do
  # shellcheck disable=SC2059
  printf "$indices" > elsewhere/indices.bin
  for kind in "caller $clamped" "hardened $checked"; do
    code=0
    ASAN_OPTIONS=detect_leaks=0 "${kind% *}/kernels/cpu/run" -w caller/kernels/cpu batch=2 elsewhere/x.bin elsewhere/indices.bin > log 2>&1 || code=$?
    [ $code -eq "${kind#* }" ] || { fail "indices $indices of ${kind% *}: exit code $code"; head -5 log; }
  done
done <<'END'
\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 0 0
\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0 0 9
\0\0\0\0\0\0\0\0\374\377\377\377\377\377\377\377 0 0
\0\0\0\0\0\0\0\0\373\377\377\377\377\377\377\377 0 9
\0\0\0\0\0\0\0\200\377\377\377\377\377\377\377\177 0 9
END

# The same of indices whose shape is fixed.
cat > fixed.rlx <<'END'
module "g" mir {
graph @main {
  %0 = input "x" : f32[5,3]
  %1 = input "i" : i64[2]
  %2 = gather(%0, %1) {axis = 0} : f32[2,3]
  return %2 "y"
}
}
END
head -c 60 /dev/zero > elsewhere/rows.bin
"$RLXC" compile fixed.rlx --name fixed --hardened --emit kernels -q -o fixed || exit 1
make -s -C fixed/kernels/cpu run > log 2>&1 || { fail "fixed"; head log; }
for index in 4:0 7:9; do
  # shellcheck disable=SC2059
  printf "\\${index%:*}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" > elsewhere/indices.bin
  code=0
  fixed/kernels/cpu/run -w fixed/kernels/cpu elsewhere/rows.bin elsewhere/indices.bin > log 2>&1 || code=$?
  [ $code -eq "${index#*:}" ] || { fail "index ${index%:*} of a fixed shape: exit code $code"; head -5 log; }
done

# Names.
for name in 3d a-b main std_model 'x y' 'x;y'; do
  code=0
  "$RLXC" compile half.rlx --name "$name" -q -o named > log 2>&1 || code=$?
  [ $code -eq 2 ] || fail "--name $name: exit code $code"
done
exit $fails
