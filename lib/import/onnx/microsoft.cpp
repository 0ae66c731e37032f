// Fused operators of com.microsoft, as what they are made of: https://github.com/microsoft/onnxruntime docs/ContribOperators.md
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/conv_attrs.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// The function that `activation` names, with `activation_params` (alpha, beta).
ValueId activate(Op& op, ValueId x) {
  const std::string_view name = op.s("activation", "");
  if (name.empty()) return x;
  auto p = op.floats("activation_params");
  p.resize(2);
  for (const auto& [text, kind] : {std::pair<std::string_view, OpKind>{"Relu", OpKind::Relu}, {"Sigmoid", OpKind::Sigmoid}, {"Tanh", OpKind::Tanh}, {"LeakyRelu", OpKind::LeakyRelu},
                                   {"HardSigmoid", OpKind::HardSigmoid}}) {
    if (text != name) continue;
    if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(kind))) return op.b.create(kind, {x}, AlphaBetaAttrs{p[0], p[1]});
    return op.b.unary(kind, x);
  }
  if (name == "Clip") return op.b.create(OpKind::Clamp, {x}, ClampAttrs{p[0], p[1]});
  op.unsupported("activation " + quote(name));
  return {};
}

ValueId dequantised(Op& op, size_t x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{op.in(x), op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.dtype(scale);
  return op.b.create(OpKind::Dequantize, operands, a);
}

ValueId quantised(Op& op, ValueId x, size_t scale, size_t zero) {
  std::vector<ValueId> operands{x, op.b.reshape(op.in(scale), {})};
  if (op.has(zero)) operands.push_back(op.b.reshape(op.in(zero), {}));
  QuantAttrs a;
  a.to = op.has(zero) ? op.dtype(zero) : DType::U8;
  return op.b.create(OpKind::Quantize, operands, a);
}

bool attention_heads(Op& op, int64_t heads) {
  if (heads >= 1 && heads <= 1 << 20) return true;
  return op.fail(Code::BadAttribute, "num_heads is " + std::to_string(heads) + ", must be >= 1");
}

// A third of the last axis (or another part) of a packed projection.
ValueId part(Op& op, ValueId x, Dim start, Dim size) { return x.valid() ? op.b.narrow(x, op.graph().rank(x) - 1, start, size) : ValueId(); }

// Keys that take part, by a mask [B,T] of 0 and 1, [B,S,T], [B,1,S,T], or lengths [B].
void key_mask(Op& op, size_t i, Dim batch, Dim keys, Masks* m) {
  if (!op.has(i)) return;
  const std::vector<Dim> d = op.sizes(i);
  const ValueId x = op.in(i);
  const ValueId shown = d.size() == 1 ? ValueId() : op.b.create(OpKind::Ne, {x, op.b.scalar(op.dtype(i), 0)});
  if (d.size() == 1 && op.dims().equal(d[0], batch)) {
    m->keep(op.b.create(OpKind::Lt, {positions(op, keys), op.b.reshape(op.b.cast(x, DType::I64), {batch, Dim(1), Dim(1), Dim(1)})}));
  } else if (d.size() == 2 && op.dims().equal(d[1], keys)) {
    m->keep(op.b.reshape(shown, {d[0], Dim(1), Dim(1), d[1]}));
  } else if (d.size() == 3) {
    m->keep(op.b.reshape(shown, {d[0], Dim(1), d[1], d[2]}));
  } else if (d.size() == 4) {
    m->keep(shown);
  } else {
    op.unsupported("a mask " + op.show(i));
  }
}

}  // namespace

void ms_rotary_embedding(Op& op) {
  if (op.f("scale", 1) != 1 || op.i("is_packed_batching", 0) != 0) return (void)op.unsupported("scale or packed batching");
  rotary(op, 2, 3, 1);
}

// x [B,S,W], weights [W,3H], bias [3H], mask, past [2,B,N,P,D], bias of the scores
void ms_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0);
  if (!attention_heads(op, heads)) return;
  if (op.rank(0) != 3 || op.rank(1) != 2) return (void)op.fail(Code::BadShape, "needs x [batch, length, width] and weights [width, 3*hidden]");
  if (op.i("do_rotary", 0) != 0 || op.has(6)) return (void)op.unsupported("rotary embedding or a shared past");
  DimTable& dims = op.dims();
  const Dim whole = op.sizes(1)[1], batch = op.sizes(0)[0], length = op.sizes(0)[1];
  std::array<Dim, 3> hidden{dims.floor_div(whole, Dim(3)), dims.floor_div(whole, Dim(3)), dims.floor_div(whole, Dim(3))};
  if (const auto given = op.ints("qkv_hidden_sizes"); given.size() == 3) hidden = {Dim(given[0]), Dim(given[1]), Dim(given[2])};
  ValueId qkv = op.b.matmul(op.in(0), op.in(1));
  if (op.has(2)) qkv = op.b.add(qkv, op.in(2));
  const ValueId q = heads_first(op, part(op, qkv, Dim(0), hidden[0]), heads);
  ValueId k = heads_first(op, part(op, qkv, hidden[0], hidden[1]), heads), v = heads_first(op, part(op, qkv, dims.add(hidden[0], hidden[1]), hidden[2]), heads);
  if (!q.valid() || !k.valid() || !v.valid()) return;
  ValueId offset;
  if (op.has(4)) {
    if (op.rank(4) != 5) return (void)op.fail(Code::BadShape, "the past needs five axes: " + op.show(4));
    const std::vector<Dim> d = op.sizes(4);
    const auto half = [&](int64_t i) { return op.b.reshape(op.b.narrow(op.in(4), 0, Dim(i), Dim(1)), {d[1], d[2], d[3], d[4]}); };
    k = op.b.concat(std::array{half(0), k}, 2);
    v = op.b.concat(std::array{half(1), v}, 2);
    offset = size_of(op, d[3]);
  }
  if (!k.valid()) return;
  const Dim keys = op.graph().dims(k)[2];
  Masks m{op, {}, {}};
  key_mask(op, 3, batch, keys, &m);
  if (op.has(5)) m.add(op.in(5));
  if (op.i("unidirectional", 0) != 0) m.keep(causal_mask(op, length, keys, offset));
  op.set(0, heads_last(op, attend(op, q, k, v, m, op.f("scale", 0), 0)));
  if (!op.wants(1)) return;
  const auto stacked = [&](ValueId x) {
    std::vector<Dim> d(op.graph().dims(x).begin(), op.graph().dims(x).end());
    d.insert(d.begin(), Dim(1));
    return op.b.reshape(x, std::move(d));
  };
  op.set(1, op.b.concat(std::array{stacked(k), stacked(v)}, 0));
}

// q, k, v [B,S,H] (or k, v of four axes), bias [3H], key mask, bias of the scores, past key, past value
void multi_head_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0);
  if (!attention_heads(op, heads)) return;
  if (!op.has(1) || !op.has(2) || op.rank(0) != 3) return (void)op.unsupported("packed q, k, v: " + op.show(0));
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  if (op.has(3)) {
    Dim start(0);
    for (size_t i = 0; i < 3; ++i) {
      if (op.rank(i) != 3) continue;
      const Dim size = op.sizes(i)[2];
      x[i] = op.b.add(x[i], part(op, op.in(3), start, size));
      start = op.dims().add(start, size);
    }
  }
  for (ValueId& v : x) v = heads_first(op, v, heads);
  ValueId offset;
  if (op.has(6) && op.has(7)) {
    x[1] = op.b.concat(std::array{op.in(6), x[1]}, 2);
    x[2] = op.b.concat(std::array{op.in(7), x[2]}, 2);
    if (op.rank(6) == 4) offset = size_of(op, op.sizes(6)[2]);
  }
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return;
  const Dim keys = op.graph().dims(x[1])[2];
  Masks m{op, {}, {}};
  key_mask(op, 4, op.sizes(0)[0], keys, &m);
  if (op.has(5)) m.add(op.in(5));
  if (op.i("unidirectional", 0) != 0) m.keep(causal_mask(op, op.sizes(0)[1], keys, offset));
  op.set(0, heads_last(op, attend(op, x[0], x[1], x[2], m, op.f("scale", 0), 0)));
  op.set(1, x[1]);
  op.set(2, x[2]);
}

// q (or q, k and v packed), k, v, past key, past value, lengths-1, total length, cos, sin. The past is taken to be full: entries of
// a batch that are padded at the right are masked by their lengths, as are all later queries of theirs.
void group_query_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0), kv_heads = op.i("kv_num_heads", 0);
  if (!attention_heads(op, heads) || !attention_heads(op, kv_heads)) return;
  if (!op.has(5)) return (void)op.fail(Code::BadArity, "the lengths are absent");
  if (op.rank(0) != 3 || heads % kv_heads != 0) return (void)op.fail(Code::BadShape, "needs q [batch, length, hidden], and num_heads a multiple of kv_num_heads");
  DimTable& dims = op.dims();
  const Dim length = op.sizes(0)[1];
  const int64_t window = op.i("local_window_size", -1);
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  if (!op.has(1)) {
    const Dim size = dims.floor_div(op.sizes(0)[2], Dim(heads + 2 * kv_heads)), q = dims.mul(size, Dim(heads)), kv = dims.mul(size, Dim(kv_heads));
    const ValueId packed = x[0];
    x = {part(op, packed, Dim(0), q), part(op, packed, q, kv), part(op, packed, dims.add(q, kv), kv)};
  }
  for (size_t i = 0; i < 3; ++i) x[i] = heads_first(op, x[i], i == 0 ? heads : kv_heads);
  const bool past = op.has(3) && op.has(4);
  const ValueId offset = past && op.rank(3) == 4 ? size_of(op, op.sizes(3)[2]) : op.b.scalar(DType::I64, 0);
  if (op.i("do_rotary", 0) != 0) {
    if (!op.has(7) || !op.has(8)) return (void)op.fail(Code::BadArity, "rotary embedding needs its tables");
    RopeAttrs a;
    a.style = op.i("rotary_interleaved", 0) != 0 ? RopeStyle::GptJ : RopeStyle::NeoX;
    if (const auto half = dims.constant_value(op.sizes(7).back())) a.n_rot = 2 * *half;
    const ValueId at = op.b.add(positions(op, length), offset);
    const auto table = [&](size_t i) { return op.b.create(OpKind::Gather, {op.in(i), at}, AxisAttrs{0}); };
    const ValueId c = table(7), s = table(8);
    for (size_t i = 0; i < 2; ++i) x[i] = op.b.create(OpKind::Rope, {x[i], c, s}, a);
  }
  if (past) {
    x[1] = op.b.concat(std::array{op.in(3), x[1]}, 2);
    x[2] = op.b.concat(std::array{op.in(4), x[2]}, 2);
  }
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return;
  const Dim keys = op.graph().dims(x[1])[2];
  Masks m{op, {}, {}};
  m.keep(causal_mask(op, length, keys, offset));
  const ValueId lengths = op.b.reshape(op.b.cast(op.in(5), DType::I64), {op.sizes(0)[0], Dim(1), Dim(1), Dim(1)});
  m.keep(op.b.create(OpKind::Le, {positions(op, keys), lengths}));
  if (window > 0) {
    const ValueId first = op.b.sub(op.b.add(op.b.reshape(positions(op, length), {length, Dim(1)}), offset), op.b.scalar(DType::I64, static_cast<double>(window)));
    m.keep(op.b.create(OpKind::Gt, {positions(op, keys), first}));
  }
  op.set(0, heads_last(op, attend(op, x[0], x[1], x[2], m, op.f("scale", 0), op.f("softcap", 0))));
  op.set(1, x[1]);
  op.set(2, x[2]);
}

namespace {

void skip_norm(Op& op, OpKind kind, size_t beta, size_t bias) {
  const ValueId x = op.in(0), skip = op.sizes(1) == op.sizes(0) ? op.in(1) : op.b.expand(op.in(1), op.sizes(0));
  const std::array operands{x, skip, op.in(bias), op.in(2), op.in(beta)};
  const NodeId n = op.b.create_node(kind, operands, NormAttrs{op.rank(0) - 1, op.f("epsilon", kind == OpKind::FusedResidualLN ? 1e-12 : 1e-5)});
  if (!n.valid()) return;
  op.set(0, op.graph().result(n, 0));
  op.set(3, op.graph().result(n, 1));
}

}  // namespace

void skip_layer_norm(Op& op) { skip_norm(op, OpKind::FusedResidualLN, 3, 4); }

void skip_rms_norm(Op& op) { skip_norm(op, OpKind::FusedResidualRmsNorm, SIZE_MAX, 3); }

void simplified_layer_norm(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (axis) op.set(0, op.b.create(OpKind::RmsNorm, {op.in(0), op.in(1)}, NormAttrs{*axis, op.f("epsilon", 1e-5)}));
}

// ids, segments, tables of words, positions and segments, gamma, beta, mask, position ids
void embed_layer_norm(Op& op) {
  if (op.rank(0) != 2) return (void)op.fail(Code::BadShape, "needs ids [batch, length]: " + op.show(0));
  const auto look = [&](size_t table, ValueId at) { return op.b.create(OpKind::Gather, {op.in(table), at}, AxisAttrs{0}); };
  ValueId x = op.b.add(look(2, op.in(0)), look(3, op.has(8) ? op.in(8) : positions(op, op.sizes(0)[1])));
  if (op.has(1) && op.has(4)) x = op.b.add(x, look(4, op.in(1)));
  op.set(0, op.b.create(OpKind::LayerNorm, {x, op.in(5), op.in(6)}, NormAttrs{2, op.f("epsilon", 1e-12)}));
  if (op.wants(1)) {
    const ValueId counts = op.has(7) ? op.b.reduce(ReduceOp::Sum, op.b.cast(op.in(7), DType::I32), {1}, false) : op.b.expand(op.b.scalar(DType::I32, 0), {op.sizes(0)[0]});
    op.set(1, counts);
  }
  op.set(2, x);
}

void fused_matmul(Op& op) {
  if (op.rank(0) < 2 || op.rank(1) < 2) return (void)op.unsupported("operands of rank 1");
  if (op.i("transBatchA", 0) != 0 || op.i("transBatchB", 0) != 0) return (void)op.unsupported("transBatchA and transBatchB");
  const ValueId y = op.b.matmul(op.in(0), op.in(1), op.i("transA", 0) != 0, op.i("transB", 0) != 0);
  const double alpha = op.f("alpha", 1);
  op.set(0, alpha == 1 ? y : op.b.mul(y, op.b.scalar(op.dtype(0), alpha)));
}

void fused_gemm(Op& op) {
  gemm(op);
  if (op.failed() || op.results().empty() || !op.results()[0].valid()) return;
  op.set(0, activate(op, op.im.materialise(op.results()[0])));
}

void fused_conv(Op& op) {
  const auto a = conv_attrs(op, 1);
  if (!a) return;
  std::vector<ValueId> operands{op.in(0), op.in(1)};
  if (op.has(2)) operands.push_back(op.in(2));
  ValueId y = op.b.create(OpKind::Conv, operands, *a);
  if (op.has(3)) y = op.b.add(y, op.in(3));
  op.set(0, activate(op, y));
}

// x [N,H,W,C], w [Co,kh,kw,Ci/groups]
void nhwc_conv(Op& op) {
  if (op.rank(0) != 4 || op.rank(1) != 4) return (void)op.unsupported("needs x [N,H,W,C]: " + op.show(0));
  const ValueId x = op.b.transpose(op.in(0), {0, 3, 1, 2}), w = op.b.transpose(op.in(1), {0, 3, 1, 2});
  if (!x.valid() || !w.valid()) return;
  ConvAttrs a;
  const auto list = [&](std::string_view name, size_t n, int64_t fallback) { return op.has_attr(name) ? op.ints(name) : std::vector<int64_t>(n, fallback); };
  const auto pads = list("pads", 4, 0);
  a.strides = list("strides", 2, 1), a.dilations = list("dilations", 2, 1);
  a.groups = op.i("group", 1);
  if (pads.size() != 4 || a.strides.size() != 2 || a.dilations.size() != 2) return (void)op.fail(Code::BadAttribute, "pads, strides or dilations do not fit");
  if (op.s("auto_pad", "NOTSET") != "NOTSET") return (void)op.unsupported("auto_pad");
  a.pads_begin = {pads[0], pads[1]}, a.pads_end = {pads[2], pads[3]}, a.output_padding = {0, 0};
  std::vector<ValueId> operands{x, w};
  if (op.has(2)) operands.push_back(op.in(2));
  op.set(0, op.b.transpose(op.b.create(OpKind::Conv, operands, std::move(a)), {0, 2, 3, 1}));
}

// kind(x + bias)
void bias_unary(Op& op) { op.set(0, op.b.unary(op.row.kind, op.has(1) ? op.b.add(op.in(0), op.in(1)) : op.in(0))); }

void quick_gelu(Op& op) { op.set(0, op.b.create(OpKind::Swish, {op.in(0)}, AlphaBetaAttrs{op.f("alpha", 1.702), 0})); }

void bias_add(Op& op) { op.set(0, op.b.add(op.b.add(op.in(0), op.in(1)), op.in(2))); }

// x [...,K], w u8 [N, blocks, block*bits/8], scales [N*blocks], zero points (packed likewise; half of the range when absent)
void matmul_n_bits(Op& op) {
  const int64_t k = op.i("K", 0), n = op.i("N", 0), width = op.i("bits", 4), block = op.i("block_size", 0);
  if (width != 4 && width != 8) return (void)op.unsupported("bits must be 4 or 8");
  if (k < 1 || n < 1 || block < 16 || k > 1 << 28 || n > 1 << 28 || block > 1 << 20 || op.dtype(1) != DType::U8) return (void)op.fail(Code::BadAttribute, "K, N or block_size are out of range");
  if (op.has(4)) return (void)op.unsupported("an order of groups (g_idx)");
  const int64_t blocks = (k + block - 1) / block;
  Builder& b = op.b;
  const DType t = op.dtype(0);
  // Bytes -> numbers, the low half first.
  const auto unpack = [&](ValueId bytes, std::vector<Dim> lead, int64_t count) {
    const int64_t packed = width == 8 ? count : (count + 1) / 2;
    std::vector<Dim> split = lead, whole = lead;
    split.emplace_back(packed);
    bytes = b.reshape(bytes, split);
    if (width == 8) return b.cast(bytes, t);
    split.emplace_back(1);
    const auto half = [&](ValueId v) { return b.reshape(v, split); };
    const ValueId low = b.create(OpKind::BitAnd, {bytes, b.scalar(DType::U8, 15)}), high = b.create(OpKind::Shr, {bytes, b.scalar(DType::U8, 4)});
    whole.emplace_back(2 * packed);
    const ValueId all = b.reshape(b.concat(std::array{half(low), half(high)}, static_cast<int64_t>(split.size()) - 1), whole);
    return b.cast(count == 2 * packed ? all : b.narrow(all, static_cast<int64_t>(lead.size()), Dim(0), Dim(count)), t);
  };
  const ValueId q = unpack(op.in(1), {Dim(n), Dim(blocks)}, block);
  ValueId zero = b.scalar(t, width == 4 ? 8 : 128);
  if (op.has(3)) {
    const bool packed = op.dtype(3) == DType::U8;
    zero = b.reshape(packed ? unpack(op.in(3), {Dim(n)}, blocks) : b.cast(op.in(3), t), {Dim(n), Dim(blocks), Dim(1)});
  }
  const ValueId w = b.mul(b.sub(q, zero), b.reshape(b.cast(op.in(2), t), {Dim(n), Dim(blocks), Dim(1)}));
  ValueId flat = b.reshape(w, {Dim(n), Dim(blocks * block)});
  if (blocks * block != k) flat = b.narrow(flat, 1, Dim(0), Dim(k));
  ValueId y = b.matmul(op.in(0), flat, false, true);
  if (op.has(5)) y = b.add(y, op.in(5));
  op.set(0, y);
}

// a, b integers, their scales, zero points, bias
void matmul_integer_to_float(Op& op) {
  const auto vector = [&](size_t i) { return op.rank(i) == 1 && op.sizes(i)[0] == Dim(1) ? op.b.reshape(op.in(i), {}) : op.in(i); };
  if (op.rank(0) < 2 || op.rank(1) < 2) return (void)op.unsupported("operands of rank 1");
  const ValueId product = op.b.create(OpKind::QMatMul, {op.in(0), op.in(1), op.has(4) ? vector(4) : ValueId(), op.has(5) ? vector(5) : ValueId()});
  ValueId y = op.b.mul(op.b.mul(op.b.cast(product, op.dtype(2)), vector(2)), vector(3));
  if (op.has(6)) y = op.b.add(y, op.in(6));
  op.set(0, y);
}

// a is quantised as by DynamicQuantizeLinear; b, its scale, its zero point, bias
void dynamic_quantize_matmul(Op& op) {
  if (op.rank(0) < 2 || op.rank(1) < 2) return (void)op.unsupported("operands of rank 1");
  const auto vector = [&](size_t i) { return op.rank(i) == 1 && op.sizes(i)[0] == Dim(1) ? op.b.reshape(op.in(i), {}) : op.in(i); };
  const auto [q, scale, point] = dynamically_quantised(op, op.in(0));
  const ValueId product = op.b.create(OpKind::QMatMul, {q, op.in(1), point, op.has(3) ? vector(3) : ValueId()});
  ValueId y = op.b.mul(op.b.mul(op.b.cast(product, op.dtype(2)), scale), vector(2));
  if (op.has(4)) y = op.b.add(y, op.in(4));
  op.set(0, y);
}

// One or two operands with their scales and zero points, then those of the result.
void qlinear_elementwise(Op& op) {
  const bool binary = has_trait(op.row.kind, kBinary);
  const ValueId a = dequantised(op, 0, 1, 2);
  if (binary) return op.set(0, quantised(op, op.b.create(op.row.kind, {a, dequantised(op, 3, 4, 5)}), 6, 7));
  if (std::holds_alternative<AlphaBetaAttrs>(default_attrs(op.row.kind)))
    return op.set(0, quantised(op, op.b.create(op.row.kind, {a}, AlphaBetaAttrs{op.f("alpha", op.row.alpha), 0}), 3, 4));
  op.set(0, quantised(op, op.b.unary(op.row.kind, a), 3, 4));
}

// Scale and zero point of the result, then each operand with its own.
void qlinear_concat(Op& op) {
  if ((op.inputs() - 2) % 3 != 0) return (void)op.fail(Code::BadArity, "operands come with a scale and a zero point each");
  for (size_t i = 0; i < op.inputs(); ++i)
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
  const auto axis = op.axis(op.i("axis", 0), op.rank(2));
  if (!axis) return;
  std::vector<ValueId> parts;
  for (size_t i = 2; i < op.inputs(); i += 3) parts.push_back(dequantised(op, i, i + 1, i + 2));
  op.set(0, quantised(op, op.b.concat(parts, *axis), 0, 1));
}

void qlinear_pool(Op& op) {
  const bool last = op.i("channels_last", 0) != 0;
  if (op.rank(0) < 3) return (void)op.fail(Code::BadShape, "needs spatial axes: " + op.show(0));
  std::vector<int64_t> axes;
  for (int64_t i = last ? 1 : 2; i < op.rank(0) - last; ++i) axes.push_back(i);
  op.set(0, quantised(op, op.b.reduce(ReduceOp::Mean, dequantised(op, 0, 1, 2), axes, true), 3, 4));
}

void qlinear_softmax(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0));
  if (!axis) return;
  if (op.i("opset", 13) < 13 && *axis != op.rank(0) - 1) return (void)op.unsupported("softmax of opset < 13 over several axes");
  op.set(0, quantised(op, op.b.create(OpKind::Softmax, {dequantised(op, 0, 1, 2)}, AxisAttrs{*axis}), 3, 4));
}

}  // namespace rlxc::onnx_import
