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
  const auto params = op.floats("activation_params");
  for (const char* other : {"activation_alpha", "activation_beta", "activation_gamma"}) op.f(other, 0);  // not all have a meaning
  if (name.empty() || !x.valid()) return x;
  const auto parameter = [&](std::string_view attribute, size_t i, double fallback) {
    if (i < params.size()) return params[i];
    return attribute.empty() ? fallback : op.f("activation_" + std::string(attribute), fallback);
  };
  if (name == "Clip") {
    const ClampAttrs all;
    return op.b.create(OpKind::Clamp, {x}, ClampAttrs{parameter("min", 0, all.min), parameter("max", 1, all.max)});
  }
  const OpRow* row = find_row("", name);
  if (!row || row->handler != unary) {
    op.unsupported("activation " + quote(name));
    return ValueId();
  }
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
  const auto wide = [&](ValueId v) { return op.b.cast(v, DType::F32); };
  ValueId sum = op.b.add(wide(x), wide(skip));  // not rounded to the type of x
  if (op.has(bias)) sum = op.b.add(sum, wide(op.in(bias)));
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

ValueId real_tokens(Op& op, size_t mask) {
  return op.has(mask) ? op.b.reduce(ReduceOp::Sum, op.b.cast(op.in(mask), DType::I32), {1}, false)
                      : op.b.expand(op.b.scalar(DType::I32, 0), {op.sizes(0)[0]});
}

// Operands: ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids.
void embed_layer_norm(Op& op) {
  op.i("mask_index_type", 0);  // type of output 1, determined by the mask
  if (op.rank(0) != 2) return (void)op.fail(Code::BadShape, "needs ids [batch, length]: " + op.show(0));
  const auto look = [&](size_t table, ValueId at) { return op.b.create(OpKind::Gather, {op.in(table), at}, AxisAttrs{0}); };
  ValueId x = op.b.add(look(2, op.in(0)), look(3, op.has(8) ? op.in(8) : positions(op, op.sizes(0)[1])));
  if (op.has(1) && op.has(4)) x = op.b.add(x, look(4, op.in(1)));
  op.set(0, op.b.create(OpKind::LayerNorm, {x, op.in(5), op.in(6)}, NormAttrs{2, op.f("epsilon", 1e-12)}));
  if (op.wants(1)) op.set(1, real_tokens(op, 7));
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

void fused_matmul_activation(Op& op) {
  op.i("activation_axis", -1);  // of Softmax, which is no activation here
  fused_matmul(op);
  if (!op.failed() && op.results()[0].valid()) op.set(0, activate(op, op.im.materialise(op.results()[0])));
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
  if (groups < 1) {
    op.fail(Code::BadAttribute, "groups must be >= 1");
    return ValueId();
  }
  if (activation != 0 && activation != 1) {
    op.fail(Code::BadAttribute, "activation must be 0 or 1");
    return ValueId();
  }
  if (op.rank(0) != 4) {
    op.fail(Code::BadShape, "needs four axes: " + op.show(0));
    return ValueId();
  }
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

// The softmax of data + bias, over all axes from `axis` on.
void bias_softmax(Op& op) {
  const auto axis = op.axis(op.i("axis", 1), op.rank(0));
  op.i("is_inner_broadcast", 0);  // the dims of the bias say it
  if (!axis) return;
  const std::vector<Dim> d = op.sizes(0);
  const auto cut = d.begin() + *axis;
  const ValueId x =
      op.b.reshape(op.b.add(op.in(0), op.in(1)), {op.dims().product({d.begin(), cut}), op.dims().product({cut, d.end()})});
  op.set(0, op.b.reshape(op.b.create(OpKind::Softmax, {x}, AxisAttrs{1}), d));
}

// Dropout at inference: data, + bias, + a value to add; and a mask of ones. Row alpha 1: the mask is packed into words of 32
// bits. BitmaskDropout has data alone.
void bias_dropout(Op& op) {
  const bool packed = op.row.alpha != 0, alone = op.row.max_in == 3;
  const size_t ratio = alone ? 1 : 3;
  op.i("seed", 0);
  if (op.has(ratio + 1)) {
    const auto training = op.need_reals(ratio + 1, "training mode");
    if (!training || training->size() != 1) return;
    if ((*training)[0] != 0) return (void)op.unsupported("training: the elements that are dropped are random");
  }
  ValueId x = op.in(0);
  for (size_t i = 1; i < (alone ? 1U : 3U); ++i)
    if (op.has(i)) x = op.b.add(x, op.in(i));
  op.set(0, x);
  if (!op.wants(1)) return;
  const Dim words = op.dims().ceil_div(op.dims().product(op.sizes(0)), Dim(32));
  op.set(1, packed ? op.b.expand(op.b.scalar(DType::U32, 4294967295.0), {words})
                   : op.b.expand(op.b.scalar(DType::Bool, 1), op.sizes(0)));
}

// x of rank 1 to 3 by the scale's width, times a gate.
void gated_rms_norm(Op& op) {
  const std::string_view name = op.s("activation", "silu");
  if (name != "silu" && name != "sigmoid") return (void)op.fail(Code::BadAttribute, "activation must be silu or sigmoid");
  if (op.rank(0) < 1 || op.rank(1) != 1) return (void)op.fail(Code::BadShape, "needs x [...,C] and a scale [C]");
  Builder& b = op.b;
  const auto wide = [&](size_t i) { return b.cast(op.in(i), DType::F32); };
  const Dim width = op.sizes(1)[0], rows = op.dims().floor_div(op.dims().product(op.sizes(0)), width);
  const ValueId x = b.create(OpKind::RmsNorm, {b.reshape(wide(0), {rows, width}), wide(1)}, NormAttrs{1, op.f("epsilon", 1e-5)});
  const ValueId gate = b.unary(name == "silu" ? OpKind::Silu : OpKind::Sigmoid, wide(2));
  op.set(0, b.cast(b.mul(b.reshape(x, op.sizes(0)), gate), op.dtype(0)));
}

// Operands: a [...,H], bias [H], scale [H], b [...,H]. Results: scale * softplus(a + bias), sigmoid(b).
void linear_attention_gate(Op& op) {
  const auto wide = [&](size_t i) { return op.b.cast(op.in(i), DType::F32); };
  const ValueId decay = op.b.mul(op.b.unary(OpKind::Softplus, op.b.add(wide(0), wide(1))), wide(2));
  op.set(0, op.b.cast(decay, op.dtype(0)));
  if (!op.wants(1)) return;
  if (!op.has(3)) return (void)op.fail(Code::BadArity, "input 3 is absent");
  op.set(1, op.b.cast(op.b.unary(OpKind::Sigmoid, wide(3)), op.dtype(0)));
}

void gated_add(Op& op) { op.set(0, op.b.add(op.in(0), op.b.mul(op.in(1), op.in(2)))); }

// Operands: angles [B,S,D], q and q rotated by a half [B,N,S,D], k and k rotated.
void gemma_rotary(Op& op) {
  if (op.rank(0) != 3) return (void)op.fail(Code::BadShape, "needs angles [batch, length, size]: " + op.show(0));
  std::vector<Dim> d = op.sizes(0);
  d.insert(d.begin() + 1, Dim(1));
  const auto table = [&](OpKind kind) { return op.b.reshape(op.b.cast(op.b.unary(kind, op.in(0)), op.dtype(1)), d); };
  const ValueId cos = table(OpKind::Cos), sin = table(OpKind::Sin);
  for (size_t i = 0; i < 2; ++i) op.set(i, op.b.add(op.b.mul(op.in(1 + 2 * i), cos), op.b.mul(op.in(2 + 2 * i), sin)));
}

// Operands: x, positions by time, height and width [3,B,S], cos, sin. Each column of the tables takes one of the positions.
void multimodal_rotary(Op& op) {
  const auto sections = op.ints("mrope_section");
  const int64_t layout = op.i("mrope_layout", 0);
  const auto half = op.rank(2) == 2 ? op.dims().constant_value(op.sizes(2)[1]) : std::nullopt;
  if (op.f("scale", 1) != 1) return (void)op.unsupported("a scale");
  if (op.rank(1) != 3 || !half || sections.size() != 3 || (layout != 0 && layout != 1))
    return (void)op.fail(Code::BadShape, "needs positions [3, batch, length], tables of known width and three sections");
  std::vector<int64_t> choice(static_cast<size_t>(*half));
  for (int64_t i = 0; i < *half; ++i) {
    int64_t& c = choice[static_cast<size_t>(i)];
    if (layout == 0) c = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    else c = i % 3 != 0 && i / 3 < sections[static_cast<size_t>(i % 3)] ? i % 3 : 0;
  }
  Builder& b = op.b;
  const ValueId by_column = b.ints(choice);
  const auto table = [&](size_t i) {
    // [3,B,S,half], of which each column keeps one entry of axis 0.
    const ValueId all = b.create(OpKind::Gather, {op.in(i), b.cast(op.in(1), DType::I64)}, AxisAttrs{0});
    const std::vector<Dim> d{Dim(1), op.sizes(1)[1], op.sizes(1)[2], Dim(*half)};
    const ValueId one = b.create(OpKind::GatherElements, {all, b.expand(by_column, d)}, AxisAttrs{0});
    return b.reshape(one, {d[1], d[2], d[3]});
  };
  rotary_by_tables(op, table(2), table(3), Dim(*half));
}

// Operands: rows of embeddings, the numbers of rows, and two that only gradients need.
void torch_embedding(Op& op) { op.set(0, op.b.create(OpKind::Gather, {op.in(0), op.in(1)}, AxisAttrs{0})); }

}  // namespace rlxc::onnx_import
