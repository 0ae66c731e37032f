#!/bin/bash
# ONNX's own backend cases: all of them with the reference engine, every pass checked by evaluation on random inputs, which a few
# cases refuse; with kernels those that are not functions written out again. What is known not to pass is listed with its reason.
# Then, with kernels, the models of the importer's tests.
set -euo pipefail
data=/usr/include/onnx/backend/test/data
[ -d "$data/node" ] || { echo "needs Debian's libonnx-testdata"; exit 77; }
build=${RLXC_BUILD:-build}
[ -x "$build/onnx_suite" ] || build=$(dirname "$RLXC")
[ -x "$build/onnx_suite" ] || { echo "onnx_suite is not built"; exit 77; }
RLXC_BUILD=$build scripts/onnx-suite --engine=reference --verify-each
names=$(awk '$2 == "verify-each" { print $1 }' tests/onnx/expected.txt | sort -u)
mapfile -t refused < <(find -H "$data" -mindepth 2 -maxdepth 2 | grep -wF "$names")
"$build/onnx_suite" --engine=reference --expected-failures tests/onnx/expected.txt "${refused[@]}"
mapfile -t cases < <(find "$data/node" "$data/pytorch-operator" "$data/simple" -mindepth 1 -maxdepth 1 -not -name '*_expanded')
"$build/onnx_suite" --engine=kernels --seconds 240 --expected-failures tests/onnx/expected.txt "${cases[@]}"
# Data-dependent dims, with kernels for lanes.
mapfile -t sized < <(printf '%s\n' "${cases[@]}" | grep -E '_(compress|loop|nonmaxsuppression|nonzero|range|unique)')
"$build/onnx_suite" --engine=interpreter --target cuda --expected-failures tests/onnx/expected.txt --allow-skips "${sized[@]}"
RLXC_KEEP_CASES=$TMPDIR/cases "$build/rlxc_tests" -sf='*lib/import*' > "$TMPDIR/log"
"$build/onnx_suite" --engine=kernels --seconds 240 --rtol 1e-3 --atol 1e-5 "$TMPDIR/cases"
# Integer operators of com.microsoft, with the kernels of every target.
RLXC_KEEP_CASES=$TMPDIR/integers "$build/rlxc_tests" -tc='integer products and sums*,transposed convolutions of integers*' > "$TMPDIR/log"
for target in cpu cuda metal rocm wgpu; do
  "$build/onnx_suite" --engine=interpreter --target "$target" --rtol 1e-3 --atol 1e-5 "$TMPDIR/integers"
done
