#!/bin/bash
# ONNX's own backend cases: all of them with the reference engine; with kernels those that are not functions written out again.
# What is known not to pass is listed with its reason.
set -euo pipefail
data=/usr/include/onnx/backend/test/data
[ -d "$data/node" ] || { echo "needs Debian's libonnx-testdata"; exit 77; }
suite=${RLXC_BUILD:-build}/onnx_suite
[ -x "$suite" ] || suite=$(dirname "$RLXC")/onnx_suite
[ -x "$suite" ] || { echo "onnx_suite is not built"; exit 77; }
RLXC_BUILD=$(dirname "$suite") scripts/onnx-suite --engine=reference
mapfile -t cases < <(find "$data/node" "$data/pytorch-operator" "$data/simple" -mindepth 1 -maxdepth 1 -not -name '*_expanded')
"$suite" --engine=kernels --expected-failures tests/onnx/expected.txt "${cases[@]}"
