#!/bin/bash
# Models of RLXC_TEST_MODELS/tiny, calibrated on random samples, run on integers and stay close to f32 on data they have not seen;
# one that carries its own quantization runs as it is written. Queries, keys and values of a layer are one product.
set -uo pipefail
[ -d "${RLXC_TEST_MODELS:-}/tiny" ] || { echo "RLXC_TEST_MODELS is not set"; exit 77; }
fails=0
while read -r model operation count; do
  folder=$RLXC_TEST_MODELS/tiny/$model
  "$RLXC" calibrate "$folder/model.onnx" --random 8 -o "$TMPDIR/$model.json" || fails=1
  "$RLXC" run "$folder/model.onnx" --data "$folder" --calibration "$TMPDIR/$model.json" --engine=kernels --min-cosine 0.99 || fails=1
  found=$("$RLXC" inspect "$folder/model.onnx" --calibration "$TMPDIR/$model.json" | grep -cE " = (fused_)?$operation")
  [ "$found" -ge "$count" ] || { echo "FAIL $model: $found of $count products run on integers"; fails=1; }
done <<END
resnet_hf q_conv 14
mobilenet_v2_hf q_conv 52
bert q_matmul 8
END
folder=$RLXC_TEST_MODELS/tiny/custom_quant_qdq_cnn
"$RLXC" run "$folder/model.onnx" --data "$folder" --engine=kernels --rtol 0 --atol 1e-6 || fails=1
exit $fails
