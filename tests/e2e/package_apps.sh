#!/bin/bash
# The programs of examples/apps build, run with plausible values, and agree with each other; so do the worked calls in the
# README of a package with sizes, in C, C++, Python and JavaScript.
set -uo pipefail
root=$PWD fails=0
fail() { echo "FAIL $*"; head -20 "$TMPDIR/log" 2> /dev/null; fails=1; }
export PYTHONDONTWRITEBYTECODE=1
cd "$TMPDIR" || exit 1
"$RLXC" compile "$root/examples/bert.onnx" --embed-weights --emit kernels -q -o bert || exit 1
"$RLXC" compile "$root/examples/mlp.json" --emit kernels --target cpu -q -o mlp || exit 1
bert=$TMPDIR/bert/kernels/cpu mlp=$TMPDIR/mlp/kernels/cpu warnings="-Wall -Wextra -Werror"

# Rows of softmax: 4 numbers above 0 whose sum is 1.
cat > rows.py <<'PY'
import sys
lines = [line.split("]")[-1].split() for line in sys.stdin if line.strip() and ("]" in line or len(line.split()) == 4)]
values = [[float(x) for x in line] for line in lines]
assert len(values) == 2, lines
for line in values:
    assert len(line) % 4 == 0 and line, line
    for i in range(0, len(line), 4):
        assert all(x > 0 for x in line[i:i + 4]) and abs(sum(line[i:i + 4]) - 1) < 1e-5, line
PY

cmake -S "$root/examples/apps/two_models" -B two -DBERT="$bert" -DMLP="$mlp" -DCMAKE_C_FLAGS="$warnings" > log 2>&1 &&
  cmake --build two >> log 2>&1 || fail "two models by CMake"
rm "$bert/bert.weights"  # it is within the library
{ two/two_models / "$mlp" > log 2>&1 && python3 rows.py < log; } || fail "two models"
if two/two_models / /nowhere > log 2>&1; then fail "a missing weights file passed"; fi
grep -q '^mlp: a weights file is missing' log || fail "the error of a missing weights file"

make -s -C "$mlp" CFLAGS="-O1 $warnings" > log 2>&1 || fail "make"
g++ -std=c++17 $warnings -I"$mlp" "$root/examples/apps/cpp/main.cpp" "$mlp/libmlp.a" -pthread -lm -o app > log 2>&1 || fail "C++"
./app "$mlp" > cpp.txt 2>&1 || { cp cpp.txt log; fail "the C++ program"; }
grep '^\[' cpp.txt | python3 rows.py > log 2>&1 || fail "values of the C++ program"
grep -q '^mlp: a null pointer' cpp.txt || fail "the error of the C++ program"
if python3 -c 'import numpy' 2> /dev/null; then
  PYTHONPATH=$mlp python3 "$root/examples/apps/python/app.py" > python.txt 2>&1 || { cp python.txt log; fail "the Python program"; }
  diff <(grep '^\[[0-9]' cpp.txt | sed 's/^[^]]*\]//') <(grep '^\[[0-9]' python.txt | sed 's/^[^]]*\]//') > log || fail "C++ and Python differ"
  grep -q 'x has the shape (2, 4), got (2, 5)' python.txt || { cp python.txt log; fail "the error of the Python program"; }
fi
if [ -n "${RLXC_WEBGPU:-}" ]; then
  "$RLXC" compile "$root/examples/mlp.json" --emit kernels --target wgpu -q -o web || exit 1
  node "$root/examples/apps/node/app.mjs" web/kernels/wgpu > node.txt 2>&1 || { cp node.txt log; fail "the Node program"; }
  grep '^\[[0-9]' node.txt | python3 rows.py > log 2>&1 || fail "values of the Node program"
  grep -q 'the input "x" is a Float32Array' node.txt || { cp node.txt log; fail "the error of the Node program"; }
fi

# Two packages of one name: neither runs in place of the other, so the program does not link.
"$RLXC" compile "$root/examples/mlp.json" --emit kernels --target cpu --precision f16 --name mlp -q -o half || exit 1
make -s -C half/kernels/cpu > log 2>&1 || fail "make of the second package"
printf '#include "mlp.h"\nint main(void) { return mlp_input(0) == 0; }\n' > first.c
printf '#include "mlp.h"\nconst mlp_tensor* second(void) { return mlp_input(0); }\n' > second.c
cc -c -I"$mlp" first.c && cc -c -Ihalf/kernels/cpu second.c || fail "headers of two packages"
cc first.o "$mlp/libmlp.a" -pthread -lm -o one > log 2>&1 || fail "one package"
if cc first.o second.o "$mlp/libmlp.a" half/kernels/cpu/libmlp.a -pthread -lm -o both 2> log; then fail "two packages of one name link"; fi

# The README's calls.
block() { awk -v open="\`\`\`$1" '$0 == open { on = 1; next } /^```/ { on = 0 } on' "$2"; }
cd "$mlp" || exit 1
log=$TMPDIR/log
block c README.md > example.c
{ cc $warnings example.c -I. libmlp.a -pthread -lm -o example && ./example; } > "$log" 2>&1 || fail "the README's C"
{ block cpp README.md | sed -n '/^#/p'; echo 'int main() {'; block cpp README.md | sed '/^#/d'; echo 'return outputs.size() == 1 ? 0 : 1; }'; } > example.cpp
{ g++ -std=c++17 $warnings example.cpp -I. libmlp.a -pthread -lm -o example && ./example; } > "$log" 2>&1 || fail "the README's C++"
block python README.md > example.py
if python3 -c 'import numpy' 2> /dev/null; then python3 example.py > "$log" 2>&1 || fail "the README's Python"; fi
if [ -n "${RLXC_WEBGPU:-}" ]; then
  cd "$TMPDIR/web/kernels/wgpu" || exit 1
  { echo "import { createRequire } from 'node:module'; const { create, globals } = await import(createRequire('$RLXC_WEBGPU/index.js').resolve('webgpu')); Object.assign(globalThis, globals);"
    block js README.md | sed 's/Model.load()/Model.load({ gpu: create([]) })/'; echo 'console.log(y.length, shape); process.exit(0);'; } > example.mjs
  node example.mjs > "$log" 2>&1 || fail "the README's JavaScript"
fi
exit $fails
