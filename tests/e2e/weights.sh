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
grep -q '"pattern": "quantized_weights"' "$TMPDIR/int8/fusion.json"

# Weights that stay as they are, one for each reason, and a checker that finds the same ones.
cat > "$TMPDIR/asked.txt" <<END
module "asked" mir {
graph @main {
  %0 = input "x" : f32[4,40]
  %1 = input "t" : f32[40,4]
  %2 = constant {data = splat 0.5} : f32[40,40]
  %3 = constant {data = splat 0.25} : f32[40,40]
  %4 = constant {data = splat 1.0} : f32[8,8]
  %5 = constant {data = splat inf} : f32[40,40]
  %6 = param "unknown" : f32[40,40]
  %7 = matmul(%0, %2) "kept" : f32[4,40]
  %8 = matmul(%1, %3) {trans_a = true} "transposed" : f32[4,40]
  %9 = narrow(%7) {axis = 1, start = 0, len = 8} : f32[4,8]
  %10 = matmul(%9, %4) "few" : f32[4,8]
  %11 = matmul(%7, %5) "infinite" : f32[4,40]
  %12 = matmul(%7, %6) "nameless" : f32[4,40]
  %13 = mul(%6, %6) "square" : f32[40,40]
  %14 = matmul(%8, %13) "computed" : f32[4,40]
  %15 = param "codes" : i16[40,40]
  %16 = constant {data = splat 0.5} : f32[]
  %17 = dequantize(%15, %16) {to = "f32"} : f32[40,40]
  %18 = matmul(%7, %17) "has codes" : f32[4,40]
  return %10 "a", %11 "b", %12 "c", %14 "d", %18 "e"
}
}
END
cat > "$TMPDIR/brought.txt" <<END
module "brought" mir {
graph @main {
  %0 = input "x" : f32[4,40]
  %1 = input "t" : f32[40,4]
  %2 = param "q" : i8[40,40]
  %3 = param "wide" : i16[40,40]
  %4 = constant {data = splat 0.5} : f32[]
  %5 = param "blocks" : f32[40,4]
  %6 = dequantize(%2, %4) {to = "f32"} : f32[40,40]
  %7 = dequantize(%3, %4) {to = "f32"} : f32[40,40]
  %8 = dequantize(%2, %5) {to = "f32", axis = 1, block = 10} : f32[40,40]
  %9 = matmul(%0, %6) "kept" : f32[4,40]
  %10 = matmul(%1, %6) {trans_a = true} "transposed" : f32[4,40]
  %11 = matmul(%0, %7) "wide" : f32[4,40]
  %12 = matmul(%0, %8) "across" : f32[4,40]
  return %9 "a", %10 "b", %11 "c", %12 "d"
}
}
END
"$RLXC" compile "$TMPDIR/asked.txt" --weights int8 --emit fusion,lir -q -o "$TMPDIR/asked"
"$RLXC" compile "$TMPDIR/asked.txt" --weights int8 --target mlx --emit fusion,lir -q -o "$TMPDIR/asked_mlx"
"$RLXC" compile "$TMPDIR/brought.txt" --emit fusion,lir -q -o "$TMPDIR/brought"
reasons() { sed -n 's/^  quantized_weights: \([a-z_]*\), [12] times*$/\1/p' "$TMPDIR/$1/fusion.txt" | sort | xargs; }
[ "$(reasons asked)" = "already_quantized layout no_contents not_finite small wide_values" ] || { echo "weights asked for: $(reasons asked)"; exit 1; }
[ "$(reasons brought)" = "layout scale_per_column_block wide_values" ] || { echo "weights brought: $(reasons brought)"; exit 1; }
scripts/check-fusion "$TMPDIR"/asked "$TMPDIR"/asked_mlx "$TMPDIR"/brought
