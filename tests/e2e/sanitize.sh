#!/bin/bash
# Under the address and undefined-behaviour sanitizers. RLXC_TEST_SANITIZE=readers: the rooms that read files, their unit tests, the
# hostile files through commands that read, and a moment of each form of scripts/fuzz; some seven minutes of a processor to build.
# One more room is compiled file by file as scripts/sanitize does it, by clang; each commit takes the next room.
# RLXC_TEST_SANITIZE=1: everything, all unit tests, and a moment of each fuzzer; the build takes longer than all other tests.
set -uo pipefail
[ -n "${RLXC_TEST_SANITIZE:-}" ] || { echo "RLXC_TEST_SANITIZE is not set"; exit 77; }
unset RLXC_TEST_MODELS RLXC_WEBGPU
if [ "$RLXC_TEST_SANITIZE" != readers ]; then
  scripts/sanitize || exit 1
  scripts/fuzz "${RLXC_TEST_FUZZ_SECONDS:-15}"
  exit
fi
scripts/build rlxc_sanitized rlxc_tests_sanitized || exit 1
# A compile leaves its module to the end of the process. Signals are reported by the sanitizers, not by rlxc.
export ASAN_OPTIONS=detect_leaks=0:exitcode=99:handle_segv=2:handle_sigbus=2:handle_abort=2:handle_sigfpe=2:handle_sigill=2
export UBSAN_OPTIONS=print_stacktrace=1
tests='*lib/support/*,*lib/options/*,*lib/ir/*,*lib/import/*,*lib/driver/op_file*,*lib/driver/rule_file*,*lib/driver/load*,*lib/runtime/npy*'
build/rlxc_tests_sanitized -sf="$tests" --no-colors=true -m </dev/null >"$TMPDIR/log" 2>&1 ||
  { grep -a -m 12 -E 'ERROR: |runtime error|error:|FAIL|^ +#[0-9]+ .*lib/' "$TMPDIR/log"; exit 1; }
fails=0
limited() { (ulimit -t 60 && timeout 600 build/rlxc_sanitized "$@") >"$TMPDIR/log" 2>&1 </dev/null; }  # seconds of the processor
for file in tests/hostile/*.onnx tests/hostile/*.json tests/hostile/*.gguf; do
  for command in "check --target cpu" "inspect --stage hir" "run --random --engine reference" "compile --emit lir -o -"; do
    read -ra arguments <<<"$command"
    limited "${arguments[0]}" "$file" "${arguments[@]:1}" --max-operations 10000000
    status=$?
    [ $status -le 7 ] && continue
    echo "$command of $file: exit code $status"
    grep -a -m 6 -E 'ERROR: |runtime error|internal error|^ +#[0-9]+ .*(lib|apps)/' "$TMPDIR/log"
    fails=1
  done
done
mapfile -t rooms < <(sed -n 's/^rlxc_room(\([a-z]*\).*/\1/p' CMakeLists.txt)
room=${rooms[$(($(git rev-list --count HEAD) % ${#rooms[@]}))]}
RLXC_UNITY=OFF scripts/sanitize room "$room" >"$TMPDIR/log" 2>&1 || { echo "$room does not build with clang"; grep -m 5 error "$TMPDIR/log"; fails=1; }
READERS=1 COUNT=50000 scripts/fuzz "${RLXC_TEST_FUZZ_SECONDS:-5}" || fails=1
exit $fails
