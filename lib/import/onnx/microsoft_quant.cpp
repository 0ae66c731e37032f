// Quantized operators of com.microsoft: dequantize, compute, quantize; or exact integer matmuls with scales.
#include <array>

#include "import/compose/packed.h"
#include "import/onnx/attention.h"
#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "import/onnx/quantized.h"

namespace rlxc::onnx_import {
namespace {

ValueId dequantized(Op& op, size_t x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{op.in(x), op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.dtype(scale);
  return op.b.create(OpKind::Dequantize, operands, a);
}

ValueId quantized(Op& op, ValueId x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{x, op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.has(zero) ? op.dtype(zero) : DType::U8;
  return op.b.create(OpKind::Quantize, operands, a);
}

ValueId plus(Op& op, ValueId y, size_t bias) { return op.has(bias) ? op.b.add(y, op.in(bias)) : y; }

bool matrices(Op& op, size_t a, size_t b) { return (op.rank(a) >= 2 && op.rank(b) >= 2) || op.unsupported("operands of rank 1"); }

}  // namespace

// Operands: data (2 to 8 bits, blocks along one axis), indices, scales, zero points.
void gather_block_quantized(Op& op) {
  const auto gathered = op.axis(op.i("gather_axis", 0), op.rank(0)), blocked = op.axis(op.i("quantize_axis", 1), op.rank(0));
  const int64_t width = op.i("bits", 4), block = op.i("block_size", 128);
  if (!gathered || !blocked) return;
  if ((width != 2 && width != 4 && width != 8) || block < 16 || block > 1 << 20)
    return (void)op.fail(Code::BadAttribute, "bits or block_size are out of range");
  if (op.rank(2) != op.rank(0) || (op.has(3) && op.rank(3) != op.rank(0)))
    return (void)op.fail(Code::BadShape, "scales and zero points need as many axes as the data");
  Builder& b = op.b;
  const DType t = op.dtype(2);
  const bool bytes = op.dtype(0) == DType::U8;
  if (bytes && width < 8 && *blocked != op.rank(0) - 1)
    return (void)op.unsupported("bytes of several numbers along another axis");
  const auto numbers = [&](size_t i) {
    const ValueId x = op.in(i);
    return bytes ? compose::unpack_bits(b, x, static_cast<int>(width)) : x;
  };
  QuantAttrs a;
  a.axis = *blocked;
  a.block = block;
  a.to = t;
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

// Operands: a, which is quantized as by DynamicQuantizeLinear; b, its scale, its zero point, bias.
void dynamic_quantize_matmul(Op& op) {
  if (!matrices(op, 0, 1)) return;
  const auto [q, scale, point] = dynamically_quantized(op, op.in(0));
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
  op.set(0, op.has(7) ? quantized(op, y, 7, 8) : y);
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
  const ValueId a = dequantized(op, 0, 1, 2);
  if (binary) return op.set(0, quantized(op, op.b.create(op.row.kind, {a, dequantized(op, 3, 4, 5)}), 6, 7));
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op.row.kind)))
    return op.set(0, quantized(op, op.b.create(op.row.kind, {a}, AlphaBetaAttrs{op.f("alpha", op.row.alpha), 0}), 3, 4));
  op.set(0, quantized(op, op.b.unary(op.row.kind, a), 3, 4));
}

void qlinear_where(Op& op) {
  const ValueId a = dequantized(op, 1, 2, 3), b = dequantized(op, 4, 5, 6);
  op.set(0, quantized(op, op.b.create(OpKind::Where, {op.in(0), a, b}), 7, 8));
}

// Scale and zero point of the result, then each operand with its scale and zero point.
void qlinear_concat(Op& op) {
  if ((op.inputs() - 2) % 3 != 0) return (void)op.fail(Code::BadArity, "operands come with a scale and a zero point each");
  for (size_t i = 0; i < op.inputs(); ++i)
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
  const auto axis = op.axis(op.i("axis", 0), op.rank(2));
  if (!axis) return;
  std::vector<ValueId> parts;
  for (size_t i = 2; i < op.inputs(); i += 3) parts.push_back(dequantized(op, i, i + 1, i + 2));
  op.set(0, quantized(op, op.b.concat(parts, *axis), 0, 1));
}

void qlinear_global_pool(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs spatial axes: " + op.show(0));
  std::vector<int64_t> axes;
  for (int64_t i = last ? 1 : 2; i < op.rank(0) - last; ++i) axes.push_back(i);
  op.set(0, quantized(op, op.b.reduce(ReduceOp::Mean, dequantized(op, 0, 1, 2), axes, true), 3, 4));
}

void qlinear_pool(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs spatial axes: " + op.show(0));
  const ptrdiff_t first = last ? 1 : 2;
  const auto a = pool_attrs(op, {op.sizes(0).begin() + first, op.sizes(0).end() - last}, ReduceOp::Mean);
  const ValueId x = dequantized(op, 0, 1, 2);
  if (!a || !x.valid()) return;
  const ValueId y = op.b.create(OpKind::Pool, {last ? channels_first(op, x) : x}, *a);
  if (y.valid()) op.set(0, quantized(op, last ? channels_last(op, y) : y, 3, 4));
}

void qlinear_reduce_mean(Op& op) {
  auto list = op.ints("axes");
  if (list.empty())
    for (int64_t i = 0; i < op.rank(0); ++i) list.push_back(i);
  if (const auto axes = op.axes(list, op.rank(0)))
    op.set(0, quantized(op, op.b.reduce(ReduceOp::Mean, dequantized(op, 0, 1, 2), *axes, op.i("keepdims", 1) != 0), 3, 4));
}

// Sums of 8-bit integers.
void reduce_sum_integer(Op& op) {
  auto list = op.ints("axes");
  if (list.empty())
    for (int64_t i = 0; i < op.rank(0); ++i) list.push_back(i);
  const DType t = op.dtype(0) == DType::U8 ? DType::U32 : DType::I32;
  if (const auto axes = op.axes(list, op.rank(0)))
    op.set(0, op.b.reduce(ReduceOp::Sum, op.b.cast(op.in(0), t), *axes, op.i("keepdims", 1) != 0));
}

// As EmbedLayerNormalization, with 8-bit tables: after the mask come five scales, then five zero points.
void q_embed_layer_norm(Op& op) {
  if (op.rank(0) != 2) return (void)op.fail(Code::BadShape, "needs ids [batch, length]: " + op.show(0));
  const auto table = [&](size_t i) { return dequantized(op, i, i + 6, i + 11); };
  const auto look = [&](size_t i, ValueId at) { return op.b.create(OpKind::Gather, {table(i), at}, AxisAttrs{0}); };
  ValueId x = op.b.add(look(2, op.in(0)), look(3, positions(op, op.sizes(0)[1])));
  if (op.has(1) && op.has(4)) x = op.b.add(x, look(4, op.in(1)));
  op.set(0, op.b.create(OpKind::LayerNorm, {x, table(5), table(6)}, NormAttrs{2, op.f("epsilon", 1e-12)}));
  if (op.wants(1)) op.set(1, real_tokens(op, 7));
}

namespace {

// Row-major matrices only: the other orders are tiles of one library.
bool plain_orders(Op& op, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (op.i(name, 1) != 1) return op.unsupported(std::string(name) + " must be 1, row-major");
  return true;
}

// Symmetric 8-bit values of a float.
ValueId rounded_to_bytes(Op& op, ValueId x, size_t scale) {
  QuantAttrs a;
  a.to = DType::I8;
  return op.b.create(OpKind::Quantize, {x, op.b.reshape(op.in(scale), {})}, a);
}

}  // namespace

void quantize_with_order(Op& op) {
  if (plain_orders(op, {"order_input", "order_output"})) op.set(0, rounded_to_bytes(op, op.b.cast(op.in(0), DType::F32), 1));
}

void dequantize_with_order(Op& op) {
  const auto to = dtype_from_onnx(static_cast<int>(op.i("to", 1)));
  if (!to || !is_float(*to)) return (void)op.fail(Code::BadAttribute, "attribute \"to\" must be a float type");
  if (plain_orders(op, {"order_input", "order_output"})) op.set(0, op.b.cast(dequantized(op, 0, 1, SIZE_MAX), *to));
}

void q_ordered_gelu(Op& op) {
  if (plain_orders(op, {"order_X", "order_Y"}))
    op.set(0, rounded_to_bytes(op, op.b.unary(OpKind::Gelu, dequantized(op, 0, 1, SIZE_MAX)), 2));
}

// Operands: x, its scale, gamma, beta, the scale of the result.
void q_ordered_layer_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis || !plain_orders(op, {"order_X", "order_Y"})) return;
  const ValueId gamma = op.b.cast(op.in(2), DType::F32), beta = op.has(3) ? op.b.cast(op.in(3), DType::F32) : ValueId();
  const std::array operands{dequantized(op, 0, 1, SIZE_MAX), gamma, beta};
  op.set(0, rounded_to_bytes(op, op.b.create(OpKind::LayerNorm, operands, NormAttrs{*axis, op.f("epsilon", 1e-5)}), 4));
}

// Operands: a, its scale, b [K,N] stored by columns, its scale, the scale of the result, bias, a value to add, its scale.
void q_ordered_matmul(Op& op) {
  if (op.i("order_B", 0) != 0) return (void)op.unsupported("order_B must be 0, column-major");
  if (!plain_orders(op, {"order_A", "order_Y"})) return;
  if (op.rank(2) != 2 || op.rank(0) < 2)
    return (void)op.fail(Code::BadShape, "needs matrices: " + op.show(0) + ", " + op.show(2));
  const Dim k = op.sizes(2)[0], n = op.sizes(2)[1];
  const ValueId b = op.b.transpose(op.b.reshape(op.in(2), {n, k}), {1, 0});
  const ValueId sums = op.b.cast(op.b.create(OpKind::QMatMul, {op.in(0), b}), DType::F32);
  ValueId y = op.b.mul(sums, op.b.mul(scalar_or_vector(op, 1), scalar_or_vector(op, 3)));
  y = plus(op, y, 5);
  if (op.has(6)) y = op.b.add(y, dequantized(op, 6, 7, SIZE_MAX));
  op.set(0, rounded_to_bytes(op, y, 4));
}

void qlinear_softmax(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis) return;
  if (op.i("opset", 13) < 13 && *axis != op.rank(0) - 1) return (void)op.unsupported("softmax of opset < 13 over several axes");
  op.set(0, quantized(op, op.b.create(OpKind::Softmax, {dequantized(op, 0, 1, 2)}, AxisAttrs{*axis}), 3, 4));
}

}  // namespace rlxc::onnx_import
