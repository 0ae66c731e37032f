// Gradients of the reference vocabulary, written out by their formulas.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;

std::vector<Dim> sizes(Node& n, ValueId v) {
  return v.valid() ? std::vector<Dim>(n.b.graph().dims(v).begin(), n.b.graph().dims(v).end()) : std::vector<Dim>();
}

// Arithmetic on values of one float type.
struct Math {
  Builder& b;
  DType t;
  explicit Math(Node& n) : b(n.b), t(n.in.empty() || !n.in[0].valid() ? DType::F32 : n.b.graph().dtype(n.in[0])) {}

  ValueId real(double v) { return b.scalar(t, v); }
  ValueId mul(ValueId x, ValueId y) { return b.mul(x, y); }
  ValueId mul(ValueId x, double y) { return b.mul(x, real(y)); }
  ValueId add(ValueId x, double y) { return b.add(x, real(y)); }
  ValueId minus_from(double x, ValueId y) { return b.sub(real(x), y); }
  ValueId f(OpKind k, ValueId x) { return b.unary(k, x); }
  ValueId square(ValueId x) { return b.mul(x, x); }
  ValueId where(OpKind compare, ValueId x, double y, ValueId yes, ValueId no) {
    return b.create(OpKind::Where, {b.create(compare, {x, real(y)}), yes, no});
  }
  ValueId mean(ValueId x, std::vector<int64_t> axes) { return b.reduce(ReduceOp::Mean, x, std::move(axes), true); }
  ValueId sum(ValueId x, std::vector<int64_t> axes, bool keep = false) {
    return b.reduce(ReduceOp::Sum, x, std::move(axes), keep);
  }
};

std::vector<int64_t> all_but_last(int rank) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max(rank - 1, 0)));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

ValueId relu_backward(Node& n) {
  Math m(n);
  return n.count(2, 2) ? m.where(OpKind::Gt, n.in[0], 0, n.in[1], m.real(0)) : ValueId();
}

// The derivative at x.
ValueId slope(Math& m, OpKind kind, ValueId x) {
  switch (kind) {
    case OpKind::Gelu: {
      const ValueId cdf = m.mul(m.add(m.f(OpKind::Erf, m.mul(x, 1 / std::numbers::sqrt2)), 1), 0.5);
      const ValueId pdf = m.mul(m.f(OpKind::Exp, m.mul(m.square(x), -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
      return m.b.add(cdf, m.mul(x, pdf));
    }
    case OpKind::GeluApprox: {
      const double c = std::sqrt(2 / std::numbers::pi);
      const ValueId x2 = m.square(x), t = m.f(OpKind::Tanh, m.mul(m.mul(x, m.add(m.mul(x2, 0.044715), 1)), c));
      const ValueId inner = m.mul(m.add(m.mul(x2, 3 * 0.044715), 1), c);
      return m.b.add(m.mul(m.add(t, 1), 0.5), m.mul(m.mul(m.mul(x, 0.5), m.minus_from(1, m.square(t))), inner));
    }
    case OpKind::Silu: {
      const ValueId s = m.f(OpKind::Sigmoid, x);
      return m.mul(s, m.add(m.mul(x, m.minus_from(1, s)), 1));
    }
    case OpKind::Relu: return m.where(OpKind::Gt, x, 0, m.real(1), m.real(0));
    case OpKind::Sigmoid: {
      const ValueId s = m.f(OpKind::Sigmoid, x);
      return m.mul(s, m.minus_from(1, s));
    }
    case OpKind::Tanh: return m.minus_from(1, m.square(m.f(OpKind::Tanh, x)));
    case OpKind::Exp: return m.f(OpKind::Exp, x);
    case OpKind::Log: return m.f(OpKind::Recip, x);
    case OpKind::Sqrt: return m.where(OpKind::Gt, x, 0, m.mul(m.f(OpKind::Rsqrt, x), 0.5), m.real(0));
    case OpKind::Rsqrt: {
      const ValueId r = m.f(OpKind::Rsqrt, x);
      return m.where(OpKind::Gt, x, 0, m.mul(m.mul(r, m.square(r)), -0.5), m.real(0));
    }
    case OpKind::Neg: return m.real(-1);
    case OpKind::Abs: return m.f(OpKind::Sign, x);
    case OpKind::Sin: return m.f(OpKind::Cos, x);
    case OpKind::Cos: return m.f(OpKind::Neg, m.f(OpKind::Sin, x));
    case OpKind::Tan: return m.add(m.square(m.f(OpKind::Tan, x)), 1);
    case OpKind::Atan: return m.f(OpKind::Recip, m.add(m.square(x), 1));
    case OpKind::Round: return m.real(1);
    default: return {};
  }
}

ValueId activation_backward(Node& n) {
  if (!n.count(2, 2)) return {};
  const std::string word = n.word(n.find("kind") ? "kind" : "activation");
  const auto kind = op_from_name(word);
  Math m(n);
  const ValueId d = kind ? slope(m, *kind, n.in[0]) : ValueId();
  if (!d.valid()) return n.fail(Code::UnsupportedAttribute, "the activation \"" + word + "\" has no derivative here"), ValueId();
  return m.mul(n.in[1], d);
}

// ---- Norms. `rows` are the axes of one row's statistics.

struct Normalised {
  ValueId x, r;  // (x-mean)/sqrt(var+eps), and 1/sqrt(var+eps)
};
Normalised normalised(Math& m, ValueId x, const std::vector<int64_t>& rows, double eps) {
  const ValueId centred = m.b.sub(x, m.mean(x, rows));
  const ValueId r = m.f(OpKind::Rsqrt, m.add(m.mean(m.square(centred), rows), eps));
  return {m.mul(centred, r), r};
}
ValueId norm_gradient(Math& m, const Normalised& v, ValueId g, const std::vector<int64_t>& rows) {
  const ValueId inner = m.b.sub(m.b.sub(g, m.mean(g, rows)), m.mul(v.x, m.mean(m.mul(g, v.x), rows)));
  return m.mul(inner, v.r);
}

ValueId layer_norm_backward_input(Node& n) {
  if (!n.count(3, 3)) return {};
  Math m(n);
  const std::vector<int64_t> last{n.rank(0) - 1};
  return norm_gradient(m, normalised(m, n.in[0], last, n.number("eps", 1e-5)), m.mul(n.in[2], n.in[1]), last);
}
ValueId layer_norm_backward_gamma(Node& n) {
  if (!n.count(2, 2)) return {};
  Math m(n);
  const Normalised v = normalised(m, n.in[0], {n.rank(0) - 1}, n.number("eps", 1e-5));
  return m.sum(m.mul(n.in[1], v.x), all_but_last(n.rank(0)));
}

ValueId rms_inverse(Math& m, Node& n) {
  return m.f(OpKind::Rsqrt, m.add(m.mean(m.square(n.in[0]), {n.rank(0) - 1}), n.number("eps", 1e-5)));
}
ValueId rms_norm_backward_input(Node& n) {  // x, gamma, beta, dy
  if (!n.count(4, 4)) return {};
  Math m(n);
  const ValueId r = rms_inverse(m, n), g = m.mul(n.in[3], n.in[1]), x = m.mul(n.in[0], r);
  return m.mul(m.b.sub(g, m.mul(x, m.mean(m.mul(g, x), {n.rank(0) - 1}))), r);
}
ValueId rms_norm_backward_gamma(Node& n) {
  if (!n.count(4, 4)) return {};
  Math m(n);
  return m.sum(m.mul(n.in[3], m.mul(n.in[0], rms_inverse(m, n))), all_but_last(n.rank(0)));
}
ValueId rms_norm_backward_beta(Node& n) { return n.count(4, 4) ? Math(n).sum(n.in[3], all_but_last(n.rank(0))) : ValueId(); }

// x [N,C,H,W] as [N, groups, rest].
std::vector<Dim> grouped(Node& n, ValueId x) {
  const auto d = sizes(n, x);
  const int64_t groups = n.integer("num_groups");
  if (d.size() < 2 || groups < 1) return n.fail(Code::BadShape, "needs [N,C,...] and groups"), std::vector<Dim>();
  return {d[0], Dim(groups), n.b.dims().floor_div(n.b.dims().product({d.begin() + 1, d.end()}), Dim(groups))};
}
ValueId group_norm_backward_input(Node& n) {  // x, gamma, beta, dy
  if (!n.count(4, 4)) return {};
  Math m(n);
  const auto d = sizes(n, n.in[0]), g = grouped(n, n.in[0]);
  if (!n.good) return {};
  std::vector<Dim> per_channel(d.size() - 1, Dim(1));
  per_channel[0] = d[1];
  const ValueId dg = m.mul(n.in[3], m.b.reshape(n.in[1], per_channel));
  const Normalised v = normalised(m, m.b.reshape(n.in[0], g), {2}, n.number("eps", 1e-5));
  return m.b.reshape(norm_gradient(m, v, m.b.reshape(dg, g), {2}), d);
}
std::vector<int64_t> all_but_channels(int rank) {
  std::vector<int64_t> axes{0};
  for (int64_t i = 2; i < rank; ++i) axes.push_back(i);
  return axes;
}
ValueId group_norm_backward_gamma(Node& n) {  // x, dy
  if (!n.count(2, 2)) return {};
  Math m(n);
  const auto g = grouped(n, n.in[0]);
  if (!n.good) return {};
  const Normalised v = normalised(m, m.b.reshape(n.in[0], g), {2}, n.number("eps", 1e-5));
  return m.sum(m.mul(n.in[1], m.b.reshape(v.x, sizes(n, n.in[0]))), all_but_channels(n.rank(0)));
}
ValueId group_norm_backward_beta(Node& n) {
  return n.count(2, 2) ? Math(n).sum(n.in[1], all_but_channels(n.rank(0))) : ValueId();
}

// ---- Movement.

ValueId rope_backward(Node& n) {  // the inverse rotation
  RopeAttrs a;
  a.head_dim = n.integer("head_dim"), a.n_rot = n.integer("n_rot", a.head_dim);
  a.layout = n.rank(0) == 3 ? AttentionLayout::Packed : AttentionLayout::BSHD;
  return n.good && n.count(3, 3) ? n.b.create(OpKind::Rope, {n.in[0], n.in[1], n.b.unary(OpKind::Neg, n.in[2])}, a) : ValueId();
}
ValueId cumsum_backward(Node& n) {
  const CumAttrs a{n.axis(n.integer("axis"), n.rank(0)), n.flag("exclusive"), true};
  return n.good && n.count(1, 1) ? n.b.create(OpKind::Cumsum, n.in, a) : ValueId();
}
// Slices of dy [before, indices, after] added into zeros of the declared shape at axis `axis`.
ValueId added_at(Node& n, int64_t axis) {
  if (!n.count(2, 2) || axis < 0 || axis >= n.type.rank())
    return n.fail(Code::BadAttribute, "the axis is out of range"), ValueId();
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

// ---- Losses: logits [N,C], labels [N].

ValueId labels_of(Node& n) { return n.b.reshape(n.b.cast(n.in[1], DType::I64), {sizes(n, n.in[0])[0], Dim(1)}); }
ValueId cross_entropy(Node& n) {
  if (!n.count(2, 2) || n.rank(0) != 2) return {};
  const ValueId logs = n.b.create(OpKind::LogSoftmax, {n.in[0]}, AxisAttrs{1});
  const ValueId own = n.b.create(OpKind::GatherElements, {logs, labels_of(n)}, AxisAttrs{1});
  return n.b.reshape(n.b.unary(OpKind::Neg, own), {sizes(n, n.in[0])[0]});
}
ValueId cross_entropy_backward(Node& n) {
  if (!n.count(3, 3) || n.rank(0) != 2) return {};
  Math m(n);
  const auto d = sizes(n, n.in[0]);
  const ValueId classes =
      m.b.create(OpKind::Range, {m.b.scalar(DType::I64, 0), m.b.scalar(DType::I64, 1)}, DimsAttrs{{d[1]}, false});
  const ValueId hot = m.b.cast(m.b.create(OpKind::Eq, {labels_of(n), classes}), m.t);
  const ValueId p = m.b.create(OpKind::Softmax, {n.in[0]}, AxisAttrs{1});
  return m.mul(m.b.sub(p, hot), m.b.reshape(n.in[2], {d[0], Dim(1)}));
}

// ---- Convolution and pooling.

ValueId max_pool_backward(Node& n) {  // x, dy
  if (!n.count(2, 2)) return {};
  const ConvAttrs c = reference_conv_attrs(n);
  PoolAttrs a;
  a.op = ReduceOp::Max;
  a.kernel = n.integers("kernel_size"), a.strides = c.strides, a.pads_begin = c.pads_begin, a.pads_end = c.pads_end,
  a.dilations = c.dilations;
  if (!n.good) return {};
  const NodeId made = n.b.create_node(OpKind::MaxPoolIndices, std::array{n.in[0]}, std::move(a));
  if (!made.valid()) return {};
  const auto d = sizes(n, n.in[0]);
  const Dim all = n.b.dims().product(d), count = n.b.dims().product(sizes(n, n.in[1]));
  const ValueId index = n.b.reshape(n.b.graph().result(made, 1), {count}), zeros = n.b.expand(n.b.scalar(n.type.dtype, 0), {all});
  return n.b.reshape(
      n.b.create(OpKind::ScatterElements, {zeros, index, n.b.reshape(n.in[1], {count})}, ScatterAttrs{0, Reduction::Add}), d);
}

ValueId conv_backward_input(Node& n) {  // dy, w
  if (!n.count(2, 2)) return {};
  ConvAttrs a = reference_conv_attrs(n);
  const auto dy = sizes(n, n.in[0]), w = sizes(n, n.in[1]);
  if (!n.good || dy.size() != w.size() || static_cast<size_t>(n.type.rank()) != dy.size() || a.strides.size() + 2 != dy.size())
    return n.fail(Code::BadShape, "dy, w and the result need the same axes"), ValueId();
  for (size_t i = 0; i < a.strides.size(); ++i) {
    DimTable& t = n.b.dims();
    const auto out = t.constant_value(dy[i + 2]), k = t.constant_value(w[i + 2]), want = t.constant_value(n.type.dims[i + 2]);
    if (!out || !k || !want) return n.fail(Code::UnsupportedAttribute, "needs known sizes"), ValueId();
    a.output_padding[i] = *want - ((*out - 1) * a.strides[i] - a.pads_begin[i] - a.pads_end[i] + a.dilations[i] * (*k - 1) + 1);
  }
  return n.b.create(OpKind::ConvTranspose, n.in, std::move(a));
}

// dw[o,c,u,v] is a correlation of x and dy over the batch: the batch takes the place of the channels, dy that of the kernel.
ValueId conv_backward_weight(Node& n) {  // x, dy
  if (!n.count(2, 2)) return {};
  ConvAttrs a = reference_conv_attrs(n);
  const auto x = sizes(n, n.in[0]), dy = sizes(n, n.in[1]);
  if (!n.good || x.size() != 4 || dy.size() != 4 || n.type.rank() != 4 || a.groups < 1)
    return n.fail(Code::BadShape, "needs x, dy and w of four axes"), ValueId();
  DimTable& t = n.b.dims();
  const Dim g(a.groups), each = t.floor_div(x[1], g);
  const ValueId images = n.b.reshape(n.b.transpose(n.b.reshape(n.in[0], {x[0], g, each, x[2], x[3]}), {2, 1, 0, 3, 4}),
                                     {each, t.mul(g, x[0]), x[2], x[3]});
  std::swap(a.strides, a.dilations);
  ValueId dw = n.b.create(OpKind::Conv, {images, n.b.transpose(n.in[1], {1, 0, 2, 3})}, std::move(a));
  for (int64_t i = 2; i < 4 && dw.valid(); ++i)
    if (const Dim want = n.type.dims[static_cast<size_t>(i)]; !t.equal(sizes(n, dw)[static_cast<size_t>(i)], want))
      dw = n.b.narrow(dw, i, Dim(0), want);
  return n.b.transpose(dw, {1, 0, 2, 3});
}

// ---- Attention.

ValueId attention_backward(Node& n) {  // q, k, v, dy [, mask]
  AttentionAttrs a;
  if (!n.count(4, 5) || !reference_mask_kind(n, "mask_kind", &a)) return {};
  const int64_t heads = n.integer("num_heads"), width = n.integer("head_dim");
  const auto layout = n.good ? reference_head_layout(n, heads) : std::nullopt;
  const std::string wrt = n.word("wrt");
  if (!layout || width < 1) return {};
  if ((a.mask == MaskKind::Custom || a.mask == MaskKind::Bias) != (n.in.size() == 5))
    return n.fail(Code::BadArity, "the mask kind and the number of inputs disagree"), ValueId();
  Math m(n);
  Builder& b = n.b;
  const auto heads_first = [&](ValueId x) {
    const auto d = sizes(n, x);
    if (*layout == AttentionLayout::BHSD) return x;
    return b.transpose(*layout == AttentionLayout::Packed ? b.reshape(x, {d[0], d[1], Dim(heads), Dim(width)}) : x, {0, 2, 1, 3});
  };
  const ValueId q = heads_first(n.in[0]), k = heads_first(n.in[1]), v = heads_first(n.in[2]), dy = heads_first(n.in[3]);
  if (!q.valid() || !k.valid() || !v.valid() || !dy.valid()) return {};
  const Dim rows = sizes(n, q)[2], keys = sizes(n, k)[2];
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  ValueId s = m.mul(b.matmul(q, k, false, true), scale);
  const auto hide = [&](ValueId seen) { s = b.create(OpKind::Where, {seen, s, m.real(-1e9)}); };
  const auto numbers = [&](Dim count) {
    return b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{count}, false});
  };
  if (a.mask == MaskKind::Causal || a.mask == MaskKind::SlidingWindow) {
    const ValueId past = b.create(OpKind::DimValue, {}, DimsAttrs{{b.dims().sub(keys, rows)}, true});
    const ValueId at = b.add(b.reshape(numbers(rows), {rows, Dim(1)}), past), key = numbers(keys);
    hide(b.create(OpKind::Le, {key, at}));
    if (a.mask == MaskKind::SlidingWindow)
      hide(b.create(OpKind::Ge, {key, b.sub(at, b.scalar(DType::I64, static_cast<double>(a.window)))}));
  }
  if (a.mask == MaskKind::Custom) hide(reference_custom_mask(n, n.in[4]));
  if (a.mask == MaskKind::Bias) s = b.add(s, n.in[4]);
  const ValueId p = b.create(OpKind::Softmax, {s}, AxisAttrs{3});
  ValueId g;
  if (wrt == "Value") {
    g = b.matmul(p, dy, true);
  } else {
    const ValueId dp = b.matmul(dy, v, false, true), pd = m.mul(p, dp);
    const ValueId ds = m.mul(b.sub(pd, m.mul(p, m.sum(pd, {3}, true))), scale);
    if (wrt == "Query") g = b.matmul(ds, k);
    else if (wrt == "Key") g = b.matmul(ds, q, true);
    else return n.fail(Code::BadAttribute, "\"wrt\" must be Query, Key or Value"), ValueId();
  }
  if (*layout != AttentionLayout::BHSD) g = b.transpose(g, {0, 2, 1, 3});
  return *layout == AttentionLayout::Packed ? b.reshape(g, n.type.dims) : g;
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
      {"Conv2dBackwardInput", conv_backward_input},
      {"Conv2dBackwardWeight", conv_backward_weight},
      {"AttentionBackward", attention_backward},
  };
  return kRows;
}

}  // namespace rlxc::import_json
