// Quantization. Integer matmuls are exact i32 matmuls with zero points; the QLinear forms add scales.
#include <algorithm>
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "import/onnx/quantized.h"

namespace rlxc::onnx_import {

ValueId scalar_or_vector(Op& op, size_t i) {
  if (!op.has(i)) return {};
  return op.rank(i) == 1 && op.sizes(i)[0] == Dim(1) ? op.b.reshape(op.in(i), {}) : op.in(i);
}

namespace {

// Sets the axis of per-axis scales; a scalar has none.
std::optional<QuantAttrs> quant_attrs(Op& op) {
  QuantAttrs a;
  a.saturate = op.i("saturate", 1) != 0;
  const int64_t given_axis = op.i("axis", 1);
  const bool scalar = op.rank(1) == 0 || (op.rank(1) == 1 && op.sizes(1)[0] == Dim(1) && op.rank(0) != 1);
  a.block = op.opset >= 21 || op.row.domain == "com.microsoft" ? op.i("block_size", 0) : 0;
  if (a.block < 0) {
    op.fail(Code::BadAttribute, "block_size is negative");
    return std::nullopt;
  }
  if (op.rank(0) == 0 || scalar) return a;
  const auto axis = op.axis(given_axis, op.rank(0) == 1 ? std::max(op.rank(0), 2) : op.rank(0));
  if (!axis) return std::nullopt;
  a.axis = std::min<int64_t>(*axis, op.rank(0) - 1);
  return a;
}

// Scales are floats, or i32 if the values are i32. Zero points have the quantized type.
bool check_parameters(Op& op, DType quantized) {
  const bool ints = quantized != DType::I32 && op.dtype(0) == DType::I32 && op.dtype(1) == DType::I32;
  if (!is_float(op.dtype(1)) && !ints) {
    op.fail(Code::BadType, "the scale is " + op.show(1) + ", and must be a float");
    return false;
  }
  if (!op.has(2) || op.dtype(2) == quantized) return true;
  op.fail(Code::BadType, "the zero point is " + op.show(2) + ", and must be " + std::string(name(quantized)));
  return false;
}

std::vector<ValueId> quant_operands(Op& op) {
  std::vector<ValueId> v{op.in(0), op.in(1)};
  if (op.has(2)) v.push_back(op.in(2));
  return v;
}

ValueId requantize(Op& op, ValueId accumulator, ValueId scale, size_t out_scale, size_t out_zero, bool by_row = false) {
  const DType wide = op.dtype(out_scale);
  const ValueId real = op.b.mul(op.b.cast(accumulator, wide), scale);
  if (!real.valid()) return real;
  QuantAttrs a;
  std::vector<Dim> shape;  // of the parameters: one number, or one per row
  const auto sizes = op.sizes(out_scale);
  const auto several = [](Dim d) { return d.is_static() && d != Dim(1); };
  if (std::ranges::any_of(sizes, several)) {
    const int64_t rows = op.graph().rank(real) - 2;
    const size_t axis = sizes.size() - std::min<size_t>(sizes.size(), 2);
    if (!by_row || rows < 0 || std::ranges::count_if(sizes, several) > 1 || !several(sizes[axis])) {
      op.fail(Code::BadShape, by_row ? "the scale of the result must be one number, or one per row"
                                     : "the scale of the result must be one number");
      return {};
    }
    a.axis = rows;
    shape = {sizes[axis]};
  }
  std::vector<ValueId> operands{real, op.b.reshape(op.in(out_scale), shape)};
  if (op.has(out_zero)) operands.push_back(op.b.reshape(op.in(out_zero), shape));
  a.to = op.has(out_zero) ? op.dtype(out_zero) : DType::U8;
  return op.b.create(OpKind::Quantize, operands, a);
}

// Returns the vector, repeated to `n` entries if the run may find a single one.
ValueId of_each(Op& op, ValueId v, Dim n) {
  if (!v.valid() || op.graph().rank(v) != 1) return v;
  const Dim own = op.graph().dims(v)[0];
  if (own.is_static() || op.dims().equal(own, n)) return v;
  const ValueId last = size_of(op, op.dims().sub(own, Dim(1)));
  return op.b.create(OpKind::Gather, {v, op.b.create(OpKind::Min, {positions(op, n), last})}, AxisAttrs{0});
}

// Returns a zero point or scale per row of a matrix [...,M,K], operand `x`: [M] becomes [M,1].
ValueId per_row(Op& op, size_t i, size_t x) {
  if (!op.has(i)) return {};
  if (op.rank(i) != 1) return op.in(i);
  if (op.sizes(i)[0] == Dim(1)) return op.b.reshape(op.in(i), {});
  const Dim rows = op.rank(x) > 1 ? op.sizes(x)[static_cast<size_t>(op.rank(x)) - 2] : Dim(1);
  const ValueId all = of_each(op, op.in(i), rows);
  return all.valid() ? op.b.reshape(all, {op.graph().dims(all)[0], Dim(1)}) : all;
}

// Returns a zero point or scale per column of a matrix [...,K,N], operand `y`.
ValueId per_column(Op& op, size_t i, size_t y) {
  return of_each(op, scalar_or_vector(op, i), op.rank(y) > 1 ? op.sizes(y).back() : Dim(1));
}

ValueId integer_matmul(Op& op, size_t a, size_t b, size_t a_zero, size_t b_zero) {
  ValueId x = op.in(a), y = op.in(b);
  const int ra = op.rank(a), rb = op.rank(b);
  if (ra < 1 || rb < 1) {
    op.fail(Code::BadShape, "operands need an axis");
    return ValueId();
  }
  if (ra == 1) x = op.b.reshape(x, {Dim(1), op.sizes(a)[0]});
  if (rb == 1) y = op.b.reshape(y, {op.sizes(b)[0], Dim(1)});
  ValueId r = op.b.create(OpKind::QMatMul, {x, y, per_row(op, a_zero, a), per_column(op, b_zero, b)});
  if (r.valid() && (ra == 1 || rb == 1)) {
    std::vector<Dim> out(op.graph().dims(r).begin(), op.graph().dims(r).end());
    if (rb == 1) out.pop_back();
    if (ra == 1) out.erase(out.end() - (rb == 1 ? 1 : 2));
    r = op.b.reshape(r, std::move(out));
  }
  return r;
}

}  // namespace

void quantize(Op& op) {
  auto a = quant_attrs(op);
  if (!a) return;
  const int64_t given = op.opset >= 21 ? op.i("output_dtype", 0) : 0;
  const auto to = op.has(2) ? std::optional(op.dtype(2)) : given ? dtype_from_onnx(static_cast<int>(given & 0xFFFF)) : DType::U8;
  if (!to) return (void)op.fail(Code::BadAttribute, "output_dtype is not a known element type");
  if (given && dtype_from_onnx(static_cast<int>(given & 0xFFFF)) != to)
    return (void)op.fail(Code::BadType, "output_dtype is not the type of the zero point");
  if (!check_parameters(op, *to)) return;
  a->to = *to;
  op.set(0, op.b.create(OpKind::Quantize, quant_operands(op), *a));
}

void dequantize(Op& op) {
  auto a = quant_attrs(op);
  if (!a) return;
  const int64_t given = op.opset >= 23 ? op.i("output_dtype", 0) : 0;
  const auto to = given ? dtype_from_onnx(static_cast<int>(given & 0xFFFF)) : op.dtype(1);
  if (!to) return (void)op.fail(Code::BadAttribute, "output_dtype is not a known element type");
  if (!check_parameters(op, op.dtype(0))) return;
  a->to = *to;
  op.set(0, op.b.create(OpKind::Dequantize, quant_operands(op), *a));
}

std::array<ValueId, 3> dynamically_quantized(Op& op, ValueId x) {
  if (!x.valid()) return {};
  const ValueId operands[] = {x};
  const NodeId n = op.b.create_node(OpKind::DynamicQuantize, operands, NoAttrs{});
  if (!n.valid()) return {};
  return {op.graph().result(n, 0), op.graph().result(n, 1), op.graph().result(n, 2)};
}

void dynamic_quantize(Op& op) {
  const auto results = dynamically_quantized(op, op.in(0));
  for (size_t i = 0; i < 3; ++i) op.set(i, results[i]);
}

void matmul_integer(Op& op) { op.set(0, integer_matmul(op, 0, 1, 2, 3)); }

void conv_integer(Op& op) {
  if (const auto a = conv_attrs(op, 1))
    op.set(0, op.b.create(OpKind::QConv, {op.in(0), op.in(1), scalar_or_vector(op, 2), scalar_or_vector(op, 3)}, *a));
}

// Operands: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero.
void qlinear_matmul(Op& op) {
  const ValueId sums = integer_matmul(op, 0, 3, 2, 5);
  const ValueId scale = op.b.mul(per_row(op, 1, 0), per_column(op, 4, 3));
  op.set(0, requantize(op, sums, scale, 6, 7, true));
}

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

// Operands: x ([N,...,C] with channels_last, of com.microsoft), x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias (i32,
// in units of x_scale*w_scale).
void qlinear_conv(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3 || op.rank(3) != op.rank(0))
    return (void)op.fail(Code::BadShape, "needs x [N,C,...] and weights of the same rank: " + op.show(0) + ", " + op.show(3));
  const auto a = last ? conv_attrs(op, {op.sizes(0).begin() + 1, op.sizes(0).end() - 1}, std::span(op.sizes(3)).subspan(2))
                      : conv_attrs(op, 3);
  if (!a) return;
  const ValueId x = last ? channels_first(op, op.in(0)) : op.in(0);
  ValueId sum = op.b.create(OpKind::QConv, {x, op.in(3), scalar_or_vector(op, 2), scalar_or_vector(op, 5)}, *a);
  std::vector<Dim> per_channel(static_cast<size_t>(op.rank(3)) - 1, Dim(1));
  per_channel[0] = op.sizes(3)[0];
  if (op.has(8)) sum = op.b.add(sum, op.b.reshape(op.in(8), per_channel));
  ValueId w_scale = scalar_or_vector(op, 4);
  if (w_scale.valid() && op.graph().rank(w_scale) == 1) w_scale = op.b.reshape(w_scale, per_channel);
  const ValueId y = requantize(op, sum, op.b.mul(scalar_or_vector(op, 1), w_scale), 6, 7);
  if (y.valid()) op.set(0, last ? channels_last(op, y) : y);
}

// Operands as of qlinear_conv. Sums of products of 8-bit integers are exact in f32 up to 2^24. A zero point per channel is one of
// the result's channels.
void qlinear_conv_transpose(Op& op) {
  const auto a = conv_transpose_attrs(op, 3);
  if (!a) return;
  const auto rank = static_cast<size_t>(op.rank(3));
  const Dim channels = op.dims().mul(op.sizes(3)[1], Dim(a->groups));
  const auto centred = [&](size_t i, size_t zero) {
    const ValueId v = op.b.cast(op.in(i), DType::F32);
    ValueId z = scalar_or_vector(op, zero);
    if (!z.valid()) return v;
    if (op.graph().rank(z) == 1) {
      std::vector<Dim> sizes(rank, Dim(1));
      sizes[1] = op.graph().dims(z)[0];
      z = op.b.reshape(z, std::move(sizes));
    }
    return op.b.sub(v, op.b.cast(z, DType::F32));
  };
  if (a->groups > 1 && op.has(5) && num_elements(op.graph().type(op.in(5))) != 1)
    return (void)op.unsupported("zero points per channel of several groups");
  std::vector<ValueId> operands{centred(0, 2), centred(3, 5)};
  if (op.has(8)) operands.push_back(op.b.cast(op.in(8), DType::F32));
  const ValueId sum = op.b.create(OpKind::ConvTranspose, operands, *a);
  ValueId w_scale = scalar_or_vector(op, 4);
  if (w_scale.valid() && op.graph().rank(w_scale) == 1) {
    std::vector<Dim> per_channel(rank - 1, Dim(1));
    per_channel[0] = channels;
    w_scale = op.b.reshape(w_scale, std::move(per_channel));
  }
  op.set(0, requantize(op, sum, op.b.mul(scalar_or_vector(op, 1), w_scale), 6, 7));
}

}  // namespace rlxc::onnx_import
