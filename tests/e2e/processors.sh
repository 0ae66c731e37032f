#!/bin/bash
# Integer matmuls in C are exact on every kind of processor that packages support: natively with compiler flags, or in qemu-user.
# The library of `make PORTABLE=1` is tested the same way.
set -uo pipefail
fails=0 ran=0
fail() { echo "FAIL $*"; fails=1; }
for python in python3 /usr/bin/python3 ""; do
  [ -n "$python" ] || { echo "python3-numpy is not installed"; exit 77; }
  "$python" -c 'import numpy' 2> /dev/null && break
done
"$python" tests/support/python/integer_model.py "$TMPDIR" || exit 1
"$RLXC" compile "$TMPDIR/integers.onnx" --name integers --embed-weights --emit kernels -q -o "$TMPDIR/out" || exit 1
"$RLXC" compile "$TMPDIR/integers.onnx" --cpu neoverse-v1 --name integers --embed-weights --emit kernels -q -o "$TMPDIR/matrices" || exit 1
package=$TMPDIR/out/kernels/cpu
inputs=("$TMPDIR"/in_*.bin)
build() {  # compiler, options, more of make
  make -s -C "$package" clean
  make -s -C "$package" run CC="$1" CFLAGS="-O1 $2" LDFLAGS=-static "${@:3}" > "$TMPDIR/log" 2>&1 ||
    { fail "build by $1 $*"; head -5 "$TMPDIR/log"; return 1; }
}
check() {  # name, command before the program
  local i
  (cd "$package" && rm -f output_*.bin && "${@:2}" ./run --threads 1 "${inputs[@]}") > "$TMPDIR/log" 2>&1 ||
    { fail "$1 does not run"; tail -5 "$TMPDIR/log"; return; }
  for i in "${!inputs[@]}"; do
    cmp -s "$package/output_$i.bin" "$TMPDIR/expected_$i.bin" || fail "$1: output $i differs"
  done
  ran=$((ran + 1))
}
has() { grep -qw "$1" /proc/cpuinfo; }

if [ "$(uname -m)" = x86_64 ]; then
  build gcc "-march=x86-64" && check "x86-64"
  build gcc "-march=x86-64-v3" && { if has avx2; then check "avx2"; elif command -v qemu-x86_64 > /dev/null; then check "avx2" qemu-x86_64 -cpu max; fi; }
  build gcc "-march=x86-64-v3 -mavxvnni" && has avx_vnni && check "avx-vnni"
  build gcc "-march=x86-64-v4" && has avx512bw && check "avx512"
  build gcc "-march=x86-64-v4 -mavx512vnni" && has avx512_vnni && check "avx512-vnni"
  if build gcc "" PORTABLE=1; then
    check "portable, here"
    if command -v qemu-x86_64 > /dev/null; then
      check "portable, x86-64-v2" qemu-x86_64 -cpu Nehalem
      check "portable, x86-64-v3" qemu-x86_64 -cpu Haswell
    fi
    printf '#include <stdio.h>\nextern const char* integers_level;\nint main(void) { return !puts(integers_level); }\n' > "$TMPDIR/level.c"
    gcc -static -o "$TMPDIR/level" "$TMPDIR/level.c" -Wl,--whole-archive "$package/libintegers.a" -Wl,--no-whole-archive -pthread -lm ||
      fail "the library of make PORTABLE=1 does not link"
    if command -v qemu-x86_64 > /dev/null; then
      [ "$(qemu-x86_64 -cpu Nehalem "$TMPDIR/level" 2> /dev/null)" = v2 ] || fail "another level than v2 on Nehalem"
      [ "$(qemu-x86_64 -cpu Haswell "$TMPDIR/level" 2> /dev/null)" = v3 ] || fail "another level than v3 on Haswell"
    fi
    if has avx512_vnni && has avx512bw; then [ "$("$TMPDIR/level")" = vnni ] || fail "another level than vnni here"; fi
  fi
fi
if command -v aarch64-linux-gnu-gcc > /dev/null && command -v qemu-aarch64 > /dev/null; then
  for form in armv8-a armv8.2-a+dotprod armv8.2-a+i8mm; do
    build aarch64-linux-gnu-gcc "-march=$form" && check "$form" qemu-aarch64 -cpu max
  done
  package=$TMPDIR/matrices/kernels/cpu
  for form in armv8-a armv8.2-a+i8mm; do
    build aarch64-linux-gnu-gcc "-march=$form" && check "matrix units, $form" qemu-aarch64 -cpu max
  done
else
  echo "no compiler or emulator for arm64"
fi
[ "$ran" -gt 0 ] || { echo "no processor that this test knows"; exit 77; }
exit $fails
