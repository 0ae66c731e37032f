#!/bin/bash
# Names of a model that would be code, or end a comment or a string, where they are printed: every artefact of every target is read
# by its own tool, and packages compute what the model says. Graph names that packages use themselves are no fault either.
set -uo pipefail
export PYTHONPATH=$PWD/tests/support/python PYTHONDONTWRITEBYTECODE=1 RLXC_STABLEHLO=$PWD/tests/support/python/run_stablehlo.py
fails=0
fail() { echo "FAIL $*"; fails=1; }
mkdir "$TMPDIR/models" "$TMPDIR/out"
python3 tests/support/python/hostile_names.py models "$TMPDIR/models" || exit 1
# Programs of tpu have static sizes.
model_for() { if [ "$1" = tpu ]; then echo "$TMPDIR/models/static.onnx"; else echo "$TMPDIR/models/everywhere.onnx"; fi; }
for target in cpu metal mlx wgpu cuda rocm tpu; do
  "$RLXC" compile "$(model_for $target)" --target $target --dump -o "$TMPDIR/out/$target" > "$TMPDIR/out/$target.txt" 2>&1 ||
    { fail "compile for $target"; tail -3 "$TMPDIR/out/$target.txt"; }
done
python3 tests/support/python/hostile_names.py check "$TMPDIR/out" || fails=1

# Whatever trigraphs and comments do, the package builds without a warning.
package=$TMPDIR/out/cpu/kernels/cpu
for source in "$package"/*.c; do
  cc -std=gnu11 -trigraphs -Wall -Werror -Wno-psabi -fsyntax-only -march=native "$source" > "$TMPDIR/log" 2>&1 ||
    { fail "$(basename "$source") with trigraphs"; head -5 "$TMPDIR/log"; }
done
for script in "$TMPDIR"/out/wgpu/kernels/wgpu/*.mjs; do
  command -v node > /dev/null && { node --check "$script" || fail "$script"; }
done
for target in cpu metal cuda rocm mlx tpu ${RLXC_WEBGPU:+wgpu}; do
  "$RLXC" run "$(model_for $target)" --random --target $target --rtol 1e-3 --atol 1e-4 > "$TMPDIR/log" 2>&1 ||
    { fail "run on $target"; tail -5 "$TMPDIR/log" | cut -c1-300; }
done

for model in "$TMPDIR"/models/graph_*.onnx; do
  out=$TMPDIR/out_$(basename "$model" .onnx)
  "$RLXC" compile "$model" --emit kernels -q -o "$out" || { fail "compile $model"; continue; }
  make -s -C "$out/kernels/cpu" CFLAGS=-O0 > "$TMPDIR/log" 2>&1 || { fail "make of $model"; head -5 "$TMPDIR/log"; continue; }
  head -c 32 /dev/zero > "$out/x.bin"
  (cd "$out" && kernels/cpu/run -w kernels/cpu x.bin) > "$TMPDIR/log" 2>&1 || { fail "the program of $model"; cat "$TMPDIR/log"; }
  for target in metal tpu; do
    "$RLXC" run "$model" --random --target $target > "$TMPDIR/log" 2>&1 || { fail "$model on $target"; tail -3 "$TMPDIR/log"; }
  done
done

# Errors are lines of their own, without control characters.
"$RLXC" compile "$TMPDIR/models/refused.onnx" -o "$TMPDIR/refused" > "$TMPDIR/refused.txt" 2>&1 && fail "an unknown operator"
"$RLXC" check "$TMPDIR/models/refused.onnx" --target cpu >> "$TMPDIR/refused.txt" 2>&1
mkdir "$TMPDIR/said" && mv "$TMPDIR/refused.txt" "$TMPDIR/said"
python3 tests/support/python/hostile_names.py check "$TMPDIR/said" || fails=1
exit $fails
