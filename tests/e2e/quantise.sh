#!/bin/bash
# A record made from samples quantises the model: it runs on integers and stays close to f32. A record of another model is refused.
set -euo pipefail
model=examples/bert.onnx
for method in minmax percentile entropy mse; do
  "$RLXC" calibrate $model --data examples/bert_data --method $method -o "$TMPDIR/$method.json"
  scripts/validate-json schemas/calibration.schema.json "$TMPDIR/$method.json"
done
for method in minmax percentile; do
  "$RLXC" run $model --data examples/bert_data --engine=reference --calibration "$TMPDIR/$method.json" --verify --min-cosine 0.99
done
"$RLXC" run $model --data examples/bert_data --engine=kernels --calibration "$TMPDIR/minmax.json" --min-cosine 0.99
"$RLXC" inspect $model --calibration "$TMPDIR/minmax.json" > "$TMPDIR/lir.txt"
[ "$(grep -cE ' = (fused_)?q_matmul' "$TMPDIR/lir.txt")" -gt 3 ]
sed 's/"model": "/"model": "0/' "$TMPDIR/minmax.json" > "$TMPDIR/other.json"
if "$RLXC" inspect $model --calibration "$TMPDIR/other.json" > /dev/null 2> "$TMPDIR/log"; then
  echo "a record of another model must not pass"
  exit 1
fi
grep -q 'another model' "$TMPDIR/log"
