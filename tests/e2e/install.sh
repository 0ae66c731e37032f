#!/bin/bash
# An installation has the program with its pages and completions, and the libraries that a program outside of the tree links.
set -uo pipefail
build=$(dirname "$(readlink -f "$RLXC")") root=$TMPDIR/root fails=0
fail() { echo "FAIL $*"; head -20 "$TMPDIR/log" 2>/dev/null; fails=1; }
[ -f "$build/cmake_install.cmake" ] || { echo "$RLXC is not in a build folder"; exit 77; }
cmake --install "$build" --prefix "$root" --component tool >"$TMPDIR/log" 2>&1 || fail "the program"
"$root/bin/rlxc" info examples/mlp.json >"$TMPDIR/log" 2>&1 || fail "the installed program does not run"
for file in share/man/man1/rlxc.1 share/man/man1/rlxc-compile.1 share/bash-completion/completions/rlxc share/zsh/vendor-completions/_rlxc \
  share/fish/vendor_completions.d/rlxc.fish share/doc/rlxc/docs/guide.md share/doc/rlxc/LICENSE; do
  [ -s "$root/$file" ] || fail "no $file"
done
[ "$(find "$root/share/man/man1" -name 'rlxc-*.1' | wc -l)" -eq "$("$RLXC" completion fish | grep -c __fish_use_subcommand)" ] || fail "a command has no page"
cmake --install "$build" --prefix "$root" --component development >"$TMPDIR/log" 2>&1 || fail "the libraries"
cmake -S examples/api -B "$TMPDIR/api" -DCMAKE_PREFIX_PATH="$root" >"$TMPDIR/log" 2>&1 && cmake --build "$TMPDIR/api" >>"$TMPDIR/log" 2>&1 || fail "the program outside of the tree"
"$TMPDIR/api/compile_model" examples/bert.onnx "$TMPDIR/out" >"$TMPDIR/log" 2>&1 || fail "it does not run"
grep -q '^Attention node_view_3: 8192 bytes in activations$' "$TMPDIR/log" && grep -q ' launches, arena 41024 bytes' "$TMPDIR/log" || fail "what it prints"
[ -s "$TMPDIR/out/lir.json" ] || fail "what it writes"
"$TMPDIR/api/compile_model" examples/none.onnx "$TMPDIR/out" >"$TMPDIR/log" 2>&1 && fail "a missing model"
exit $fails
