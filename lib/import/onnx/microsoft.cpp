// Fused operators of com.microsoft, decomposed: https://github.com/microsoft/onnxruntime docs/ContribOperators.md
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Applies the function named by `activation`. Its parameters are `activation_params` in order, or attributes with the prefix
// `activation_` (FusedGemm).
ValueId activate(Op& op, ValueId x) {
  const std::string_view name = op.s("activation", "");
  if (name.empty() || !x.valid()) return x;
  const auto params = op.floats("activation_params");
  const auto parameter = [&](std::string_view attribute, size_t i, double fallback) {
    if (i < params.size()) return params[i];
    return attribute.empty() ? fallback : op.f("activation_" + std::string(attribute), fallback);
  };
  if (name == "Clip") {
    const ClampAttrs all;
    return op.b.create(OpKind::Clamp, {x}, ClampAttrs{parameter("min", 0, all.min), parameter("max", 1, all.max)});
  }
  const OpRow* row = find_row("", name);
  if (!row || row->handler != unary) return op.unsupported("activation " + quote(name)), ValueId();
  if (!std::holds_alternative<AlphaBetaAttrs>(default_attrs(row->kind))) return op.b.unary(row->kind, x);
  return op.b.create(row->kind, {x},
                     AlphaBetaAttrs{parameter(row->alpha_name, 0, row->alpha), parameter(row->beta_name, 1, row->beta)});
}

}  // namespace

namespace {

void skip_norm(Op& op, OpKind kind, size_t beta, size_t bias) {
  const ValueId x = op.in(0), skip = op.sizes(1) == op.sizes(0) ? op.in(1) : op.b.expand(op.in(1), op.sizes(0));
  const std::array operands{x, skip, op.in(bias), op.in(2), op.in(beta)};
  const double eps = op.f("epsilon", kind == OpKind::FusedResidualLN ? 1e-12 : 1e-5);
  const NodeId n = op.b.create_node(kind, operands, NormAttrs{op.rank(0) - 1, eps});
  if (!n.valid()) return;
  op.set(0, op.graph().result(n, 0));
  op.set(3, op.graph().result(n, 1));
  if (!op.wants(1) && !op.wants(2)) return;
  const ValueId sum = op.b.cast(op.graph().result(n, 1), DType::F32);
  const int64_t last = op.rank(0) - 1;
  const ValueId mean = op.b.reduce(ReduceOp::Mean, sum, {last}, true);
  const ValueId centred = kind == OpKind::FusedResidualLN ? op.b.sub(sum, mean) : sum;  // RMS norms have no mean
  const ValueId variance = op.b.reduce(ReduceOp::Mean, op.b.mul(centred, centred), {last}, true);
  if (kind == OpKind::FusedResidualLN) op.set(1, mean);
  op.set(2, op.b.unary(OpKind::Rsqrt, op.b.add(variance, op.b.scalar(DType::F32, eps))));
}

}  // namespace

void skip_layer_norm(Op& op) { skip_norm(op, OpKind::FusedResidualLN, 3, 4); }

void skip_rms_norm(Op& op) { skip_norm(op, OpKind::FusedResidualRmsNorm, SIZE_MAX, 3); }

void simplified_layer_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (axis) op.set(0, op.b.create(OpKind::RmsNorm, {op.in(0), op.in(1)}, NormAttrs{*axis, op.f("epsilon", 1e-5)}));
}

// Operands: ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids.
void embed_layer_norm(Op& op) {
  op.i("mask_index_type", 0);  // type of output 1, determined by the mask
  if (op.rank(0) != 2) return (void)op.fail(Code::BadShape, "needs ids [batch, length]: " + op.show(0));
  const auto look = [&](size_t table, ValueId at) { return op.b.create(OpKind::Gather, {op.in(table), at}, AxisAttrs{0}); };
  ValueId x = op.b.add(look(2, op.in(0)), look(3, op.has(8) ? op.in(8) : positions(op, op.sizes(0)[1])));
  if (op.has(1) && op.has(4)) x = op.b.add(x, look(4, op.in(1)));
  op.set(0, op.b.create(OpKind::LayerNorm, {x, op.in(5), op.in(6)}, NormAttrs{2, op.f("epsilon", 1e-12)}));
  if (op.wants(1)) {
    const ValueId counts = op.has(7) ? op.b.reduce(ReduceOp::Sum, op.b.cast(op.in(7), DType::I32), {1}, false)
                                     : op.b.expand(op.b.scalar(DType::I32, 0), {op.sizes(0)[0]});
    op.set(1, counts);
  }
  op.set(2, x);
}

// transBatchX: moves the first axis of X before the last one.
void fused_matmul(Op& op) {
  if (op.rank(0) < 2 || op.rank(1) < 2) return (void)op.unsupported("operands of rank 1");
  const auto operand = [&](size_t i, std::string_view attribute_name) {
    const ValueId x = op.in(i);
    if (op.i(attribute_name, 0) == 0) return x;
    std::vector<int64_t> perm;
    for (int64_t k = 1; k + 1 < op.rank(i); ++k) perm.push_back(k);
    perm.push_back(0);
    perm.push_back(op.rank(i) - 1);
    return op.b.transpose(x, std::move(perm));
  };
  const ValueId y =
      op.b.matmul(operand(0, "transBatchA"), operand(1, "transBatchB"), op.i("transA", 0) != 0, op.i("transB", 0) != 0);
  const double alpha = op.f("alpha", 1);
  op.set(0, alpha == 1 ? y : op.b.mul(y, op.b.scalar(op.dtype(0), alpha)));
}

void fused_gemm(Op& op) {
  gemm(op);
  if (op.failed() || op.results().empty() || !op.results()[0].valid()) return;
  op.set(0, activate(op, op.im.materialise(op.results()[0])));
}

void fused_conv(Op& op) {
  PadAttrs open;
  const auto a = conv_attrs(op, 1, &open);
  if (!a) return;
  std::vector<ValueId> operands{padded(op, op.in(0), std::move(open), {}), op.in(1)};
  if (op.has(2)) operands.push_back(op.in(2));
  ValueId y = op.b.create(OpKind::Conv, operands, *a);
  if (op.has(3)) y = op.b.add(y, op.in(3));
  op.set(0, activate(op, y));
}

// x [N,H,W,C]; w [Co,kh,kw,Ci/groups], or [Co,Ci/groups,kh,kw] with an activation; bias; a value to add.
void nhwc_conv(Op& op) {
  const bool fused = op.row.alpha != 0;
  if (op.rank(0) != 4 || op.rank(1) != 4) return (void)op.unsupported("needs x [N,H,W,C]: " + op.show(0));
  const auto& w = op.sizes(1);
  const auto a =
      conv_attrs(op, {op.sizes(0)[1], op.sizes(0)[2]}, fused ? std::vector<Dim>{w[2], w[3]} : std::vector<Dim>{w[1], w[2]});
  if (!a) return;
  std::vector<ValueId> operands{op.b.transpose(op.in(0), {0, 3, 1, 2}),
                                fused ? op.in(1) : op.b.transpose(op.in(1), {0, 3, 1, 2})};
  if (op.has(2)) operands.push_back(op.in(2));
  ValueId y = op.b.transpose(op.b.create(OpKind::Conv, operands, *a), {0, 2, 3, 1});
  if (op.has(3)) y = op.b.add(y, op.in(3));
  op.set(0, activate(op, y));
}

void nhwc_max_pool(Op& op) {
  if (op.rank(0) != 4) return (void)op.unsupported("needs x [N,H,W,C]: " + op.show(0));
  if (const auto a = pool_attrs(op, {op.sizes(0)[1], op.sizes(0)[2]}, ReduceOp::Max))
    op.set(0, op.b.transpose(op.b.create(OpKind::Pool, {op.b.transpose(op.in(0), {0, 3, 1, 2})}, *a), {0, 2, 3, 1}));
}

namespace {

// Operands: x [N,H,W,C] (channels_last 1) or [N,C,H,W], gamma, beta [C].
ValueId image_group_norm(Op& op, ValueId x) {
  const int64_t groups = op.i("groups", 0), activation = op.i("activation", 0);
  const bool last = op.i("channels_last", 1) != 0;
  if (groups < 1) return op.fail(Code::BadAttribute, "groups must be >= 1"), ValueId();
  if (activation != 0 && activation != 1) return op.fail(Code::BadAttribute, "activation must be 0 or 1"), ValueId();
  if (op.rank(0) != 4) return op.fail(Code::BadShape, "needs four axes: " + op.show(0)), ValueId();
  if (last) x = op.b.transpose(x, {0, 3, 1, 2});
  const DType t = op.dtype(0);
  ValueId y = op.b.create(OpKind::GroupNorm, {x, op.b.cast(op.in(1), t), op.b.cast(op.in(2), t)},
                          GroupNormAttrs{groups, op.f("epsilon", 1e-5)});
  if (last) y = op.b.transpose(y, {0, 2, 3, 1});
  return activation == 1 ? op.b.unary(OpKind::Silu, y) : y;
}

}  // namespace

void ms_group_norm(Op& op) { op.set(0, image_group_norm(op, op.in(0))); }

// Operands: x, gamma, beta, skip (also [N,C] or [N,1,1,C]), bias [C]. Results: the norm of their sum, the sum.
void skip_group_norm(Op& op) {
  ValueId skip = op.in(3);
  if (op.rank(3) == 2) skip = op.b.reshape(skip, {op.sizes(3)[0], Dim(1), Dim(1), op.sizes(3)[1]});
  ValueId sum = op.b.add(op.in(0), skip);
  if (op.has(4)) sum = op.b.add(sum, op.in(4));
  op.set(0, image_group_norm(op, sum));
  op.set(1, sum);
}

// Returns kind(x + bias).
void bias_unary(Op& op) { op.set(0, op.b.unary(op.row.kind, op.has(1) ? op.b.add(op.in(0), op.in(1)) : op.in(0))); }

void quick_gelu(Op& op) { op.set(0, op.b.create(OpKind::Swish, {op.in(0)}, AlphaBetaAttrs{op.f("alpha", 1.702), 0})); }

void bias_add(Op& op) { op.set(0, op.b.add(op.b.add(op.in(0), op.in(1)), op.in(2))); }

// The first half of the last axis times gelu of the second, after a bias.
void bias_split_gelu(Op& op) {
  const int64_t axis = op.rank(0) - 1;
  if (axis < 0) return (void)op.fail(Code::BadShape, "needs an axis: " + op.show(0));
  const ValueId x = op.b.add(op.in(0), op.in(1));
  const Dim half = op.dims().floor_div(op.sizes(0).back(), Dim(2));
  op.set(0, op.b.mul(op.b.narrow(x, axis, Dim(0), half), op.b.unary(OpKind::Gelu, op.b.narrow(x, axis, half, half))));
}

// Operands: x, w, bias.
void gemm_fast_gelu(Op& op) {
  ValueId y = op.b.matmul(op.in(0), op.in(1));
  if (op.has(2)) y = op.b.add(y, op.in(2));
  op.set(0, op.b.unary(OpKind::GeluApprox, y));
}

}  // namespace rlxc::onnx_import
