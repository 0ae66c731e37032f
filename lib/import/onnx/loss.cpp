// Losses, and single optimiser steps of ai.onnx.preview.training.
#include <numeric>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

// -weight[target] * log_prob[target], reduced. Operands: target at 1, weights per class at 2.
ValueId negative_log_likelihood(Op& op, ValueId log_prob) {
  if (!log_prob.valid()) return {};
  const DType t = op.dtype(0);
  if (op.rank(0) < 2 || op.rank(1) != op.rank(0) - 1)
    return op.fail(Code::BadShape, "needs scores [N,C,...] and targets [N,...]: " + op.show(0) + ", " + op.show(1)), ValueId();
  const std::string_view reduction = op.s("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return op.fail(Code::BadAttribute, "reduction must be none, sum or mean"), ValueId();
  ValueId target = op.b.cast(op.in(1), DType::I64), ignored;
  if (op.has_attr("ignore_index")) {
    ignored = op.b.create(OpKind::Eq, {target, op.b.scalar(DType::I64, static_cast<double>(op.i("ignore_index", 0)))});
    target = op.b.create(OpKind::Where, {ignored, op.b.scalar(DType::I64, 0), target});
  }
  std::vector<Dim> sizes = op.sizes(1), column = sizes;
  column.insert(column.begin() + 1, Dim(1));
  const ValueId picked = op.b.create(OpKind::GatherElements, {log_prob, op.b.reshape(target, column)}, AxisAttrs{1});
  ValueId loss = op.b.unary(OpKind::Neg, op.b.reshape(picked, sizes)), weight;
  if (op.has(2)) weight = op.b.create(OpKind::Gather, {op.in(2), target}, AxisAttrs{0});
  if (ignored.valid())
    weight = op.b.create(OpKind::Where, {ignored, op.b.scalar(t, 0), weight.valid() ? weight : op.b.scalar(t, 1)});
  if (weight.valid()) loss = op.b.mul(loss, weight);
  if (reduction == "none") return loss;
  std::vector<int64_t> all(sizes.size());
  std::iota(all.begin(), all.end(), 0);
  if (reduction == "sum" || weight.valid()) {
    const ValueId sum = op.b.reduce(ReduceOp::Sum, loss, all, false);
    return reduction == "sum" ? sum : op.b.div(sum, op.b.reduce(ReduceOp::Sum, weight, all, false));
  }
  return op.b.reduce(ReduceOp::Mean, loss, all, false);
}

// The operands of an optimiser: rate, update count, then n tensors of each of `kinds` kinds: parameters, gradients, ...
struct Optimiser {
  Op& op;
  size_t kinds, n = 0;
  ValueId rate, count;

  Optimiser(Op& o, size_t k) : op(o), kinds(k) {
    if ((op.inputs() - 2) % k == 0) n = (op.inputs() - 2) / k;
    else op.fail(Code::BadArity, "has " + std::to_string(op.inputs()) + " inputs");
    for (size_t i = 0; i < op.inputs(); ++i)
      if (!op.has(i)) n = (op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent"), 0);
    if (n == 0) return;
    rate = op.b.reshape(op.in(0), {});
    count = op.b.reshape(op.in(1), {});
  }
  ValueId get(size_t kind, size_t i) const { return op.in(2 + kind * n + i); }
  ValueId constant(double v) const { return op.b.scalar(op.dtype(2), v); }
  ValueId scaled(double s, ValueId v) const { return op.b.mul(constant(s), v); }
  ValueId square(ValueId v) const { return op.b.mul(v, v); }
  ValueId root(ValueId v, double eps) const { return op.b.add(op.b.unary(OpKind::Sqrt, v), constant(eps)); }
  ValueId regularised(size_t i) const { return op.b.add(scaled(op.f("norm_coefficient", 0), get(0, i)), get(1, i)); }
  ValueId updates() const { return op.b.cast(count, op.dtype(2)); }
  ValueId if_updated(ValueId yes, ValueId no) const {
    return op.b.create(OpKind::Where, {op.b.create(OpKind::Gt, {count, op.b.scalar(op.dtype(1), 0)}), yes, no});
  }
};

}  // namespace

void nll_loss(Op& op) { op.set(0, negative_log_likelihood(op, op.in(0))); }

void softmax_cross_entropy(Op& op) {
  if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "needs scores [N,C,...]: " + op.show(0));
  const ValueId log_prob = op.b.create(OpKind::LogSoftmax, {op.in(0)}, AxisAttrs{1});
  op.set(0, negative_log_likelihood(op, log_prob));
  op.set(1, log_prob);
}

void adagrad(Op& op) {
  const Optimiser o(op, 3);
  const double decay = op.f("decay_factor", 0), eps = op.f("epsilon", 1e-6);
  for (size_t i = 0; i < o.n; ++i) {
    const ValueId rate = op.b.div(o.rate, op.b.add(o.constant(1), o.scaled(decay, o.updates()))), g = o.regularised(i);
    const ValueId h = op.b.add(o.get(2, i), o.square(g));
    op.set(i, op.b.sub(o.get(0, i), op.b.div(op.b.mul(rate, g), o.root(h, eps))));
    op.set(o.n + i, h);
  }
}

void adam(Op& op) {
  const Optimiser o(op, 4);
  const double alpha = op.f("alpha", 0.9), beta = op.f("beta", 0.999), eps = op.f("epsilon", 9.99999997475243e-07);
  for (size_t i = 0; i < o.n; ++i) {
    const ValueId g = o.regularised(i), v = op.b.add(o.scaled(alpha, o.get(2, i)), o.scaled(1 - alpha, g));
    const ValueId h = op.b.add(o.scaled(beta, o.get(3, i)), o.scaled(1 - beta, o.square(g)));
    const auto rest = [&](double base) {
      return op.b.sub(o.constant(1), op.b.create(OpKind::Pow, {o.constant(base), o.updates()}));
    };
    const ValueId adjusted = op.b.div(op.b.mul(o.rate, op.b.unary(OpKind::Sqrt, rest(beta))), rest(alpha));
    const ValueId x = op.b.sub(o.get(0, i), op.b.mul(o.if_updated(adjusted, o.rate), op.b.div(v, o.root(h, eps))));
    op.set(i, o.scaled(1 - op.f("norm_coefficient_post", 0), x));
    op.set(o.n + i, v);
    op.set(2 * o.n + i, h);
  }
}

void momentum(Op& op) {
  const Optimiser o(op, 3);
  const double alpha = op.f("alpha", 0), beta = op.f("beta", 0);
  const std::string_view mode = op.s("mode", "standard");
  if (mode != "standard" && mode != "nesterov") return (void)op.fail(Code::BadAttribute, "mode must be standard or nesterov");
  for (size_t i = 0; i < o.n; ++i) {
    const ValueId g = o.regularised(i), dampened = op.b.mul(o.if_updated(o.constant(beta), o.constant(1)), g);
    const ValueId v = op.b.add(o.scaled(alpha, o.get(2, i)), dampened);
    const ValueId step = mode == "standard" ? v : op.b.add(g, o.scaled(alpha, v));
    op.set(i, op.b.sub(o.get(0, i), op.b.mul(o.rate, step)));
    op.set(o.n + i, v);
  }
}

}  // namespace rlxc::onnx_import
