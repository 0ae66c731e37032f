// Decompositions of general contractions and of quantized ops.
#include <algorithm>
#include <optional>

#include "passes/legalise/decompositions.h"
#include "passes/match.h"

namespace rlxc::legalise {
namespace {

std::vector<int64_t> free_axes(int rank, const std::vector<int64_t>& batch, const std::vector<int64_t>& contracting) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < rank; ++i)
    if (std::ranges::find(batch, i) == batch.end() && std::ranges::find(contracting, i) == contracting.end()) out.push_back(i);
  return out;
}

// One side as [batch.., rows, columns], or with the last two axes swapped if that avoids a transpose.
struct Side {
  ValueId value;
  bool swapped = false;
};
Side arrange(Expansion& e, ValueId x, const std::vector<int64_t>& batch, const std::vector<int64_t>& rows,
             const std::vector<int64_t>& columns) {
  auto join = [](std::vector<int64_t> a, const std::vector<int64_t>& b, const std::vector<int64_t>& c) {
    a.insert(a.end(), b.begin(), b.end());
    a.insert(a.end(), c.begin(), c.end());
    return a;
  };
  auto size = [&](const std::vector<int64_t>& axes) {
    std::vector<Dim> d;
    for (int64_t a : axes) d.push_back(e.dim(x, static_cast<int>(a)));
    return e.b.dims().product(d);
  };
  std::vector<Dim> sizes;
  for (int64_t a : batch) sizes.push_back(e.dim(x, static_cast<int>(a)));
  const bool swapped = std::ranges::is_sorted(join(batch, columns, rows)) && !std::ranges::is_sorted(join(batch, rows, columns));
  sizes.push_back(size(swapped ? columns : rows));
  sizes.push_back(size(swapped ? rows : columns));
  const ValueId ordered = e.b.transpose(x, swapped ? join(batch, columns, rows) : join(batch, rows, columns));
  return {e.b.reshape(ordered, sizes), swapped};
}

// Reshapes lhs to [batch, free, contracted] and rhs to [batch, contracted, free]; the result has batch, lhs free, rhs free axes.
std::vector<ValueId> dot_general(Expansion& e) {
  const auto& a = e.attrs<DotGeneralAttrs>();
  const ValueId l = e.in(0), r = e.in(1);
  const Side lhs = arrange(e, l, a.lhs_batch, free_axes(e.g.rank(l), a.lhs_batch, a.lhs_contracting), a.lhs_contracting);
  const Side rhs = arrange(e, r, a.rhs_batch, a.rhs_contracting, free_axes(e.g.rank(r), a.rhs_batch, a.rhs_contracting));
  if (!lhs.value.valid() || !rhs.value.valid()) return {};
  return {e.b.reshape(e.b.matmul(lhs.value, rhs.value, lhs.swapped, rhs.swapped), e.result_dims())};
}

// Repeats each element of v `block` times along the axis, cut to this dim.
ValueId repeated(Expansion& e, ValueId v, int64_t axis, int64_t block, Dim size) {
  if (size.is_static()) block = std::clamp<int64_t>(size.size(), 1, block);  // the only block may be longer than the axis
  std::vector<Dim> sizes = e.dims(v), all = sizes;
  all[static_cast<size_t>(axis)] = e.b.dims().mul(sizes[static_cast<size_t>(axis)], Dim(block));
  sizes.insert(sizes.begin() + axis + 1, Dim(1));
  const ValueId column = e.b.reshape(v, sizes);
  sizes[static_cast<size_t>(axis) + 1] = Dim(block);
  return e.b.narrow(e.b.reshape(e.b.expand(column, sizes), all), axis, Dim(0), size);
}

// A scale or zero point cast to t and shaped to broadcast to x. Invalid if its shape does not fit.
ValueId scale_like(Expansion& e, size_t operand, DType t) {
  const auto& a = e.attrs<QuantAttrs>();
  const ValueId v = e.b.cast(e.in(operand), t);
  if (num_elements(e.g.type(v)) == 1) return e.b.reshape(v, {});
  if (a.block == 0) return e.g.rank(v) == 1 ? e.along(v, a.axis, e.g.rank(e.in(0))) : ValueId();
  return repeated(e, v, a.axis, a.block, e.dim(e.in(0), static_cast<int>(a.axis)));
}

// The type that computes results of type t.
DType number_type(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

// Whether operand 2 may be other than 0.
bool has_zero_point(const Expansion& e) { return !match::is_absent_or_zero(e.g, e.has(2) ? e.in(2) : ValueId()); }

std::vector<ValueId> quantize(Expansion& e) {
  const auto& a = e.attrs<QuantAttrs>();
  if (is_integer(a.to) && bits(a.to) > 16) return {};
  const DType compute = number_type(e.g.dtype(e.in(0)));
  const ValueId scale = scale_like(e, 1, compute);
  if (!scale.valid()) return {};
  ValueId q = e.b.div(e.b.cast(e.in(0), compute), scale);
  if (is_integer(a.to)) q = e.b.unary(OpKind::Round, q);
  if (has_zero_point(e)) q = e.b.add(q, scale_like(e, 2, compute));
  if (is_float(a.to)) return {e.b.create(OpKind::Cast, {q}, CastAttrs{a.to, a.saturate})};
  const bool is_signed = dtype_class(a.to) == DTypeClass::Int;
  const double span = static_cast<double>(int64_t{1} << bits(a.to));
  const ClampAttrs range{is_signed ? -span / 2 : 0, (is_signed ? span / 2 : span) - 1};
  return {e.b.cast(e.b.create(OpKind::Clamp, {q}, range), a.to)};
}

// Looks through the casts and reshapes that yield v.
ValueId unconverted(const Graph& g, ValueId v) {
  while (g.def(v).valid() && (g.op(g.def(v)) == OpKind::Cast || g.op(g.def(v)) == OpKind::Reshape)) v = g.operand(g.def(v), 0);
  return v;
}

// The result of quantize() before its conversion to integers that nobody else reads, and what it adds, if it adds a zero point.
struct Rounded {
  ValueId value, zero;
};
std::optional<Rounded> rounded_operand(const Expansion& e, DType real) {
  const Graph& g = e.g;
  const auto from = [&](ValueId v, OpKind op) {
    const NodeId n = g.def(v);
    return n.valid() && g.op(n) == op && g.dtype(g.operand(n, 0)) == real ? n : NodeId();
  };
  const NodeId cast = from(e.in(0), OpKind::Cast);
  if (!cast.valid() || !g.has_one_use(e.in(0)) || !is_integer(g.dtype(e.in(0))) || bits(g.dtype(e.in(0))) > 16) return {};
  const NodeId clamp = from(g.operand(cast, 0), OpKind::Clamp);
  if (!clamp.valid()) return {};
  const NodeId add = from(g.operand(clamp, 0), OpKind::Add);
  const Rounded r{g.operand(cast, 0), add.valid() ? g.operand(add, 1) : ValueId()};
  if (add.valid() && !match::has_integers(g, r.zero)) return {};
  const bool is_signed = dtype_class(g.dtype(e.in(0))) == DTypeClass::Int;
  const double span = static_cast<double>(int64_t{1} << bits(g.dtype(e.in(0))));
  const auto& range = g.attrs<ClampAttrs>(clamp);
  const bool fits = range.min >= (is_signed ? -span / 2 : 0) && range.max < (is_signed ? span / 2 : span);
  if (!fits || !from(g.operand(add.valid() ? add : clamp, 0), OpKind::Round).valid()) return {};
  return r;
}

std::vector<ValueId> dequantize(Expansion& e) {
  const auto& a = e.attrs<QuantAttrs>();
  const DType from = e.g.dtype(e.in(0));
  if (is_integer(from) && bits(from) > 32) return {};
  const DType real = number_type(a.to);
  const ValueId scale = scale_like(e, 1, real);
  if (!scale.valid()) return {};
  const auto scaled = [&](ValueId q) { return std::vector{e.b.cast(e.b.mul(e.b.cast(q, real), scale), a.to)}; };
  if (const auto r = rounded_operand(e, real)) {
    // Integers of 16 bits are exact in floats. + 0 makes 0 of -0.
    const ValueId q = r->zero.valid() ? r->value : e.b.add(r->value, e.b.scalar(real, 0));
    if (!has_zero_point(e)) return scaled(q);
    const bool same = r->zero.valid() && e.g.rank(r->zero) == 0 && unconverted(e.g, r->zero) == unconverted(e.g, e.in(2));
    return scaled(e.b.sub(q, same ? r->zero : scale_like(e, 2, real)));
  }
  const DType compute = is_float(from) ? real : DType::I32;
  ValueId q = e.b.cast(e.in(0), compute);
  if (has_zero_point(e)) q = e.b.sub(q, scale_like(e, 2, compute));
  return scaled(q);
}

std::vector<ValueId> fake_quantize(Expansion& e) {
  const auto& a = e.attrs<FakeQuantizeAttrs>();
  const DType wide = number_type(e.g.dtype(e.in(0)));
  const ValueId x = e.b.cast(e.in(0), wide);
  std::vector<int64_t> others;
  std::vector<Dim> sizes;  // of the scales beside x
  for (int i = 0; i < e.g.rank(x); ++i) {
    sizes.push_back(i == a.axis ? e.dim(x, i) : Dim(1));
    if (i != a.axis) others.push_back(i);
  }
  const auto number = [&](double v) { return e.b.scalar(wide, v); };
  ValueId scale = e.has(1) ? e.b.reshape(e.b.cast(e.in(1), wide), sizes) : ValueId();
  if (!e.has(1)) {
    const ValueId most =
        others.empty() ? e.b.unary(OpKind::Abs, x) : e.b.reduce(ReduceOp::Max, e.b.unary(OpKind::Abs, x), others, true);
    scale = e.b.div(most, number(a.largest()));
  }
  scale = e.b.create(OpKind::Max, {scale, number(kLeastFakeScale)});
  const ValueId q = e.b.div(x, scale), size = e.b.unary(OpKind::Floor, e.b.add(e.b.unary(OpKind::Abs, q), number(0.5)));
  const ValueId away = e.b.mul(e.b.unary(OpKind::Sign, q), size);  // halves away from 0
  const ValueId kept = e.b.create(OpKind::Clamp, {away}, ClampAttrs{-a.largest(), a.largest()});
  return {e.b.cast(e.b.mul(kept, scale), e.result_dtype())};
}

std::vector<ValueId> dynamic_quantize(Expansion& e) {
  const ValueId x = e.b.cast(e.in(0), DType::F32), zero = e.b.scalar(DType::F32, 0);
  std::vector<int64_t> all;
  for (int i = 0; i < e.g.rank(x); ++i) all.push_back(i);
  const ValueId low = e.b.create(OpKind::Min, {e.b.reduce(ReduceOp::Min, x, all, false), zero});
  const ValueId high = e.b.create(OpKind::Max, {e.b.reduce(ReduceOp::Max, x, all, false), zero});
  const ValueId step = e.b.div(e.b.sub(high, low), e.b.scalar(DType::F32, 255));
  const ValueId scale = e.b.create(OpKind::Where, {e.b.create(OpKind::Eq, {step, zero}), e.b.scalar(DType::F32, 1), step});
  const ValueId shift = e.b.unary(OpKind::Round, e.b.div(e.b.sub(zero, low), scale));
  const ValueId point = e.b.cast(e.b.create(OpKind::Clamp, {shift}, ClampAttrs{0, 255}), DType::U8);
  return {e.b.create(OpKind::Quantize, {x, scale, point}, QuantAttrs{.to = DType::U8}), scale, point};
}

// An integer operand minus its zero point, in i32. Zero points per row become a column.
ValueId centred(Expansion& e, size_t operand, size_t zero, bool per_row) {
  const ValueId x = e.b.cast(e.in(operand), DType::I32);
  if (!e.has(zero)) return x;
  ValueId z = e.b.cast(e.in(zero), DType::I32);
  if (num_elements(e.g.type(z)) == 1) z = e.b.reshape(z, {});
  else if (per_row && e.g.rank(z) == 1) z = e.b.reshape(z, {e.dim(z, 0), Dim(1)});
  return e.b.sub(x, z);
}

std::vector<ValueId> q_matmul(Expansion& e) { return {e.b.matmul(centred(e, 0, 2, true), centred(e, 1, 3, false))}; }

std::vector<ValueId> q_conv(Expansion& e) {
  ValueId w = e.b.cast(e.in(1), DType::I32);
  if (e.has(3)) {
    const ValueId z = e.b.cast(e.in(3), DType::I32);
    w = e.b.sub(w, num_elements(e.g.type(z)) == 1 ? e.b.reshape(z, {}) : e.along(z, 0, e.g.rank(w)));
  }
  return {e.b.create(OpKind::Conv, {centred(e, 0, 2, false), w}, e.attrs<ConvAttrs>())};
}

// Rows of x rounded to 8 bits, with a scale for each block.
ValueId rounded_rows(Expansion& e, ValueId x, int64_t block) {
  const std::vector<Dim> whole = e.dims(x);
  std::vector<Dim> sizes = whole;
  sizes.push_back(block ? Dim(block) : sizes.back());
  sizes[sizes.size() - 2] = block ? e.b.dims().floor_div(whole.back(), Dim(block)) : Dim(1);
  const DType t = e.g.dtype(x), real = number_type(t);
  const ValueId parts = e.b.reshape(e.b.cast(x, real), sizes), zero = e.b.scalar(real, 0), one = e.b.scalar(real, 1);
  const ValueId most = e.b.reduce(ReduceOp::Max, e.b.unary(OpKind::Abs, parts), {static_cast<int64_t>(sizes.size()) - 1}, true);
  const ValueId scale = e.b.div(most, e.b.scalar(real, 127)), empty = e.b.create(OpKind::Eq, {scale, zero});
  const ValueId inverse = e.b.create(OpKind::Where, {empty, zero, e.b.div(one, e.b.create(OpKind::Where, {empty, one, scale}))});
  const ValueId codes = e.b.unary(OpKind::Round, e.b.mul(parts, inverse));
  return e.b.cast(e.b.reshape(e.b.mul(codes, scale), whole), t);
}

std::vector<ValueId> dequant_matmul(Expansion& e) {
  const auto& a = e.attrs<DequantMatMulAttrs>();
  const int along_k = a.trans_b;
  const DType real = number_type(e.result_dtype());
  const auto spread = [&](size_t i) {
    const ValueId v = e.b.cast(e.in(i), real);
    return e.dim(v, along_k) == Dim(1) ? v : repeated(e, v, along_k, a.block, e.dim(e.in(1), along_k));
  };
  ValueId w = e.b.cast(e.in(1), real);
  if (e.has(3)) w = e.b.sub(w, spread(3));
  w = e.b.cast(e.b.mul(w, spread(2)), e.result_dtype());
  ValueId y = e.b.matmul(a.int8_x ? rounded_rows(e, e.in(0), a.block) : e.in(0), w, false, a.trans_b);
  for (size_t i : {4, 5})
    if (e.has(i)) y = e.b.add(y, e.in(i));
  if (a.gated) return {e.b.create(OpKind::FusedSwiGLU, {y}, SwiGLUAttrs{a.gate_first, a.act})};
  return {e.activation(y, a.act)};
}

std::vector<ValueId> grouped_matmul(Expansion& e) {
  const ValueId w = e.b.create(OpKind::Gather, {e.in(1), e.in(2)}, AxisAttrs{0});
  const std::vector<Dim> x = e.dims(e.in(0));
  return {e.b.reshape(e.b.matmul(e.b.reshape(e.in(0), {x[0], Dim(1), x[1]}), w, false, e.attrs<MatMulAttrs>().trans_b),
                      e.result_dims())};
}

}  // namespace

std::span<const DecompositionEntry> linear_decompositions() {
  static constexpr DecompositionEntry kTable[] = {
      {OpKind::DotGeneral, dot_general},
      {OpKind::Quantize, quantize},
      {OpKind::Dequantize, dequantize},
      {OpKind::DynamicQuantize, dynamic_quantize},
      {OpKind::FakeQuantize, fake_quantize},
      {OpKind::QMatMul, q_matmul},
      {OpKind::QConv, q_conv},
      {OpKind::DequantMatMul, dequant_matmul},
      {OpKind::GroupedMatMul, grouped_matmul},
  };
  return kTable;
}

}  // namespace rlxc::legalise
