// Attention operators of ai.onnx, with rotary embedding, caches and linear attention.
#include "import/onnx/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {

ValueId positions(Op& op, Dim n) {
  return op.b.create(OpKind::Range, {op.b.scalar(DType::I64, 0), op.b.scalar(DType::I64, 1)}, DimsAttrs{{n}, false});
}

ValueId size_of(Op& op, Dim d) {
  if (const auto v = op.dims().constant_value(d)) return op.b.scalar(DType::I64, static_cast<double>(*v));
  return op.b.create(OpKind::DimValue, {}, DimsAttrs{{d}, true});
}

ValueId heads_first(Op& op, ValueId x, int64_t heads) {
  if (!x.valid() || op.graph().rank(x) == 4) return x;
  const std::vector<Dim> d(op.graph().dims(x).begin(), op.graph().dims(x).end());
  if (d.size() != 3 || heads < 1) {
    op.fail(Code::BadShape, "needs [batch, heads, length, size], or [batch, length, hidden] and the number of heads");
    return ValueId();
  }
  return op.b.transpose(op.b.reshape(x, {d[0], d[1], Dim(heads), op.dims().floor_div(d[2], Dim(heads))}), {0, 2, 1, 3});
}

ValueId heads_last(Op& op, ValueId x) {
  if (!x.valid()) return {};
  const std::vector<Dim> d(op.graph().dims(x).begin(), op.graph().dims(x).end());
  return op.b.reshape(op.b.transpose(x, {0, 2, 1, 3}), {d[0], d[2], op.dims().mul(d[1], d[3])});
}

ValueId causal_mask(Op& op, Dim queries, Dim keys, ValueId offset) { return window_mask(op, queries, keys, offset, -1, 0); }

ValueId window_mask(Op& op, Dim queries, Dim keys, ValueId offset, int64_t left, int64_t right) {
  ValueId at = op.b.reshape(positions(op, queries), {queries, Dim(1)}), seen;
  if (offset.valid()) at = op.b.add(at, offset);
  const ValueId key = positions(op, keys);
  const auto bound = [&](OpKind compare, int64_t distance) {
    const ValueId limit = distance == 0 ? at : op.b.add(at, op.b.scalar(DType::I64, static_cast<double>(distance)));
    const ValueId inside = op.b.create(compare, {key, limit});
    seen = seen.valid() ? op.b.create(OpKind::And, {seen, inside}) : inside;
  };
  if (left >= 0) bound(OpKind::Ge, -left);
  if (right >= 0) bound(OpKind::Le, right);
  return seen;
}

ValueId per_batch(Op& op, ValueId numbers, Dim batch) {
  return op.b.reshape(op.b.cast(numbers, DType::I64), {batch, Dim(1), Dim(1), Dim(1)});
}

void Masks::keep(ValueId m) {
  if (m.valid()) kept = kept.valid() ? op.b.create(OpKind::And, {kept, m}) : m;
}

void Masks::add(ValueId m) {
  if (m.valid()) bias = bias.valid() ? op.b.add(bias, m) : m;
}

void Masks::penalise(ValueId m, double value, DType t) {
  if (m.valid()) add(op.b.create(OpKind::Where, {m, op.b.scalar(t, 0), op.b.scalar(t, value)}));
}

ValueId Masks::combined(DType t) const {
  const ValueId hidden = op.b.scalar(t, -std::numeric_limits<double>::infinity());
  if (!kept.valid()) return bias;
  return op.b.create(OpKind::Where, {kept, bias.valid() ? bias : op.b.scalar(t, 0), hidden});
}

ValueId attend(Op& op, ValueId q, ValueId k, ValueId v, const Masks& m, double scale, double softcap) {
  if (!q.valid()) return {};
  AttentionAttrs a;
  a.scale = scale;
  a.softcap = softcap;
  std::vector<ValueId> operands{q, k, v};
  if (m.bias.valid()) {
    a.mask = MaskKind::Bias;
    operands.push_back(m.combined(op.graph().dtype(q)));
  } else if (m.kept.valid()) {
    a.mask = MaskKind::Custom;
    operands.push_back(m.kept);
  }
  return op.b.create(OpKind::Attention, operands, a);
}

namespace {

// Returns the scores of all heads [B,H,Sq,Sk]. Groups of q heads share a k head.
ValueId scores(Op& op, ValueId q, ValueId k, double scale) {
  if (!q.valid() || !k.valid()) return {};
  const std::vector<Dim> dq(op.graph().dims(q).begin(), op.graph().dims(q).end()),
      dk(op.graph().dims(k).begin(), op.graph().dims(k).end());
  const Dim group = op.dims().floor_div(dq[1], dk[1]);
  const ValueId wide = op.b.reshape(q, {dq[0], dk[1], op.dims().mul(group, dq[2]), dq[3]});
  const ValueId s = op.b.reshape(op.b.matmul(wide, k, false, true), {dq[0], dq[1], dq[2], dk[2]});
  return op.b.mul(s, op.b.scalar(op.graph().dtype(q), scale));
}

// Returns probabilities [B,H,Sq,Sk] times the values of the shared heads.
ValueId weigh(Op& op, ValueId p, ValueId v) {
  if (!p.valid() || !v.valid()) return {};
  const std::vector<Dim> dp(op.graph().dims(p).begin(), op.graph().dims(p).end()),
      dv(op.graph().dims(v).begin(), op.graph().dims(v).end());
  const Dim group = op.dims().floor_div(dp[1], dv[1]);
  const ValueId y = op.b.matmul(op.b.reshape(p, {dp[0], dv[1], op.dims().mul(group, dp[2]), dp[3]}), v);
  return op.b.reshape(y, {dp[0], dp[1], dp[2], dv[3]});
}

ValueId inverse_root(Op& op, Dim size, DType t) { return op.b.unary(OpKind::Rsqrt, op.b.cast(size_of(op, size), t)); }

// Returns the scale of the scores. Where only a run knows the head size, q is scaled instead.
double scale_of(Op& op, ValueId* q) {
  if (const double given = op.f("scale", 0); given != 0 || !q->valid()) return given;
  const Dim size = op.graph().dims(*q)[3];
  if (const auto width = op.dims().constant_value(size)) return *width < 1 ? 1 : 1 / std::sqrt(static_cast<double>(*width));
  *q = op.b.mul(*q, inverse_root(op, size, op.graph().dtype(*q)));
  return 1;
}

ValueId capped(Op& op, ValueId s, double softcap) {
  if (softcap <= 0 || !s.valid()) return s;
  const ValueId cap = op.b.scalar(op.graph().dtype(s), softcap);
  return op.b.mul(op.b.unary(OpKind::Tanh, op.b.div(s, cap)), cap);
}

}  // namespace

ValueId masked_scores(Op& op, ValueId q, ValueId k, const Masks& m) {
  const double scale = scale_of(op, &q);
  const ValueId s = scores(op, q, k, scale);
  if (!s.valid()) return {};
  const ValueId bias = m.combined(op.graph().dtype(s));
  return bias.valid() ? op.b.add(s, bias) : s;
}

ValueId attend_with_sinks(Op& op, ValueId q, ValueId k, ValueId v, const Masks& m, double softcap, ValueId sinks) {
  const double scale = scale_of(op, &q);
  ValueId s = capped(op, scores(op, q, k, scale), softcap);
  if (!s.valid()) return {};
  if (const ValueId bias = m.combined(op.graph().dtype(s)); bias.valid()) s = op.b.add(s, bias);
  const std::vector<Dim> d(op.graph().dims(s).begin(), op.graph().dims(s).end());
  const ValueId sink = op.b.expand(op.b.reshape(sinks, {Dim(1), d[1], Dim(1), Dim(1)}), {d[0], d[1], d[2], Dim(1)});
  const ValueId p = op.b.create(OpKind::Softmax, {op.b.concat(std::array{s, sink}, 3)}, AxisAttrs{3});
  return weigh(op, op.b.narrow(p, 3, Dim(0), d[3]), v);
}

// Operands: q, k, v, mask, past key, past value, unpadded lengths of k. Results: y, present key, present value, scores.
void attention(Op& op) {
  const int64_t q_heads = op.i("q_num_heads", 0), kv_heads = op.i("kv_num_heads", 0);
  ValueId q = heads_first(op, op.in(0), q_heads), k = heads_first(op, op.in(1), kv_heads),
          v = heads_first(op, op.in(2), kv_heads);
  const double scale = scale_of(op, &q), softcap = op.f("softcap", 0);
  const int64_t mode = op.i("qk_matmul_output_mode", 0);  // of output 3
  if (op.failed() || !k.valid() || !v.valid()) return;
  const DType t = op.graph().dtype(q);
  ValueId offset;
  if (op.has(4) && op.has(5)) {
    if (op.rank(4) != 4 || op.rank(5) != 4) return (void)op.fail(Code::BadShape, "the past needs four axes: " + op.show(4));
    k = op.b.concat(std::array{op.in(4), k}, 2);
    v = op.b.concat(std::array{op.in(5), v}, 2);
    offset = size_of(op, op.sizes(4)[2]);
  }
  if (!k.valid()) return;
  const Dim batch = op.graph().dims(q)[0], queries = op.graph().dims(q)[2], keys = op.graph().dims(k)[2];
  Masks m{op, {}, {}};
  if (op.has(3)) {
    ValueId mask = op.in(3);
    if (op.rank(3) < 1) return (void)op.fail(Code::BadShape, "the mask needs axes");
    if (const Dim have = op.sizes(3).back(); !op.dims().equal(have, keys)) {  // hides keys beyond its end
      PadAttrs p;
      p.before.assign(op.sizes(3).size(), Dim(0));
      p.after = p.before;
      p.after.back() = op.dims().sub(keys, have);
      const bool keep = op.dtype(3) == DType::Bool;
      mask = op.b.create(
          OpKind::Pad,
          {mask, keep ? op.b.scalar(DType::Bool, 0) : op.b.scalar(op.dtype(3), -std::numeric_limits<double>::infinity())},
          std::move(p));
    }
    // Inserts a head axis in a mask [B,Sq,Sk], unless axis 0 may be the heads.
    const std::vector<Dim> d(op.graph().dims(mask).begin(), op.graph().dims(mask).end());
    const Dim heads = op.graph().dims(q)[1];
    if (d.size() == 3 && op.dims().equal(d[0], batch) && (op.has(6) || !op.dims().equal(d[0], heads)))
      mask = op.b.reshape(mask, {d[0], Dim(1), d[1], d[2]});
    if (op.dtype(3) == DType::Bool) m.keep(mask);
    else m.add(op.b.cast(mask, t));
  }
  if (op.has(6)) {  // keys without padding: the queries are the last ones, unless the node has a past
    const ValueId lengths = per_batch(op, op.in(6), batch);
    m.keep(op.b.create(OpKind::Lt, {positions(op, keys), lengths}));
    if (!offset.valid()) offset = op.b.sub(lengths, size_of(op, queries));
  }
  int64_t left = op.i("left_window_size", -1);
  const int64_t right = op.i("right_window_size", -1), window = op.i("local_window_size", -1);
  if (left < -1 || right < -1 || window < -1 || window == 0)
    return (void)op.fail(Code::BadAttribute, "a window size is out of range");
  if (window > 0) left = window - 1;  // counts keys, including the query's own
  const bool causal = op.i("is_causal", 0) != 0 || window > 0;
  if (causal || left >= 0 || right >= 0) m.keep(window_mask(op, queries, keys, offset, left, causal ? 0 : right));
  const ValueId y = attend(op, q, k, v, m, scale, softcap);
  op.set(0, op.rank(0) == 3 ? heads_last(op, y) : y);
  if (op.wants(1)) op.set(1, k);
  if (op.wants(2)) op.set(2, v);
  if (!op.wants(3)) return;
  // The modes in order of computation: matmul, softcap, masks, softmax.
  if (mode < 0 || mode > 3) return (void)op.fail(Code::BadAttribute, "qk_matmul_output_mode must be 0 to 3");
  ValueId s = scores(op, q, k, scale);
  if (mode > 0) s = capped(op, s, softcap);
  const ValueId bias = mode > 1 ? m.combined(t) : ValueId();
  if (bias.valid()) s = op.b.add(s, bias);
  if (mode == 3) s = op.b.create(OpKind::Softmax, {s}, AxisAttrs{3});
  if (mode == 3 && bias.valid()) {  // a query without a visible key
    const ValueId most = op.b.reduce(ReduceOp::Max, bias, {op.graph().rank(bias) - 1}, true);
    const ValueId none = op.b.create(OpKind::Eq, {most, op.b.scalar(t, -std::numeric_limits<double>::infinity())});
    s = op.b.create(OpKind::Where, {none, op.b.scalar(t, 0), s});
  }
  op.set(3, s);
}

// Applies the node's bodies to scores and probabilities.
void flex_attention(Op& op) {
  if (op.rank(0) != 4 || op.rank(1) != 4 || op.rank(2) != 4) return (void)op.fail(Code::BadShape, "q, k and v need four axes");
  ValueId q = op.in(0);
  const ValueId k = op.in(1), v = op.in(2);
  const double scale = scale_of(op, &q);
  if (op.failed()) return;
  const auto modified = [&](std::string_view name, ValueId x) -> ValueId {
    if (!x.valid() || !op.has_attr(name)) return x;
    const auto body = op.body(name);
    if (!body) return {};
    const std::array inputs{op.im.value(x)};
    const auto results = op.im.inline_body(*body, inputs);
    if (results.size() != 1) {
      op.give_up();
      return ValueId();
    }
    return op.im.materialise(results[0]);
  };
  const ValueId s = modified("score_mod", scores(op, q, k, scale));
  const ValueId p = s.valid() ? modified("prob_mod", op.b.create(OpKind::Softmax, {s}, AxisAttrs{3})) : ValueId();
  op.set(0, weigh(op, p, v));
}

void rotary_by_tables(Op& op, ValueId cos, ValueId sin, Dim half) {
  RopeAttrs a;
  a.style = op.i("interleaved", 0) != 0 ? RopeStyle::GptJ : RopeStyle::NeoX;
  a.n_rot = op.i("rotary_embedding_dim", 0);
  a.layout = op.rank(0) == 3 ? AttentionLayout::Packed : AttentionLayout::BHSD;
  const int64_t heads = op.i("num_heads", 0);
  if (op.rank(0) == 3) {
    const auto hidden = op.dims().constant_value(op.sizes(0)[2]), width = op.dims().constant_value(half);
    if (!hidden) return (void)op.unsupported("the hidden size must be known");
    a.head_dim = heads > 0 ? *hidden / heads : width.value_or(0) * 2;
    if (a.head_dim < 1) return (void)op.fail(Code::BadAttribute, "num_heads is missing");
  }
  op.set(0, op.b.create(OpKind::Rope, {op.in(0), cos, sin}, a));
}

// x, tables of cosines and sines, positions (ai.onnx; com.microsoft has the positions second).
void rotary(Op& op, size_t cos, size_t sin, size_t position) {
  const std::vector<Dim> d = op.sizes(0);
  if (d.size() != 3 && d.size() != 4)
    return (void)op.fail(Code::BadShape, "needs [batch, length, hidden] or [batch, heads, length, size]: " + op.show(0));
  const Dim length = d.size() == 3 ? d[1] : d[2];
  ValueId c = op.in(cos), s = op.in(sin);
  if (op.has(position)) {
    ValueId at = op.b.cast(op.in(position), DType::I64);
    if (op.rank(position) == 1)
      at = op.b.add(op.b.reshape(positions(op, length), {Dim(1), length}), op.b.reshape(at, {op.sizes(position)[0], Dim(1)}));
    c = op.b.create(OpKind::Gather, {c, at}, AxisAttrs{0});
    s = op.b.create(OpKind::Gather, {s, at}, AxisAttrs{0});
  }
  rotary_by_tables(op, c, s, op.sizes(cos).back());
}

void rotary_embedding(Op& op) { rotary(op, 1, 2, 3); }

// Writes the update into each cache entry from the entry's position on, wrapping around if circular.
void tensor_scatter(Op& op) {
  const auto axis = op.axis(op.i("axis", -2), op.rank(0));
  const std::string_view mode = op.s("mode", "linear");
  if (!axis) return;
  if (*axis == 0 || op.rank(1) != op.rank(0))
    return (void)op.fail(Code::BadShape, "the update must fit the cache, and axis 0 is the batch");
  if (mode != "linear" && mode != "circular") return (void)op.fail(Code::BadAttribute, "mode must be linear or circular");
  const std::vector<Dim> d = op.sizes(1);
  std::vector<Dim> along(d.size(), Dim(1)), entries(d.size(), Dim(1));
  along[static_cast<size_t>(*axis)] = d[static_cast<size_t>(*axis)];
  entries[0] = d[0];
  ValueId index = op.b.reshape(positions(op, d[static_cast<size_t>(*axis)]), along);
  if (op.has(2)) index = op.b.add(index, op.b.reshape(op.b.cast(op.in(2), DType::I64), entries));
  if (mode == "circular") index = op.b.create(OpKind::Mod, {index, size_of(op, op.sizes(0)[static_cast<size_t>(*axis)])});
  op.set(0, op.b.create(OpKind::ScatterElements, {op.in(0), op.b.expand(index, d), op.in(1)}, ScatterAttrs{*axis}));
}

// x [N,C,L], w [C,1,k], bias, the k-1 steps before x -> y, the last k-1 steps.
void causal_conv_with_state(Op& op) {
  if (op.rank(0) != 3 || op.rank(1) != 3)
    return (void)op.fail(Code::BadShape, "needs x [N,C,L] and w [C,1,k]: " + op.show(0) + ", " + op.show(1));
  const std::string_view activation = op.s("activation", "none");
  if (op.i("ndim", 1) != 1) return (void)op.unsupported("more than one spatial axis");
  const auto k = op.dims().constant_value(op.sizes(1)[2]), channels = op.dims().constant_value(op.sizes(0)[1]);
  if (!k || *k < 1 || !channels || *channels < 1) return (void)op.unsupported("the kernel size and the channels must be known");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return (void)op.fail(Code::BadAttribute, "activation must be none, silu or swish");
  const std::vector<Dim> d = op.sizes(0);
  const ValueId past = op.has(3) ? op.in(3) : op.b.expand(op.b.scalar(op.dtype(0), 0), {d[0], d[1], Dim(*k - 1)});
  const ValueId x = *k > 1 ? op.b.concat(std::array{past, op.in(0)}, 2) : op.in(0);
  std::vector<ValueId> operands{x, op.in(1)};
  if (op.has(2)) operands.push_back(op.in(2));
  const ValueId y = op.b.create(OpKind::Conv, operands, ConvAttrs{{1}, {0}, {0}, {1}, {0}, *channels});
  op.set(0, activation == "none" ? y : op.b.unary(OpKind::Silu, y));
  if (op.wants(1) && x.valid()) op.set(1, *k > 1 ? op.b.narrow(x, 2, d[2], Dim(*k - 1)) : past);
}

// q, k, v [B,T,heads*size], state [B,H,K,V], decay, beta: a Scan over T in f32.
void linear_attention(Op& op) {
  const int64_t q_heads = op.i("q_num_heads", 0), heads = op.i("kv_num_heads", 0);
  const std::string_view rule = op.s("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (rule != "linear" && !gated && !delta)
    return (void)op.fail(Code::BadAttribute, "update_rule must be linear, gated, delta or gated_delta");
  if (heads < 1 || q_heads < heads || q_heads % heads != 0)
    return (void)op.fail(Code::BadAttribute, "q_num_heads must be a multiple of kv_num_heads");
  if (gated != op.has(4) || delta != op.has(5))
    return (void)op.fail(Code::BadArity, "decay and beta must be there as the update rule needs them");
  for (size_t i = 0; i < 3; ++i)
    if (op.rank(i) != 3) return (void)op.fail(Code::BadShape, "needs [batch, length, hidden]: " + op.show(i));
  DimTable& dims = op.dims();
  Builder& b = op.b;
  const DType t = DType::F32;
  const Dim batch = op.sizes(0)[0], steps = op.sizes(0)[1], h(heads), dk = dims.floor_div(op.sizes(1)[2], h),
            dv = dims.floor_div(op.sizes(2)[2], h), group(q_heads / heads);
  // Splits [B,T,...] to give every slice of a step four axes.
  std::vector<ValueId> operands;
  const auto scanned = [&](size_t i, std::vector<Dim> split) {
    split.insert(split.begin(), {batch, steps});
    operands.push_back(b.reshape(b.cast(op.in(i), t), std::move(split)));
  };
  operands.push_back(op.has(3) ? b.cast(op.in(3), t) : b.expand(b.scalar(t, 0), {batch, h, dk, dv}));
  scanned(0, {h, group, dk});
  scanned(1, {h, dk, Dim(1)});
  scanned(2, {h, Dim(1), dv});
  if (gated) scanned(4, {h, dims.equal(op.sizes(4)[2], h) ? Dim(1) : dk, Dim(1)});
  if (delta) scanned(5, {op.sizes(5)[2], Dim(1), Dim(1)});
  ScanAttrs a;
  a.states = 1;
  a.scan_inputs = static_cast<int64_t>(operands.size()) - 1;
  a.input_axes.assign(static_cast<size_t>(a.scan_inputs), 1);
  a.input_reverse.assign(static_cast<size_t>(a.scan_inputs), 0);
  a.output_axes = {1};
  a.output_reverse = {0};
  Graph& g = op.im.module().graph(op.im.module().make_graph(std::string(op.node().name) + ".step"));
  Builder body(g, &op.im.pending());
  std::vector<ValueId> x;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid()) return;
    Type type = op.graph().type(operands[i]);
    if (i > 0) type.dims.erase(type.dims.begin() + 1);
    x.push_back(body.input("x" + std::to_string(i), std::move(type)));
  }
  ValueId state = x[0], value = x[3];
  if (gated) state = body.mul(state, body.unary(OpKind::Exp, x[4]));
  if (delta) value = body.mul(x[gated ? 5 : 4], body.sub(value, body.matmul(x[2], state, true)));
  state = body.add(state, body.matmul(x[2], value));
  const ValueId y = body.matmul(x[1], state);
  if (!y.valid()) return;
  g.set_outputs(std::array{state, y});
  const double given = op.f("scale", 0);
  const ValueId scale = given != 0 ? b.scalar(t, given) : inverse_root(op, dk, t);
  const NodeId n = b.create_node(OpKind::Scan, operands, std::move(a), std::array{g.id()});
  if (!n.valid()) return;
  const ValueId out = b.mul(b.reshape(op.graph().result(n, 1), {batch, steps, dims.mul(Dim(q_heads), dv)}), scale);
  op.set(0, b.cast(out, op.dtype(0)));
  if (op.wants(1)) op.set(1, b.cast(op.graph().result(n, 0), op.dtype(op.has(3) ? 3 : 0)));
}

}  // namespace rlxc::onnx_import
