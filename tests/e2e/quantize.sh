#!/bin/bash
# A record made from samples quantizes the model: it runs on integers and stays close to f32. A record of another model is refused.
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

# Layers stay float until every output is close enough; the fewer the lower the accuracy. The record has the others.
layers() { grep -c "\"float\": $2" "$1" || true; }
"$RLXC" calibrate $model --data examples/bert_data --accuracy 0.9 -o "$TMPDIR/loose.json"
"$RLXC" calibrate $model --data examples/bert_data --accuracy 0.99999 -o "$TMPDIR/strict.json" 2> "$TMPDIR/log"
scripts/validate-json schemas/calibration.schema.json "$TMPDIR/strict.json"
[ "$(layers "$TMPDIR/loose.json" true)" -eq 0 ]
[ "$(layers "$TMPDIR/strict.json" true)" -gt 0 ] && [ "$(layers "$TMPDIR/strict.json" false)" -gt 0 ]
grep -q ' float$' "$TMPDIR/log"
"$RLXC" run $model --data examples/bert_data --engine=reference --calibration "$TMPDIR/strict.json" --min-cosine 0.99998
if "$RLXC" run $model --data examples/bert_data --engine=reference --calibration "$TMPDIR/minmax.json" --min-cosine 0.99998; then
  echo "the search had nothing to find"
  exit 1
fi
# A command judges the records instead; without one that is good, all layers stay float.
"$RLXC" calibrate $model --data examples/bert_data --symmetric --check "! grep -q '\"float\": true' $TMPDIR/own.json" -o "$TMPDIR/own.json"
[ "$(layers "$TMPDIR/own.json" true)" -eq 0 ]
"$RLXC" calibrate $model --data examples/bert_data --check false -o "$TMPDIR/none.json" 2> "$TMPDIR/log"
[ "$(layers "$TMPDIR/none.json" false)" -eq 0 ]
if "$RLXC" calibrate $model --random 1 --check true -o - > /dev/null 2> "$TMPDIR/log"; then
  echo "a check of standard output must not pass"
  exit 1
fi
grep -q 'needs an output file' "$TMPDIR/log"
# Weights alone: the record has the group size and the layers that stay float, which a type without a group size keeps.
"$RLXC" calibrate $model --data examples/bert_data --weights int4 --accuracy 0.9999 -o "$TMPDIR/int4.json"
grep -q '"weights": "int4:' "$TMPDIR/int4.json"
for flags in '' '--weights int4' '--weights int4:64' '--weights int8'; do
  # shellcheck disable=SC2086
  "$RLXC" inspect $model --calibration "$TMPDIR/int4.json" $flags > "$TMPDIR/int4$flags.txt"
done
cmp "$TMPDIR/int4.txt" "$TMPDIR/int4--weights int4.txt"
if cmp -s "$TMPDIR/int4.txt" "$TMPDIR/int4--weights int4:64.txt" || grep -q 'i4\[' "$TMPDIR/int4--weights int8.txt"; then
  echo "the flag must hold"
  exit 1
fi
"$RLXC" run $model --data examples/bert_data --calibration "$TMPDIR/int4.json" --weights int4 --min-cosine 0.9998
