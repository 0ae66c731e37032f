#!/bin/bash
# The example model computes what PyTorch computed, with both engines; mixed precision stays close.
set -euo pipefail
for engine in reference kernels; do
  "$RLXC" run examples/bert.onnx --data examples/bert_data --engine=$engine --rtol 1e-3 --atol 1e-4
done
"$RLXC" run examples/bert.onnx --data examples/bert_data --engine=kernels --precision automixed --min-cosine 0.999
if "$RLXC" run examples/bert.onnx --data examples/bert_data --engine=reference --rtol 0 --atol 0; then
  echo "no tolerance must not pass"
  exit 1
fi
