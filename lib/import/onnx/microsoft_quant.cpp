// Quantised operators of com.microsoft: dequantize, compute, quantize; or exact integer matmuls with scales.
#include <array>

#include "import/compose/packed.h"
#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "import/onnx/quantised.h"

namespace rlxc::onnx_import {
namespace {

ValueId dequantised(Op& op, size_t x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{op.in(x), op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.dtype(scale);
  return op.b.create(OpKind::Dequantize, operands, a);
}

ValueId quantised(Op& op, ValueId x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{x, op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.has(zero) ? op.dtype(zero) : DType::U8;
  return op.b.create(OpKind::Quantize, operands, a);
}

// [N,...,C] <-> [N,C,...].
ValueId channels_first(Op& op, ValueId x) {
  std::vector<int64_t> perm{0, op.graph().rank(x) - 1};
  for (int64_t i = 1; i + 1 < op.graph().rank(x); ++i) perm.push_back(i);
  return op.b.transpose(x, std::move(perm));
}
ValueId channels_last(Op& op, ValueId x) {
  std::vector<int64_t> perm{0};
  for (int64_t i = 2; i < op.graph().rank(x); ++i) perm.push_back(i);
  perm.push_back(1);
  return op.b.transpose(x, std::move(perm));
}

ValueId plus(Op& op, ValueId y, size_t bias) { return op.has(bias) ? op.b.add(y, op.in(bias)) : y; }

// Reinterprets byte rows as [n, k] of `width` bits. Returns an invalid value if the contents are not constant.
ValueId quantized_values(Op& op, int64_t n, int64_t k, int64_t width) {
  if (width == 8) return op.b.reshape(op.in(1), {Dim(n), Dim(k)});
  const TensorData* given = op.tensor(1);
  if (!given || given->splat) return {};
  TensorData d = *given;
  d.dtype = width == 4 ? DType::U4 : DType::U2, d.dims = {n, k};
  return op.b.constant(std::move(d));
}

bool matrices(Op& op, size_t a, size_t b) { return (op.rank(a) >= 2 && op.rank(b) >= 2) || op.unsupported("operands of rank 1"); }

}  // namespace

// Operands: x [...,K], w u8 [N, blocks, block*bits/8], scales [N*blocks], zero points (packed the same way, or numbers; default:
// the middle of the range), the block of each of the K inputs, bias.
void matmul_n_bits(Op& op) {
  const int64_t k = op.i("K", 0), n = op.i("N", 0), width = op.i("bits", 4), block = op.i("block_size", 0);
  // The lowest precision allowed for x; 4 allows 8 bits. x is not rounded where the weight is dequantized.
  const int64_t level = op.i("accuracy_level", 0);
  if (level < 0 || level > 4) return (void)op.fail(Code::BadAttribute, "accuracy_level must be between 0 and 4");
  if (width != 2 && width != 4 && width != 8) return (void)op.unsupported("bits must be 2, 4 or 8");
  if (k < 1 || n < 1 || block < 16 || k > 1 << 28 || n > 1 << 28 || block > 1 << 20 || op.dtype(1) != DType::U8)
    return (void)op.fail(Code::BadAttribute, "K, N or block_size are out of range");
  const int64_t blocks = (k + block - 1) / block, fields = 8 / width;
  Builder& b = op.b;
  const DType t = op.dtype(0);
  // Rows of packed bytes -> [N, count] bytes.
  const auto bytes = [&](size_t i, int64_t count) {
    const int64_t packed = (count + fields - 1) / fields;
    const ValueId all = compose::unpack_bits(b, b.reshape(op.in(i), {Dim(n), Dim(packed)}), static_cast<int>(width));
    return packed * fields == count ? all : b.narrow(all, 1, Dim(0), Dim(count));
  };
  const auto unpacked = [&](size_t i, int64_t count) { return b.cast(bytes(i, count), t); };
  const Dim rows(n), columns(blocks);
  if (const ValueId w = op.has(4) || blocks * block != k ? ValueId() : quantized_values(op, n, k, width); w.valid()) {
    ValueId point = b.constant(make_data(DType::U8, {1, 1}, std::vector<uint8_t>{static_cast<uint8_t>(1 << (width - 1))}));
    if (op.has(3))
      point = op.dtype(3) == DType::U8 ? bytes(3, blocks) : b.reshape(b.cast(op.in(3), op.dtype(2)), {rows, columns});
    const ValueId y = b.create(OpKind::DequantMatMul, {op.in(0), w, b.reshape(op.in(2), {rows, columns}), point},
                               DequantMatMulAttrs{.trans_b = true, .block = block, .act = {}, .int8_x = level == 4});
    return op.set(0, plus(op, y, 5));
  }
  ValueId q = b.reshape(unpacked(1, blocks * block), {rows, columns, Dim(block)});
  ValueId scale = b.reshape(b.cast(op.in(2), t), {rows, columns, Dim(1)}),
          zero = b.scalar(t, static_cast<double>(1 << (width - 1)));
  if (op.has(3)) zero = b.reshape(op.dtype(3) == DType::U8 ? unpacked(3, blocks) : b.cast(op.in(3), t), {rows, columns, Dim(1)});
  if (op.has(4)) {
    const ValueId at = b.narrow(b.cast(op.in(4), DType::I64), 0, Dim(0), Dim(k));
    const auto of_input = [&](ValueId v) { return b.create(OpKind::Gather, {b.reshape(v, {rows, columns}), at}, AxisAttrs{1}); };
    q = b.narrow(b.reshape(q, {rows, Dim(blocks * block)}), 1, Dim(0), Dim(k));
    scale = of_input(scale);
    if (op.has(3)) zero = of_input(zero);
  }
  ValueId w = b.mul(b.sub(q, zero), scale);
  if (!op.has(4)) {
    w = b.reshape(w, {rows, Dim(blocks * block)});
    if (blocks * block != k) w = b.narrow(w, 1, Dim(0), Dim(k));
  }
  op.set(0, plus(op, b.matmul(op.in(0), w, false, true), 5));
}

// Operands: data (4 or 8 bits, blocks along one axis), indices, scales, zero points.
void gather_block_quantized(Op& op) {
  const auto gathered = op.axis(op.i("gather_axis", 0), op.rank(0)), blocked = op.axis(op.i("quantize_axis", 1), op.rank(0));
  const int64_t width = op.i("bits", 4), block = op.i("block_size", 128);
  if (!gathered || !blocked) return;
  if ((width != 4 && width != 8) || block < 16 || block > 1 << 20)
    return (void)op.fail(Code::BadAttribute, "bits or block_size are out of range");
  Builder& b = op.b;
  const DType t = op.dtype(2);
  const bool bytes = op.dtype(0) == DType::U8;
  if (bytes && width == 4 && *blocked != op.rank(0) - 1) return (void)op.unsupported("bytes of two numbers along another axis");
  const auto numbers = [&](size_t i) {
    const ValueId x = op.in(i);
    return bytes && width == 4 ? compose::unpack_bits(b, x, 4) : x;
  };
  QuantAttrs a;
  a.axis = *blocked, a.block = block, a.to = t;
  const ValueId q = numbers(0), scale = op.in(2);
  if (!q.valid()) return;
  ValueId zero = op.has(3) ? numbers(3) : ValueId();
  if (op.has(3)) {  // an odd number of blocks leaves half a byte unused
    const Dim count = op.sizes(2)[static_cast<size_t>(*blocked)];
    if (zero.valid() && !op.dims().equal(op.graph().dims(zero)[static_cast<size_t>(*blocked)], count))
      zero = b.narrow(zero, *blocked, Dim(0), count);
  } else if (bytes) {
    zero = b.expand(b.scalar(DType::U8, static_cast<double>(1 << (width - 1))), op.sizes(2));
  }
  std::vector<ValueId> operands{q, scale};
  if (zero.valid()) operands.push_back(zero);
  op.set(0, b.create(OpKind::Gather, {b.create(OpKind::Dequantize, operands, a), op.in(1)}, AxisAttrs{*gathered}));
}

// Operands: integers a and b, their scales, zero points, bias.
void matmul_integer_to_float(Op& op) {
  if (!matrices(op, 0, 1)) return;
  const ValueId sums = op.b.create(OpKind::QMatMul, {op.in(0), op.in(1), scalar_or_vector(op, 4), scalar_or_vector(op, 5)});
  const ValueId scaled = op.b.mul(op.b.cast(sums, op.dtype(2)), scalar_or_vector(op, 2));
  op.set(0, plus(op, op.b.mul(scaled, scalar_or_vector(op, 3)), 6));
}

// Operands: a, which is quantised as by DynamicQuantizeLinear; b, its scale, its zero point, bias.
void dynamic_quantize_matmul(Op& op) {
  if (!matrices(op, 0, 1)) return;
  const auto [q, scale, point] = dynamically_quantised(op, op.in(0));
  const ValueId sums = op.b.create(OpKind::QMatMul, {q, op.in(1), point, scalar_or_vector(op, 3)});
  const ValueId scaled = op.b.mul(op.b.cast(sums, op.dtype(2)), scale);
  op.set(0, plus(op, op.b.mul(scaled, scalar_or_vector(op, 2)), 4));
}

// Operands: a, scale, zero point, b, scale, zero point, c (i32, in units of the sums), scale and zero point of the result
// (absent: a float result).
void q_gemm(Op& op) {
  if (!matrices(op, 0, 3)) return;
  const ValueId a = op.i("transA", 0) != 0 ? op.b.transpose(op.in(0), {1, 0}) : op.in(0),
                b = op.i("transB", 0) != 0 ? op.b.transpose(op.in(3), {1, 0}) : op.in(3);
  const ValueId sums = plus(op, op.b.create(OpKind::QMatMul, {a, b, scalar_or_vector(op, 2), scalar_or_vector(op, 5)}), 6);
  const ValueId scale = op.b.mul(scalar_or_vector(op, 1), scalar_or_vector(op, 4));
  const ValueId unit = op.b.mul(scale, op.b.scalar(op.dtype(1), op.f("alpha", 1)));
  const ValueId y = op.b.mul(op.b.cast(sums, op.dtype(1)), unit);
  op.set(0, op.has(7) ? quantised(op, y, 7, 8) : y);
}

// Operands: a, zero point, b, zero point. The result is i32.
void mul_integer(Op& op) {
  const auto centred = [&](size_t i, size_t zero) {
    const ValueId x = op.b.cast(op.in(i), DType::I32);
    return op.has(zero) ? op.b.sub(x, op.b.cast(op.b.reshape(op.in(zero), {}), DType::I32)) : x;
  };
  op.set(0, op.b.mul(centred(0, 1), centred(2, 3)));
}

// One or two operands with their scales and zero points, then those of the result.
void qlinear_elementwise(Op& op) {
  const bool binary = has_trait(op.row.kind, kBinary);
  const ValueId a = dequantised(op, 0, 1, 2);
  if (binary) return op.set(0, quantised(op, op.b.create(op.row.kind, {a, dequantised(op, 3, 4, 5)}), 6, 7));
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op.row.kind)))
    return op.set(0, quantised(op, op.b.create(op.row.kind, {a}, AlphaBetaAttrs{op.f("alpha", op.row.alpha), 0}), 3, 4));
  op.set(0, quantised(op, op.b.unary(op.row.kind, a), 3, 4));
}

void qlinear_where(Op& op) {
  const ValueId a = dequantised(op, 1, 2, 3), b = dequantised(op, 4, 5, 6);
  op.set(0, quantised(op, op.b.create(OpKind::Where, {op.in(0), a, b}), 7, 8));
}

// Scale and zero point of the result, then each operand with its scale and zero point.
void qlinear_concat(Op& op) {
  if ((op.inputs() - 2) % 3 != 0) return (void)op.fail(Code::BadArity, "operands come with a scale and a zero point each");
  for (size_t i = 0; i < op.inputs(); ++i)
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
  const auto axis = op.axis(op.i("axis", 0), op.rank(2));
  if (!axis) return;
  std::vector<ValueId> parts;
  for (size_t i = 2; i < op.inputs(); i += 3) parts.push_back(dequantised(op, i, i + 1, i + 2));
  op.set(0, quantised(op, op.b.concat(parts, *axis), 0, 1));
}

void qlinear_global_pool(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs spatial axes: " + op.show(0));
  std::vector<int64_t> axes;
  for (int64_t i = last ? 1 : 2; i < op.rank(0) - last; ++i) axes.push_back(i);
  op.set(0, quantised(op, op.b.reduce(ReduceOp::Mean, dequantised(op, 0, 1, 2), axes, true), 3, 4));
}

void qlinear_pool(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs spatial axes: " + op.show(0));
  const ptrdiff_t first = last ? 1 : 2;
  const auto a = pool_attrs(op, {op.sizes(0).begin() + first, op.sizes(0).end() - last}, ReduceOp::Mean);
  const ValueId x = dequantised(op, 0, 1, 2);
  if (!a || !x.valid()) return;
  const ValueId y = op.b.create(OpKind::Pool, {last ? channels_first(op, x) : x}, *a);
  if (y.valid()) op.set(0, quantised(op, last ? channels_last(op, y) : y, 3, 4));
}

void qlinear_reduce_mean(Op& op) {
  auto list = op.ints("axes");
  if (list.empty())
    for (int64_t i = 0; i < op.rank(0); ++i) list.push_back(i);
  if (const auto axes = op.axes(list, op.rank(0)))
    op.set(0, quantised(op, op.b.reduce(ReduceOp::Mean, dequantised(op, 0, 1, 2), *axes, op.i("keepdims", 1) != 0), 3, 4));
}

void qlinear_softmax(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis) return;
  if (op.i("opset", 13) < 13 && *axis != op.rank(0) - 1) return (void)op.unsupported("softmax of opset < 13 over several axes");
  op.set(0, quantised(op, op.b.create(OpKind::Softmax, {dequantised(op, 0, 1, 2)}, AxisAttrs{*axis}), 3, 4));
}

}  // namespace rlxc::onnx_import
