#!/bin/bash
# Weights of products in fewer bits: the model stays close to f32, the package's weights get as small as that, and each is accounted for.
set -euo pipefail
model=examples/bert.onnx
while read -r weights cosine; do
  for engine in reference kernels; do
    "$RLXC" run $model --data examples/bert_data --engine=$engine --weights "$weights" --min-cosine "$cosine"
  done
done <<END
int8 0.9995
int8:16 0.9995
int4:8 0.99
fp8-e4m3 0.999
fp8-e5m2 0.99
END
for precision in fp8-e4m3 fp8-e5m2 mxfp8-e4m3 mxfp8-e5m2; do
  "$RLXC" run $model --data examples/bert_data --engine=kernels --precision $precision --min-cosine 0.98
done
"$RLXC" compile $model -q -o "$TMPDIR/f32"
"$RLXC" compile $model -q --weights int8 -o "$TMPDIR/int8"
"$RLXC" compile $model -q --precision mxfp8-e4m3 -o "$TMPDIR/fp8"
size() { stat -c %s "$TMPDIR/$1"/kernels/cpu/*.weights; }
[ "$(size int8)" -lt $(($(size f32) / 2)) ] || { echo "weights of $(size int8) bytes, of $(size f32) as f32"; exit 1; }
for folder in "$TMPDIR/int8" "$TMPDIR/fp8"; do
  scripts/validate-json schemas/precision.schema.json "$folder/precision.json"
  scripts/validate-json schemas/quant.schema.json "$folder/quant.json"
done
grep -q '"reason": "operand of' "$TMPDIR/fp8/precision.json"
grep -q '"to": "i8", "source": "weight, one scale for each column, error' "$TMPDIR/int8/quant.json"
grep -q '"pattern": "weight_codes"' "$TMPDIR/int8/fusion.json"
