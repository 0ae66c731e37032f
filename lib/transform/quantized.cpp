#include "transform/quantized.h"

#include "transform/nn_gradients.h"

namespace rlxc::transform {
namespace {

DType compute_dtype(Term x, Term scale) {
  return x.dtype() == DType::F64 || scale.dtype() == DType::F64 ? DType::F64 : DType::F32;
}

bool is_single(Term scale) { return num_elements(scale.b->graph().type(scale.v)) == 1; }

// Each element of v as often as it has a block along the axis, up to this size.
Term repeated_blocks(Term v, int64_t axis, int64_t block, Dim size) {
  std::vector<Dim> sizes = v.dims(), all = sizes;
  const auto at = static_cast<size_t>(axis);
  all[at] = v.b->dims().mul(sizes[at], Dim(block));
  sizes.insert(sizes.begin() + axis + 1, Dim(1));
  const Term column = reshape(v, sizes);
  sizes[at + 1] = Dim(block);
  return narrow(reshape(expand(column, sizes), all), axis, Dim(0), size);
}

Term beside(Term x, Term v, const QuantAttrs& a) {
  if (!v.valid()) return v;
  if (is_single(v)) return reshape(v, {});
  if (a.axis < 0 || a.axis >= x.rank()) return v.with({});
  if (a.block == 0) return v.rank() == 1 ? along(v, a.axis, x) : v.with({});
  return v.rank() == x.rank() ? repeated_blocks(v, a.axis, a.block, x.dims()[static_cast<size_t>(a.axis)]) : v.with({});
}

// The least and the largest value of a type.
std::pair<double, double> range_of(DType t) {
  if (is_integer(t)) {
    const double span = static_cast<double>(uint64_t{1} << (bits(t) - 1));
    return dtype_class(t) == DTypeClass::Int ? std::pair(-span, span - 1) : std::pair(0.0, 2 * span - 1);
  }
  const double most = t == DType::F8E4M3FN                           ? 448
                      : t == DType::F8E4M3FNUZ                       ? 240
                      : t == DType::F8E5M2 || t == DType::F8E5M2FNUZ ? 57344
                                                                     : std::numeric_limits<double>::infinity();
  return {-most, most};
}

}  // namespace

Spread spread(Term x, Term scale, Term zero_point, const QuantAttrs& a) {
  if (!scale.valid()) return {scale, scale};
  const DType t = compute_dtype(x, scale);
  return {beside(x, scale.as(t), a), beside(x, zero_point.as(t), a)};
}

StraightThrough straight_through(Term x, Term scale, Term zero_point, const QuantAttrs& a) {
  const Spread s = spread(x, scale, zero_point, a);
  if (!s.scale.valid() || (zero_point.valid() && !s.zero_point.valid())) return {x.with({}), x.with({})};
  const auto [low, high] = range_of(a.to);
  Term q = x.as(s.scale.dtype()) / s.scale;
  if (is_integer(a.to)) q = make(OpKind::Round, {q});
  if (s.zero_point.valid()) q = q + s.zero_point;
  return {s.scale, both(q >= low, q <= high)};
}

Term fake_quantize_slope(Term x, Term scale, const FakeQuantizeAttrs& a) {
  if (a.ste == StraightThroughKind::Identity) return x.with({});
  const Term size = abs(x);
  const Term most =
      scale.valid() ? beside_fake_scales(x, scale, a) : reduce(ReduceOp::Max, size, all_but(a.axis, x.rank())) / a.largest();
  const Term s = max(most, kLeastFakeScale), limit = s * a.largest();
  switch (a.ste) {
    case StraightThroughKind::ClippedIdentity: return (size <= limit).as(x.dtype());
    case StraightThroughKind::HardTanh: return max(1.0 - size / limit, 0.0);
    case StraightThroughKind::Tanh: {
      const Term t = tanh(x / s);
      return 1.0 - t * t;
    }
    case StraightThroughKind::Identity: break;
  }
  return x.with({});
}

Term beside_fake_scales(Term x, Term scale, const FakeQuantizeAttrs& a) {
  std::vector<Dim> sizes;
  for (int i = 0; i < x.rank(); ++i) sizes.push_back(i == a.axis ? x.dims()[static_cast<size_t>(i)] : Dim(1));
  return reshape(scale, sizes);
}

Term fake_scale_sums(Term part, Term scale, const FakeQuantizeAttrs& a) {
  return reshape(sum(part, all_but(a.axis, part.rank()), false), scale.dims());
}

Term fake_quantize_scale_slope(Term x, Term scale, const FakeQuantizeAttrs& a) {
  const Term z = x / max(beside_fake_scales(x, scale, a), kLeastFakeScale), size = abs(z);
  const Term away = sign(z) * floor(size + 0.5);  // halves away from 0
  return select(size <= a.largest(), away - z, sign(z) * a.largest());
}

Term centred(Term x, Term zero_point, std::vector<Dim> vector_dims) {
  const Term numbers = x.as(DType::F32);
  if (!zero_point.valid()) return numbers;
  const Term z = zero_point.as(DType::F32);
  if (is_single(zero_point)) return numbers - reshape(z, {});
  return numbers - (z.rank() == 1 && !vector_dims.empty() ? reshape(z, std::move(vector_dims)) : z);
}

Centred centred_operands(OpKind op, Term x, Term w, Term x_zero, Term w_zero) {
  if (op == OpKind::QMatMul) {
    const std::vector<Dim> rows = x_zero.rank() == 1 ? std::vector<Dim>{x_zero.dims()[0], Dim(1)} : std::vector<Dim>();
    return {centred(x, x_zero, rows), centred(w, w_zero, {})};
  }
  std::vector<Dim> column(static_cast<size_t>(w.rank()), Dim(1));
  column[0] = w.dims()[0];
  return {centred(x, x_zero, {}), centred(w, w_zero, column)};
}

Term shared_sums(Term part, Term scale, const QuantAttrs& a) {
  if (is_single(scale)) return reshape(sum(part, all_but(-1, part.rank()), false), scale.dims());
  return a.block == 0 ? sum(part, all_but(a.axis, part.rank()), false) : part.with({});
}

}  // namespace rlxc::transform
