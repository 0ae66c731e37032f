// Gradients through quantized values: straight through the rounding. Products of integers are differentiated as those of the
// numbers that the integers stand for.
#include "transform/nn_gradients.h"
#include "transform/quantized.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

bool quantize_back(Adjoint& a) {
  const QuantAttrs q = a.attrs<QuantAttrs>();
  const Term x = a.in(0);
  const StraightThrough s = straight_through(x, a.in(1), a.has(2) ? a.in(2) : x.with({}), q);
  if (!s.scale.valid()) return false;
  const Term g = x.with(a.b.cast(a.g().v, s.scale.dtype())), part = select(s.inside, g / s.scale, 0.0);
  a.give(0, part);
  if (!a.wants(1)) return true;
  const Term all = shared_sums(-(part * x.with(a.b.cast(x.v, s.scale.dtype())) / s.scale), a.in(1), q);
  a.give(1, all);
  return all.valid();
}

bool dequantize_back(Adjoint& a) {
  const QuantAttrs q = a.attrs<QuantAttrs>();
  const Term x = a.in(0);
  const Spread s = spread(x, a.in(1), a.has(2) ? a.in(2) : x.with({}), q);
  if (!s.scale.valid()) return false;
  const Term g = x.with(a.b.cast(a.g().v, s.scale.dtype()));
  a.give(0, g * s.scale);
  if (!a.wants(1)) return true;
  const Term from = x.with(a.b.cast(x.v, s.scale.dtype()));
  const Term all = shared_sums(g * (s.zero_point.valid() ? from - s.zero_point : from), a.in(1), q);
  a.give(1, all);
  return all.valid();
}

bool fake_quantize_back(Adjoint& a) {
  const FakeQuantizeAttrs q = a.attrs<FakeQuantizeAttrs>();
  const Term x = a.in(0), slope = fake_quantize_slope(x, a.has(1) ? a.in(1) : x.with({}), q);
  a.give(0, slope.valid() ? a.g() * slope : a.g());
  if (a.wants(1)) a.give(1, fake_scale_sums(a.g() * fake_quantize_scale_slope(x, a.in(1), q), a.in(1), q));
  return true;
}

Centred numbers_of(Adjoint& a) {
  const auto zero = [&](size_t i) { return a.has(i) ? a.in(i) : a.in(0).with({}); };
  return centred_operands(a.graph.op(a.node), a.in(0), a.in(1), zero(2), zero(3));
}

bool q_matmul_back(Adjoint& a) {
  const Centred c = numbers_of(a);
  if (a.wants(0)) a.give(0, matmul(a.g(), c.second, false, true));
  if (a.wants(1)) a.give(1, matmul(c.first, a.g(), true, false));
  return true;
}

bool q_conv_back(Adjoint& a) {
  const ConvAttrs attrs = a.attrs<ConvAttrs>();
  const Centred c = numbers_of(a);
  if (a.wants(0)) a.give(0, conv_input_gradient(a.g(), c.second, attrs, c.first.dims()));
  if (a.wants(1)) a.give(1, conv_weight_gradient(c.first, a.g(), attrs, c.second.dims()));
  return true;
}

}  // namespace

std::span<const RuleEntry> quantized_rules() {
  static constexpr RuleEntry kTable[] = {{OpKind::Quantize, quantize_back},
                                         {OpKind::Dequantize, dequantize_back},
                                         {OpKind::FakeQuantize, fake_quantize_back},
                                         {OpKind::QMatMul, q_matmul_back},
                                         {OpKind::QConv, q_conv_back}};
  return kTable;
}

}  // namespace rlxc::transform
