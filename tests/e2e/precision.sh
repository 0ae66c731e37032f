#!/bin/bash
# Every precision stays close to what PyTorch computed in f32, a custom map too, and a record of scales quantizes.
set -euo pipefail
same() { "$RLXC" run examples/bert.onnx --data examples/bert_data --engine=reference --verify --min-cosine "$@"; }
for precision in f32 f16 automixed automixed-conservative automixed-bf16; do
  same 0.9995 --precision $precision
done
cat > "$TMPDIR/map.json" << END
{"format": "rlxc-precision-map", "rules": {"contraction": "f16", "layer_norm": "f32", "movement": "bf16"}}
END
same 0.9995 --precision "custom:$TMPDIR/map.json"
sed -i 's/contraction/kontraction/' "$TMPDIR/map.json"
if same 0.9995 --precision "custom:$TMPDIR/map.json" 2> "$TMPDIR/log"; then
  echo "an unknown class must not pass"
  exit 1
fi
grep -q kontraction "$TMPDIR/log"

# The cpu kernels multiply f16 as f32 on every processor, and bf16 on some. GPUs multiply both.
compile() { "$RLXC" compile examples/bert.onnx --emit plan -o "$TMPDIR/out" "$@" 2>&1; }
compile --target cpu --precision automixed | grep -q 'RLX0111.*multiplies f16 as f32'
compile --target cpu --precision fp8-e4m3 | grep -q 'RLX0111.*multiplies f8e4m3fn as f32'
compile --target cpu --activations int8 | grep -q 'RLX0111.*no matmul has quantized weights'
compile --target cpu --cpu skylake-avx512 --precision automixed-bf16 | grep -q 'RLX0111.*multiplies bf16 as f32'
for flags in '--target cpu --cpu zen4 --precision automixed-bf16' '--target cuda --precision automixed' '--target cpu'; do
  # shellcheck disable=SC2086
  if compile $flags | grep RLX0111; then
    echo "$flags must not warn"
    exit 1
  fi
done
