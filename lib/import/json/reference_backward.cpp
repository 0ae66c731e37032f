// Gradient ops of the reference vocabulary, with the formulas of lib/transform.
#include <algorithm>
#include <array>
#include <cmath>

#include "import/json/reference_rows.h"
#include "transform/nn_gradients.h"
#include "transform/rules.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::Term;

std::vector<int64_t> all_but_last(const Term& x) { return transform::all_but(x.rank() - 1, x.rank()); }

ValueId relu_backward(Node& n) { return n.count(2, 2) ? select(term(n, 0) > 0, term(n, 1), 0.0).v : ValueId(); }

ValueId activation_backward(Node& n) {
  if (!n.count(2, 2)) return {};
  const std::string word = n.word(n.find("kind") ? "kind" : "activation");
  const auto kind = op_from_name(word);
  if (!kind || !has_trait(*kind, kActivation) || !transform::has_slope(*kind)) {
    n.fail(Code::UnsupportedAttribute, "the activation \"" + word + "\" has no derivative here");
    return ValueId();
  }
  double alpha = 0, beta = 0;
  if (const auto* a = std::get_if<AlphaBetaAttrs>(&default_attrs(*kind))) {
    alpha = a->alpha;
    beta = a->beta;
  }
  const Term x = term(n, 0);
  return (term(n, 1) * transform::slope(*kind, alpha, beta, x, transform::make(*kind, {x}))).v;
}

// Norms.

ValueId layer_norm_backward_input(Node& n) {
  if (!n.count(3, 3)) return {};
  const std::vector<int64_t> last{n.rank(0) - 1};
  return norm_gradient(transform::normalised(term(n, 0), last, n.number("eps", 1e-5)), term(n, 2) * term(n, 1), last).v;
}
ValueId layer_norm_backward_gamma(Node& n) {
  if (!n.count(2, 2)) return {};
  const auto v = transform::normalised(term(n, 0), {n.rank(0) - 1}, n.number("eps", 1e-5));
  return sum(term(n, 1) * v.x, all_but_last(v.x), false).v;
}

Term rms_inverse_of(Node& n) { return transform::rms_inverse(term(n, 0), {n.rank(0) - 1}, n.number("eps", 1e-5)); }
ValueId rms_norm_backward_input(Node& n) {  // x, gamma, beta, dy
  return n.count(4, 4) ? transform::rms_gradient(term(n, 0), rms_inverse_of(n), term(n, 3) * term(n, 1), {n.rank(0) - 1}).v
                       : ValueId();
}
ValueId rms_norm_backward_gamma(Node& n) {
  return n.count(4, 4) ? sum(term(n, 3) * (term(n, 0) * rms_inverse_of(n)), all_but_last(term(n, 0)), false).v : ValueId();
}
ValueId rms_norm_backward_beta(Node& n) { return n.count(4, 4) ? sum(term(n, 3), all_but_last(term(n, 0)), false).v : ValueId(); }

std::optional<std::vector<Dim>> groups_of(Node& n) {
  const int64_t groups = n.integer("num_groups");
  if (n.rank(0) >= 2 && groups >= 1) return transform::grouped(term(n, 0), groups);
  n.fail(Code::BadShape, "needs [N,C,...] and groups");
  return std::nullopt;
}
ValueId group_norm_backward_input(Node& n) {  // x, gamma, beta, dy
  const auto g = n.count(4, 4) ? groups_of(n) : std::nullopt;
  if (!g) return {};
  const Term x = term(n, 0);
  std::vector<Dim> per_channel(x.dims().size() - 1, Dim(1));
  per_channel[0] = x.dims()[1];
  const Term dy = reshape(term(n, 3) * reshape(term(n, 1), per_channel), *g);
  return reshape(norm_gradient(transform::normalised(reshape(x, *g), {2}, n.number("eps", 1e-5)), dy, {2}), x.dims()).v;
}
ValueId group_norm_backward_gamma(Node& n) {  // x, dy
  const auto g = n.count(2, 2) ? groups_of(n) : std::nullopt;
  if (!g) return {};
  const Term x = term(n, 0), unit = transform::normalised(reshape(x, *g), {2}, n.number("eps", 1e-5)).x;
  return sum(term(n, 1) * reshape(unit, x.dims()), transform::all_but(1, x.rank()), false).v;
}
ValueId group_norm_backward_beta(Node& n) {
  return n.count(2, 2) ? sum(term(n, 1), transform::all_but(1, n.rank(0)), false).v : ValueId();
}

// Layout ops.

ValueId rope_backward(Node& n) {  // inverse rotation
  RopeAttrs a;
  if (!reference_rope_style(n, &a)) return {};
  a.head_dim = n.integer("head_dim");
  a.n_rot = n.integer("n_rot", a.head_dim);
  a.layout = n.rank(0) == 3 ? AttentionLayout::Packed : AttentionLayout::BSHD;
  return n.good && n.count(3, 3) ? n.b.create(OpKind::Rope, {n.in[0], n.in[1], n.b.unary(OpKind::Neg, n.in[2])}, a) : ValueId();
}
ValueId cumsum_backward(Node& n) {
  const CumAttrs a{n.axis(n.integer("axis"), n.rank(0)), n.flag("exclusive"), true};
  return n.good && n.count(1, 1) ? n.b.create(OpKind::Cumsum, n.in, a) : ValueId();
}
// Adds slices of dy [before, indices, after] into zeros of the declared shape at axis `axis`.
ValueId added_at(Node& n, int64_t axis) {
  if (!n.count(2, 2) || axis < 0 || axis >= n.type.rank()) {
    n.fail(Code::BadAttribute, "the axis is out of range");
    return ValueId();
  }
  DimTable& t = n.b.dims();
  const auto& d = n.type.dims;
  const auto at = d.begin() + axis;
  const Dim before = t.product({d.begin(), at}), after = t.product({at + 1, d.end()}), count = t.product(sizes(n, n.in[1]));
  const ValueId index = n.b.reshape(n.b.cast(n.in[1], DType::I64), {Dim(1), count, Dim(1)});
  const ValueId zeros = n.b.expand(n.b.scalar(n.type.dtype, 0), {before, *at, after});
  const std::array operands{zeros, n.b.expand(index, {before, count, after}), n.b.reshape(n.in[0], {before, count, after})};
  return n.b.reshape(n.b.create(OpKind::ScatterElements, operands, ScatterAttrs{1, Reduction::Add}), d);
}
ValueId gather_backward(Node& n) { return added_at(n, n.axis(n.integer("axis"), n.type.rank())); }
ValueId scatter_add(Node& n) { return added_at(n, n.axis(n.integer("axis", 0), n.type.rank())); }

// Losses: logits [N,C], labels [N].

ValueId labels_of(Node& n) { return n.b.reshape(n.b.cast(n.in[1], DType::I64), {sizes(n, n.in[0])[0], Dim(1)}); }
ValueId cross_entropy(Node& n) {
  if (!n.count(2, 2) || n.rank(0) != 2) return {};
  const ValueId logs = n.b.create(OpKind::LogSoftmax, {n.in[0]}, AxisAttrs{1});
  const ValueId own = n.b.create(OpKind::GatherElements, {logs, labels_of(n)}, AxisAttrs{1});
  return n.b.reshape(n.b.unary(OpKind::Neg, own), {sizes(n, n.in[0])[0]});
}
ValueId cross_entropy_backward(Node& n) {
  if (!n.count(3, 3) || n.rank(0) != 2) return {};
  const Term x = term(n, 0), here = equal(Term{&n.b, labels_of(n)}, transform::count_up(n.b, x.dims()[1]));
  const Term p = transform::make(OpKind::Softmax, {x}, AxisAttrs{1});
  return ((p - Term{&n.b, n.b.cast(here.v, x.dtype())}) * reshape(term(n, 2), {x.dims()[0], Dim(1)})).v;
}

// Convolution and pooling.

ValueId max_pool_backward(Node& n) {  // x, dy
  if (!n.count(2, 2)) return {};
  const ConvAttrs c = reference_conv_attrs(n);
  PoolAttrs a;
  a.op = ReduceOp::Max;
  a.kernel = n.integers("kernel_size");
  a.strides = c.strides;
  a.pads_begin = c.pads_begin;
  a.pads_end = c.pads_end;
  a.dilations = c.dilations;
  return n.good ? transform::max_pool_gradient(term(n, 0), term(n, 1), std::move(a)).v : ValueId();
}

using ConvGradient = Term (*)(Term, Term, ConvAttrs, const std::vector<Dim>&);
template <ConvGradient kGradient>
ValueId conv_backward(Node& n) {  // dy, w or x, dy
  if (!n.count(2, 2)) return {};
  ConvAttrs a = reference_conv_attrs(n);
  const ValueId v = n.good ? kGradient(term(n, 0), term(n, 1), std::move(a), n.type.dims).v : ValueId();
  if (n.good && !v.valid()) n.fail(Code::BadShape, "needs operands and a result of the same axes, with known sizes that fit");
  return v;
}

// Attention.

// Returns the gradients by q, k and v.
std::optional<std::array<ValueId, 3>> attention_gradients(Node& n) {  // q, k, v, dy [, mask]
  AttentionAttrs a;
  if (!n.count(4, 5) || !reference_mask_kind(n, "mask_kind", &a)) return std::nullopt;
  const int64_t heads = n.integer("num_heads"), width = n.integer("head_dim");
  const auto layout = n.good ? reference_head_layout(n, heads) : std::nullopt;
  if (!layout || width < 1) return std::nullopt;
  if ((a.mask == MaskKind::Custom || a.mask == MaskKind::Bias) != (n.in.size() == 5)) {
    n.fail(Code::BadArity, "the mask kind and the number of inputs disagree");
    return std::nullopt;
  }
  a.num_heads = a.num_kv_heads = heads;
  a.layout = a.out_layout = *layout;
  a.scale = 1 / std::sqrt(static_cast<double>(width));
  a.finite_mask = true;
  Term mask = n.in.size() == 5 ? term(n, 4) : term(n, 0).with({});
  if (a.mask == MaskKind::Custom) mask = mask.with(reference_custom_mask(n, mask.v));
  const auto g = transform::attention_gradients(a, term(n, 0), term(n, 1), term(n, 2), mask, term(n, 3), false);
  return std::array{g.q.v, g.k.v, g.v.v};
}

ValueId attention_backward(Node& n) {
  static constexpr std::string_view kNames[] = {"Query", "Key", "Value"};
  const auto which = std::ranges::find(kNames, n.word("wrt"));
  if (which == std::end(kNames)) {
    n.fail(Code::BadAttribute, "\"wrt\" must be Query, Key or Value");
    return ValueId();
  }
  const auto all = attention_gradients(n);
  return all ? (*all)[static_cast<size_t>(which - kNames)] : ValueId();
}
// Concatenates the elements of all three.
ValueId attention_backward_all(Node& n) {
  const auto all = attention_gradients(n);
  return all ? reference_packed(n, *all) : ValueId();
}

}  // namespace

std::span<const ReferenceRow> reference_backward_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"ReluBackward", relu_backward},
      {"ActivationBackward", activation_backward},
      {"LayerNormBackwardInput", layer_norm_backward_input},
      {"LayerNormBackwardGamma", layer_norm_backward_gamma},
      {"RmsNormBackwardInput", rms_norm_backward_input},
      {"RmsNormBackwardGamma", rms_norm_backward_gamma},
      {"RmsNormBackwardBeta", rms_norm_backward_beta},
      {"GroupNormBackwardInput", group_norm_backward_input},
      {"GroupNormBackwardGamma", group_norm_backward_gamma},
      {"GroupNormBackwardBeta", group_norm_backward_beta},
      {"RopeBackward", rope_backward},
      {"CumsumBackward", cumsum_backward},
      {"GatherBackward", gather_backward},
      {"ScatterAdd", scatter_add},
      {"SoftmaxCrossEntropyWithLogits", cross_entropy},
      {"SoftmaxCrossEntropyBackward", cross_entropy_backward},
      {"MaxPool2dBackward", max_pool_backward},
      {"Conv2dBackwardInput", conv_backward<transform::conv_input_gradient>},
      {"Conv2dBackwardWeight", conv_backward<transform::conv_weight_gradient>},
      {"Conv3dBackwardInput", conv_backward<transform::conv_input_gradient>},
      {"Conv3dBackwardWeight", conv_backward<transform::conv_weight_gradient>},
      {"MaxPool3dBackward", max_pool_backward},
      {"AttentionBackward", attention_backward},
      {"AttentionBackwardAll", attention_backward_all},
  };
  return kRows;
}

}  // namespace rlxc::import_json
