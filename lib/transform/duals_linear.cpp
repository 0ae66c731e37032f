// Tangents of products, convolutions, pooling, rotations and quantized values: linear in each operand.
#include "transform/duals.h"
#include "transform/nn_gradients.h"
#include "transform/quantized.h"

namespace rlxc::transform {
namespace {

bool bilinear(Dual& d) {
  d.give(plus(d.moves(0) ? d.again({d.t(0)}) : d.t(0), d.moves(1) ? d.again({d.in(0), d.t(1)}) : d.t(1)));
  return true;
}

bool conv_dual(Dual& d) {
  const OpKind op = d.graph.op(d.node);
  const ConvAttrs c = d.attrs<ConvAttrs>();
  Term t = plus(d.moves(0) ? make(op, {d.t(0), d.in(1)}, c) : d.t(0), d.moves(1) ? make(op, {d.in(0), d.t(1)}, c) : d.t(1));
  if (d.moves(2)) {
    std::vector<Dim> dims(static_cast<size_t>(d.in(0).rank()), Dim(1));
    dims[1] = d.in(2).dims()[0];
    t = plus(t, reshape(d.t(2), dims));
  }
  d.give(t);
  return true;
}

// The elements of x at flat positions, which have the sizes of the result.
Term taken(Term x, Term positions) {
  const std::vector<Dim> dims = positions.dims();
  DimTable& t = x.b->dims();
  return make(OpKind::Gather, {reshape(x, {t.product(x.dims())}), positions}, AxisAttrs{0});
}

bool pool_dual(Dual& d) {
  const PoolAttrs p = d.attrs<PoolAttrs>();
  if (p.op == ReduceOp::Max) {
    const NodeId made = d.b.create_node(OpKind::MaxPoolIndices, std::array{d.in(0).v}, p);
    if (!made.valid()) return false;
    d.give(taken(d.t(0), d.in(0).with(d.graph.result(made, 1))));
    return true;
  }
  if (p.op == ReduceOp::Sum || p.op == ReduceOp::Mean) {
    d.give(make(OpKind::Pool, {d.t(0)}, p));
    return true;
  }
  if (p.op != ReduceOp::L2) return false;
  d.give(power_pool_tangent(d.in(0), d.out(), d.t(0), p));
  return true;
}

bool max_pool_indices_dual(Dual& d) {
  if (d.attrs<PoolAttrs>().column_major) return false;
  d.give(taken(d.t(0), d.out(1)));
  return true;
}

bool rope_dual(Dual& d) {
  if (d.has(3) || d.moves(1) || d.moves(2)) return false;
  d.give(d.again({d.t(0)}));
  return true;
}

bool quantize_dual(Dual& d) {
  const StraightThrough s = straight_through(d.in(0), d.in(1), d.has(2) ? d.in(2) : d.in(0).with({}), d.attrs<QuantAttrs>());
  if (!s.scale.valid() || d.moves(1)) return false;
  d.give(select(s.inside, d.t(0) / s.scale, 0.0));
  return true;
}
bool fake_quantize_dual(Dual& d) {
  const FakeQuantizeAttrs q = d.attrs<FakeQuantizeAttrs>();
  const Term x = d.in(0), slope = fake_quantize_slope(x, d.has(1) ? d.in(1) : x.with({}), q);
  Term t = slope.valid() && d.moves(0) ? d.t(0) * slope : d.t(0);
  if (d.moves(1)) t = plus(t, fake_quantize_scale_slope(x, d.in(1), q) * beside_fake_scales(x, d.t(1), q));
  d.give(t);
  return true;
}
bool dequantize_dual(Dual& d) {
  const Spread s = spread(d.in(0), d.in(1), d.has(2) ? d.in(2) : d.in(0).with({}), d.attrs<QuantAttrs>());
  if (!s.scale.valid()) return false;
  const Term q = d.in(0).with(d.b.cast(d.in(0).v, s.scale.dtype()));
  Term t = d.moves(0) ? d.t(0).with(d.b.cast(d.t(0).v, s.scale.dtype())) * s.scale : d.t(0);
  if (d.moves(1)) {
    const Term moved = spread(d.in(0), d.t(1), d.in(0).with({}), d.attrs<QuantAttrs>()).scale;
    t = plus(t, (s.zero_point.valid() ? q - s.zero_point : q) * moved);
  }
  d.give(t);
  return true;
}

bool integer_product_dual(Dual& d) {
  const OpKind op = d.graph.op(d.node);
  const auto zero = [&](size_t i) { return d.has(i) ? d.in(i) : d.in(0).with({}); };
  const Centred c = centred_operands(op, d.in(0), d.in(1), zero(2), zero(3));
  const auto product = [&](Term x, Term w) {
    return op == OpKind::QMatMul ? matmul(x, w) : make(OpKind::Conv, {x, w}, d.attrs<ConvAttrs>());
  };
  d.give(plus(d.moves(0) ? product(d.t(0), c.second) : d.t(0), d.moves(1) ? product(c.first, d.t(1)) : d.t(1)));
  return true;
}

}  // namespace

std::span<const DualEntry> linear_duals() {
  static constexpr DualEntry kTable[] = {
      {OpKind::MatMul, bilinear},
      {OpKind::DotGeneral, bilinear},
      {OpKind::Conv, conv_dual},
      {OpKind::ConvTranspose, conv_dual},
      {OpKind::GroupedMatMul, bilinear},
      {OpKind::Pool, pool_dual},
      {OpKind::Rope, rope_dual},
      {OpKind::MaxPoolIndices, max_pool_indices_dual},
      {OpKind::Fft, moves_alike},
      {OpKind::Cumsum, moves_alike},
      {OpKind::Quantize, quantize_dual},
      {OpKind::Dequantize, dequantize_dual},
      {OpKind::FakeQuantize, fake_quantize_dual},
      {OpKind::QMatMul, integer_product_dual},
      {OpKind::QConv, integer_product_dual},
  };
  return kTable;
}

}  // namespace rlxc::transform
