// Normalisation.
#include <array>
#include <numeric>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

void batch_norm(Op& op) {
  const bool training =
      (op.opset >= 14 && op.i("training_mode", 0) != 0) || (op.opset < 7 && op.i("is_test", 0) == 0 && op.outputs() > 1);
  if (op.rank(0) < 1) return (void)op.fail(Code::BadShape, "needs [N,C,...]: " + op.show(0));
  const int64_t axis = op.rank(0) == 1 ? 0 : 1;
  const double eps = op.f("epsilon", 1e-5);
  const DType t = op.dtype(0);
  const ValueId x = op.in(0);
  std::array<ValueId, 4> p;  // scale, shift, mean, variance; may have a wider type than x
  for (size_t i = 0; i < 4; ++i) p[i] = op.b.cast(op.in(i + 1), t);
  if (op.opset < 9 && op.i("spatial", 1) == 0 && op.rank(1) > 1) {  // statistics per feature instead of per channel
    if (training) return (void)op.unsupported("training with spatial 0");
    const ValueId factor = op.b.mul(p[0], op.b.unary(OpKind::Rsqrt, op.b.add(p[3], op.b.scalar(t, eps))));
    return op.set(0, op.b.add(op.b.mul(op.b.sub(x, p[2]), factor), p[1]));
  }
  if (training) {
    if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "training needs [N,C,...]: " + op.show(0));
    const double momentum = op.f("momentum", 0.9);
    std::vector<int64_t> axes{0};
    for (int64_t i = 2; i < op.rank(0); ++i) axes.push_back(i);
    const ValueId mean = op.b.reduce(ReduceOp::Mean, x, axes, false), wide = op.b.reduce(ReduceOp::Mean, x, axes, true);
    const ValueId centred = op.b.sub(x, wide), var = op.b.reduce(ReduceOp::Mean, op.b.mul(centred, centred), axes, false);
    const auto running = [&](ValueId old, ValueId now) {
      return op.b.add(op.b.mul(old, op.b.scalar(t, momentum)), op.b.mul(now, op.b.scalar(t, 1 - momentum)));
    };
    if (op.wants(1)) op.set(1, op.b.cast(running(p[2], mean), op.dtype(3)));
    if (op.wants(2)) op.set(2, op.b.cast(running(p[3], var), op.dtype(4)));
    p[2] = mean;
    p[3] = var;
  }
  op.set(0, op.b.create(OpKind::BatchNormInference, {x, p[0], p[1], p[2], p[3]}, NormAttrs{axis, eps}));
}

namespace {

// A norm over the axes from `axis` on with scale and shift (inputs 1 and 2). If these do not have the normalised axes but
// broadcast in another way, the norm has a scale of ones and they are applied after it.
ValueId scaled_norm(Op& op, OpKind kind, int64_t axis, double eps) {
  const auto& d = op.sizes(0);
  const std::vector<Dim> normalised(d.begin() + axis, d.end());
  const auto fits = [&](size_t i) {
    const auto& s = op.sizes(i);
    if (s.size() != normalised.size()) return false;
    for (size_t k = 0; k < s.size(); ++k)
      if (s[k] == Dim(1) && !(normalised[k] == Dim(1))) return false;
    return true;
  };
  std::vector<ValueId> operands{op.in(0)};
  if (fits(1) && (!op.has(2) || fits(2))) {
    for (size_t i = 1; i < op.inputs(); ++i) operands.push_back(op.in(i));
    return op.b.create(kind, operands, NormAttrs{axis, eps});
  }
  operands.push_back(op.b.expand(op.b.scalar(op.dtype(1), 1), normalised));
  const ValueId y = op.b.mul(op.b.create(kind, operands, NormAttrs{axis, eps}), op.in(1));
  return op.has(2) ? op.b.add(y, op.in(2)) : y;
}

}  // namespace

void layer_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis) return;
  const double eps = op.f("epsilon", 1e-5);
  const ValueId x = op.in(0);
  op.set(0, scaled_norm(op, OpKind::LayerNorm, *axis, eps));
  if (!op.wants(1) && !op.wants(2)) return;
  std::vector<int64_t> axes(static_cast<size_t>(op.rank(0) - *axis));
  std::iota(axes.begin(), axes.end(), *axis);
  const ValueId wide = op.b.cast(x, DType::F32), mean = op.b.reduce(ReduceOp::Mean, wide, axes, true),
                centred = op.b.sub(wide, mean);
  const ValueId var = op.b.reduce(ReduceOp::Mean, op.b.mul(centred, centred), axes, true);
  if (op.wants(1)) op.set(1, mean);
  if (op.wants(2)) op.set(2, op.b.unary(OpKind::Rsqrt, op.b.add(var, op.b.scalar(DType::F32, eps))));
}

void rms_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (axis) op.set(0, scaled_norm(op, OpKind::RmsNorm, *axis, op.f("epsilon", 1e-5)));
}

// Scale and shift are per group up to opset 20, then per channel.
void group_norm(Op& op) {
  const int64_t groups = op.i("num_groups", 0);
  if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "needs [N,C,...]: " + op.show(0));
  if (groups < 1) return (void)op.fail(Code::BadAttribute, "num_groups is " + std::to_string(groups) + ", must be >= 1");
  ValueId gamma = op.in(1), beta = op.in(2);
  if (op.opset < 21 && op.rank(1) == 1 && op.rank(2) == 1) {
    const Dim channels = op.sizes(0)[1], each = op.dims().floor_div(channels, Dim(groups));
    const auto widen = [&](ValueId v) {
      return op.b.reshape(op.b.expand(op.b.reshape(v, {Dim(groups), Dim(1)}), {Dim(groups), each}), {channels});
    };
    gamma = widen(gamma);
    beta = widen(beta);
  }
  op.set(0, op.b.create(OpKind::GroupNorm, {op.in(0), gamma, beta}, GroupNormAttrs{groups, op.f("epsilon", 1e-5)}));
}

void instance_norm(Op& op) {
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs [N,C,...] of rank >= 3: " + op.show(0));
  auto channels = op.dims().constant_value(op.sizes(0)[1]);
  if (!channels && op.rank(1) == 1) channels = op.dims().constant_value(op.sizes(1)[0]);  // has one entry per channel
  if (!channels || *channels < 1) return (void)op.unsupported("the number of channels must be known");
  op.set(0, op.b.create(OpKind::GroupNorm, {op.in(0), op.in(1), op.in(2)}, GroupNormAttrs{*channels, op.f("epsilon", 1e-5)}));
}

void lp_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  const int64_t p = op.i("p", 2);
  if (!axis) return;
  if (p != 1 && p != 2) return (void)op.fail(Code::BadAttribute, "p is " + std::to_string(p) + ", must be 1 or 2");
  const ValueId norm = op.b.reduce(p == 1 ? ReduceOp::L1 : ReduceOp::L2, op.in(0), {*axis}, true);
  const ValueId zero = op.b.scalar(op.dtype(0), 0), is_zero = op.b.create(OpKind::Eq, {norm, zero});  // 0/0 is defined as 0
  op.set(0, op.b.create(OpKind::Where, {is_zero, zero, op.b.div(op.in(0), norm)}));
}

void mean_variance_norm(Op& op) {  // (x - mean) / (sqrt(var) + 1e-9)
  std::vector<int64_t> list = op.ints("axes");
  if (op.opset < 9) {  // each image by itself
    for (int64_t k = op.i("across_channels", 0) != 0 ? 1 : 2; k < op.rank(0); ++k) list.push_back(k);
  } else if (!op.has_attr("axes")) {
    list = {0, 2, 3};
  }
  const auto axes = op.axes(list, op.rank(0));
  if (!axes) return;
  // The variance is the mean of squares: a difference of means may be negative where all elements are alike.
  const ValueId x = op.in(0), centred = op.b.sub(x, op.b.reduce(ReduceOp::Mean, x, *axes, true));
  if (op.i("normalize_variance", 1) == 0) return op.set(0, centred);
  const ValueId deviation = op.b.unary(OpKind::Sqrt, op.b.reduce(ReduceOp::Mean, op.b.mul(centred, centred), *axes, true));
  op.set(0, op.b.div(centred, op.b.add(deviation, op.b.scalar(op.dtype(0), 1e-9))));
}

void lrn(Op& op) {
  const int64_t n = op.i("size", 0);
  if (n < 1) return (void)op.fail(Code::BadAttribute, "size is " + std::to_string(n) + ", must be >= 1");
  op.set(0, op.b.create(OpKind::Lrn, {op.in(0)}, LrnAttrs{n, op.f("alpha", 1e-4), op.f("beta", 0.75), op.f("bias", 1)}));
}

}  // namespace rlxc::onnx_import
