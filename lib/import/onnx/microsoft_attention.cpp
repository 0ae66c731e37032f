// Attention of com.microsoft, decomposed: https://github.com/microsoft/onnxruntime docs/ContribOperators.md
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "import/onnx/quantized.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

bool attention_heads(Op& op, int64_t heads) {
  if (heads >= 1 && heads <= 1 << 20) return true;
  return op.fail(Code::BadAttribute, "num_heads is " + std::to_string(heads) + ", must be >= 1");
}

// Slices the last axis of a packed projection.
ValueId part(Op& op, ValueId x, Dim start, Dim size) {
  return x.valid() ? op.b.narrow(x, op.graph().rank(x) - 1, start, size) : ValueId();
}

// Selects entry i of an axis of static size and drops the axis.
ValueId entry(Op& op, ValueId x, int64_t axis, int64_t i) {
  if (!x.valid()) return {};
  std::vector<Dim> d = dims_of(op, x);
  d.erase(d.begin() + axis);
  return op.b.reshape(op.b.narrow(x, axis, Dim(i), Dim(1)), std::move(d));
}

// Returns the visible keys as bool. Mask forms: [B,T] of 0 and 1, [B,S,T], [B,1,S,T], lengths [B], ends followed by starts [2B],
// or lengths followed by starts of queries and keys [3B+2].
ValueId visible_keys(Op& op, size_t i, Dim batch, Dim keys) {
  const std::vector<Dim> d = op.sizes(i);
  const ValueId x = op.in(i);
  DimTable& dims = op.dims();
  const auto bound = [&](OpKind compare, ValueId v) {
    return op.b.create(compare, {positions(op, keys), per_batch(op, v, batch)});
  };
  if (d.size() == 1 && (dims.equal(d[0], batch) || dims.equal(d[0], dims.add(dims.mul(batch, Dim(3)), Dim(2)))))
    return bound(OpKind::Lt, op.b.narrow(x, 0, Dim(0), batch));
  if (d.size() == 1 && dims.equal(d[0], dims.mul(batch, Dim(2))))
    return op.b.create(OpKind::And,
                       {bound(OpKind::Lt, op.b.narrow(x, 0, Dim(0), batch)), bound(OpKind::Ge, op.b.narrow(x, 0, batch, batch))});
  const ValueId shown = op.b.create(OpKind::Gt, {x, op.b.scalar(op.dtype(i), 0)});
  if (d.size() == 2) return op.b.reshape(shown, {d[0], Dim(1), Dim(1), d[1]});
  if (d.size() == 3) return op.b.reshape(shown, {d[0], Dim(1), d[1], d[2]});
  if (d.size() == 4) return shown;
  op.unsupported("a mask " + op.show(i));
  return ValueId();
}

// Applies the masks of Attention and MultiHeadAttention: input i and `unidirectional`. As in onnxruntime, input i lowers scores
// by `mask_filter_value`: a query that sees only padding weighs the padding.
void mask_scores(Op& op, size_t i, ValueId q, Dim keys, ValueId past, Masks* m) {
  if (!q.valid()) return;
  const Dim batch = op.graph().dims(q)[0], queries = op.graph().dims(q)[2];
  const double hidden = op.f("mask_filter_value", -10000);
  if (op.has(i)) m->penalise(visible_keys(op, i, batch, keys), hidden, op.graph().dtype(q));
  if (op.i("unidirectional", 0) == 0) return;
  ValueId seen = causal_mask(op, queries, keys, past);
  // As in onnxruntime, the last query sees all keys, of which there may be more than queries if there is no past.
  if (!past.valid() && !op.dims().equal(queries, keys)) {
    const ValueId row = op.b.reshape(positions(op, queries), {queries, Dim(1)});
    seen = op.b.create(OpKind::Or, {seen, op.b.create(OpKind::Eq, {row, size_of(op, op.dims().sub(queries, Dim(1)))})});
  }
  m->keep(seen);
}

}  // namespace

ValueId appended(Op& op, ValueId cache, ValueId fresh, ValueId past, Dim total) {
  if (!cache.valid() || !fresh.valid()) return {};
  const std::vector<Dim> d = dims_of(op, fresh);
  PadAttrs p;
  p.before.assign(4, Dim(0));
  p.after = p.before;
  p.after[2] = op.dims().sub(total, op.graph().dims(cache)[2]);
  const ValueId room = p.after[2] == Dim(0) ? cache : op.b.create(OpKind::Pad, {cache}, std::move(p));
  const ValueId at = op.b.add(op.b.reshape(positions(op, d[2]), {d[2], Dim(1)}), past);
  return op.b.create(OpKind::ScatterElements, {room, op.b.expand(at, d), fresh}, ScatterAttrs{2});
}

namespace {

// Returns bool [keys]: the first `count` (an i64 scalar) keys.
ValueId within(Op& op, Dim keys, ValueId count) { return op.b.create(OpKind::Lt, {positions(op, keys), count}); }

// The inputs of an operator's past. SIZE_MAX: no such input.
struct PastInputs {
  size_t length = SIZE_MAX;       // length of the contents of the buffers, whose size is fixed
  size_t indirection = SIZE_MAX;  // [batches, beams, room]: the source beam of each key position of a beam
};

// Gathers the cache [B*W,N,M,D] of each beam from the beams that its search selected.
ValueId reordered(Op& op, ValueId cache, size_t indirection) {
  if (!op.has(indirection) || !cache.valid()) return cache;
  const std::vector<Dim> d = dims_of(op, cache), from = op.sizes(indirection);
  if (from.size() != 3) {
    op.fail(Code::BadShape, "the indirection needs [batches, beams, room]");
    return ValueId();
  }
  Builder& b = op.b;
  const ValueId first = b.mul(positions(op, from[0]), size_of(op, from[1]));  // first beam of a batch
  ValueId at = b.add(b.cast(op.in(indirection), DType::I64), b.reshape(first, {from[0], Dim(1), Dim(1)}));
  at = b.reshape(at, {d[0], Dim(1), from[2], Dim(1)});
  if (!op.dims().equal(from[2], d[2])) at = b.narrow(at, 2, Dim(0), d[2]);
  return b.create(OpKind::GatherElements, {cache, b.expand(at, d)}, AxisAttrs{0});
}

// Keys or values: of the beams, and the buffer of the next step, in which they keep their places.
struct WithPast {
  ValueId read, present;
};

// Appends keys or values [B,N,S,D] to the past: concatenated, or written to the buffer after its contents.
WithPast with_past(Op& op, ValueId past, ValueId fresh, const PastInputs& p) {
  if (!past.valid() || !fresh.valid()) return {};
  const auto all = [&](ValueId before) {
    if (!before.valid()) return before;
    if (!op.has(p.length)) return op.b.concat(std::array{before, fresh}, 2);
    const ValueId length = op.b.reshape(op.b.cast(op.in(p.length), DType::I64), {Dim(1), Dim(1), Dim(1), Dim(1)});
    return appended(op, before, fresh, length, op.graph().dims(before)[2]);
  };
  const ValueId own = reordered(op, past, p.indirection), present = all(past);
  return {own == past ? present : all(own), present};
}

// Returns the number of keys in a past of dims [B,N,P,D].
ValueId past_length(Op& op, Dim room, const PastInputs& p) {
  if (!op.has(p.length)) return size_of(op, room);
  return op.b.reshape(op.b.cast(op.in(p.length), DType::I64), {});
}

// The common part of Attention, QAttention and DecoderMaskedSelfAttention, from the projection [B,S,3*hidden] on. Input numbers
// of mask, past and score bias (SIZE_MAX: none).
void packed_attention(Op& op, ValueId qkv, size_t mask, size_t past, size_t bias, const PastInputs& inputs = {}) {
  const int64_t heads = op.i("num_heads", 0);
  if (!attention_heads(op, heads) || !qkv.valid()) return;
  op.i("rotary_embedding_dim", 0);
  op.i("past_present_share_buffer", 0);  // the callers read it where there is such a buffer
  if (op.i("do_rotary", 0) != 0) return (void)op.unsupported("rotary embedding");
  DimTable& dims = op.dims();
  const std::vector<Dim> d = dims_of(op, qkv);
  const Dim third = dims.floor_div(d[2], Dim(3));
  std::array<Dim, 3> hidden{third, third, third};
  if (const auto given = op.ints("qkv_hidden_sizes"); given.size() == 3) hidden = {Dim(given[0]), Dim(given[1]), Dim(given[2])};
  const ValueId q = heads_first(op, part(op, qkv, Dim(0), hidden[0]), heads);
  ValueId k = heads_first(op, part(op, qkv, hidden[0], hidden[1]), heads),
          v = heads_first(op, part(op, qkv, dims.add(hidden[0], hidden[1]), hidden[2]), heads);
  if (!q.valid() || !k.valid() || !v.valid()) return;
  ValueId offset;
  std::array<ValueId, 2> present{k, v};
  if (op.has(past)) {
    if (op.rank(past) != 5) return (void)op.fail(Code::BadShape, "the past needs five axes: " + op.show(past));
    const WithPast keys = with_past(op, entry(op, op.in(past), 0, 0), k, inputs),
                   values = with_past(op, entry(op, op.in(past), 0, 1), v, inputs);
    k = keys.read;
    v = values.read;
    present = {keys.present, values.present};
    offset = past_length(op, op.sizes(past)[3], inputs);
  }
  if (!k.valid()) return;
  const Dim keys = op.graph().dims(k)[2];
  Masks m{op, {}, {}};
  mask_scores(op, mask, q, keys, offset, &m);
  if (op.has(past) && op.has(inputs.length)) m.keep(within(op, keys, op.b.add(offset, size_of(op, d[1]))));
  if (op.has(bias)) m.add(op.in(bias));
  op.set(0, heads_last(op, attend(op, q, k, v, m, op.f("scale", 0), 0)));
  if (!op.wants(1)) return;
  const auto stacked = [&](ValueId x) {
    std::vector<Dim> s = dims_of(op, x);
    s.insert(s.begin(), Dim(1));
    return op.b.reshape(x, std::move(s));
  };
  op.set(1, op.b.concat(std::array{stacked(present[0]), stacked(present[1])}, 0));
}

bool projection_operands(Op& op) {
  return (op.rank(0) == 3 && op.rank(1) == 2) ||
         op.fail(Code::BadShape, "needs x [batch, length, width] and weights [width, 3*hidden]");
}

}  // namespace

void ms_rotary_embedding(Op& op) {
  op.f("scale", 1);  // onnxruntime ignores it
  if (op.i("is_packed_batching", 0) != 0) return (void)op.unsupported("packed batching");
  rotary(op, 2, 3, 1);
}

// Operands: x [B,S,W], weights [W,3H], bias [3H], mask, past [2,B,N,P,D], score bias.
void ms_attention(Op& op) {
  if (!projection_operands(op)) return;
  const bool shared = op.i("past_present_share_buffer", 0) != 0;
  if (shared && !op.has(6)) return (void)op.fail(Code::BadArity, "a shared buffer needs the length of the past");
  ValueId qkv = op.b.matmul(op.in(0), op.in(1));
  if (op.has(2)) qkv = op.b.add(qkv, op.in(2));
  packed_attention(op, qkv, 3, 4, 5, {shared ? 6 : SIZE_MAX, SIZE_MAX});
}

// Operands: x, weights, bias, scale of x, scale of the weights, mask, zero points of x and of the weights, past.
void q_attention(Op& op) {
  if (!projection_operands(op)) return;
  const ValueId sums = op.b.create(OpKind::QMatMul, {op.in(0), op.in(1), scalar_or_vector(op, 6), scalar_or_vector(op, 7)});
  const ValueId scale = op.b.mul(scalar_or_vector(op, 3), scalar_or_vector(op, 4));
  packed_attention(op, op.b.add(op.b.mul(op.b.cast(sums, op.dtype(3)), scale), op.in(2)), 5, 8, SIZE_MAX);
}

namespace {

// Input numbers of MultiHeadAttention and DecoderMaskedMultiHeadAttention after q, k and v.
struct MultiHeadInputs {
  size_t bias, mask, score_bias, past_key, past_value;
  PastInputs past;
  bool shared;  // past and present share a buffer
};

void multi_head(Op& op, const MultiHeadInputs& at) {
  const int64_t heads = op.i("num_heads", 0);
  if (!attention_heads(op, heads)) return;
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  const bool packed = !op.has(1) && op.rank(0) == 5, packed_kv = op.has(1) && !op.has(2) && op.rank(1) == 5;
  if (packed) x = {entry(op, op.in(0), 3, 0), entry(op, op.in(0), 3, 1), entry(op, op.in(0), 3, 2)};
  if (packed_kv) {
    x[1] = entry(op, op.in(1), 3, 0);
    x[2] = entry(op, op.in(1), 3, 1);
  }
  if (!op.has(1) && op.rank(0) == 3) {
    const ValueId all = x[0];
    const Dim third = op.dims().floor_div(op.sizes(0)[2], Dim(3));
    for (int64_t i = 0; i < 3; ++i) x[static_cast<size_t>(i)] = part(op, all, op.dims().mul(third, Dim(i)), third);
  }
  for (size_t i = 0; i < 3; ++i) {
    if (!x[i].valid()) return (void)op.unsupported("this form of q, k and v: " + op.show(0));
    if (!packed && !(packed_kv && i > 0)) continue;  // [B,S,N,D] as [B,S,H]
    const std::vector<Dim> d = dims_of(op, x[i]);
    x[i] = op.b.reshape(x[i], {d[0], d[1], op.dims().mul(d[2], d[3])});
  }
  if (op.graph().rank(x[0]) != 3) return (void)op.unsupported("q " + op.show(0));
  Dim start(0);
  for (ValueId& v : x) {
    if (op.has(at.bias) && op.graph().rank(v) == 3) {
      const Dim size = op.graph().dims(v)[2];
      v = op.b.add(v, part(op, op.in(at.bias), start, size));
      start = op.dims().add(start, size);
    }
    v = heads_first(op, v, heads);
  }
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return;
  const Dim queries = op.graph().dims(x[0])[2];
  const PastInputs past = at.shared ? at.past : PastInputs{SIZE_MAX, at.past.indirection};
  const bool has_past = op.has(at.past_key) && op.has(at.past_value) && op.rank(at.past_key) == 4;
  ValueId offset;
  std::array<ValueId, 2> present{x[1], x[2]};
  for (size_t i = 0; i < 2 && has_past; ++i) {
    const WithPast all = with_past(op, op.in(i == 0 ? at.past_key : at.past_value), x[i + 1], past);
    x[i + 1] = all.read;
    present[i] = all.present;
  }
  if (has_past) offset = past_length(op, op.sizes(at.past_key)[2], past);
  if (!x[1].valid() || !x[2].valid()) return;
  const Dim keys = op.graph().dims(x[1])[2];
  Masks m{op, {}, {}};
  mask_scores(op, at.mask, x[0], keys, offset, &m);
  if (op.has(at.score_bias)) m.add(op.in(at.score_bias));
  if (has_past && op.has(past.length)) m.keep(within(op, keys, op.b.add(offset, size_of(op, queries))));
  op.set(0, heads_last(op, attend(op, x[0], x[1], x[2], m, op.f("scale", 0), 0)));
  op.set(1, present[0]);
  op.set(2, present[1]);
  if (op.wants(3)) op.set(3, masked_scores(op, x[0], x[1], m));
}

}  // namespace

// Operands: q, k, v [B,S,H] (k, v also rank 4; q alone [B,S,N,3,D]; q with k [B,L,N,2,D]), bias [3H], key mask, score bias, past
// key, past value, length of the past in its buffer, beam indirection.
void multi_head_attention(Op& op) { multi_head(op, {3, 4, 5, 6, 7, {8, 9}, op.has(8)}); }

// Operands for one query: q, k, v, key mask, score bias, past key, past value, length of the past, number of beams, beam
// indirection, bias [3H].
void decoder_masked_multi_head_attention(Op& op) {
  const bool shared = op.i("past_present_share_buffer", 0) != 0;
  op.i("output_qk", 0);
  if (shared && !op.has(7)) return (void)op.fail(Code::BadArity, "a shared buffer needs the length of the past");
  multi_head(op, {10, 3, 4, 5, 6, {7, 9}, shared});
}

// Operands for one query: x [B,1,W], weights, bias, key mask, past [2,B,N,M,D], score bias, length of the past, number of beams,
// beam indirection.
void decoder_masked_self_attention(Op& op) {
  if (!projection_operands(op)) return;
  const bool shared = op.i("past_present_share_buffer", 0) != 0;
  if (shared && !op.has(6)) return (void)op.fail(Code::BadArity, "a shared buffer needs the length of the past");
  ValueId qkv = op.b.matmul(op.in(0), op.in(1));
  if (op.has(2)) qkv = op.b.add(qkv, op.in(2));
  packed_attention(op, qkv, 3, 4, 5, {shared ? 6 : SIZE_MAX, 8});
}

namespace {

// The storage format of a key or value cache [B,N,P,D]: unchanged, or i8 with one scale or one per channel of a head.
struct CacheCode {
  ValueId scale;  // invalid: unchanged

  ValueId encode(Op& op, ValueId x) const {
    if (!scale.valid() || !x.valid()) return x;
    const ValueId v = op.b.unary(OpKind::Round, op.b.div(x, scale));
    return op.b.cast(op.b.create(OpKind::Clamp, {v}, ClampAttrs{-128, 127}), DType::I8);
  }
  ValueId decode(Op& op, ValueId x) const {
    return scale.valid() && x.valid() ? op.b.mul(op.b.cast(x, op.graph().dtype(scale)), scale) : x;
  }
};

CacheCode cache_code(Op& op, std::string_view attribute, size_t input, int64_t heads, ValueId x) {
  const std::string_view how = op.s(attribute, "NONE");
  const int64_t width = op.i("kv_cache_bit_width", 8);
  if (how == "NONE" || !x.valid()) return {};
  if (how != "PER_TENSOR" && how != "PER_CHANNEL") {
    op.fail(Code::BadAttribute, "attribute " + quote(attribute) + " must be NONE, PER_TENSOR or PER_CHANNEL");
    return CacheCode();
  }
  if (width != 8) {
    op.unsupported("a cache of " + std::to_string(width) + " bits");
    return CacheCode();
  }
  if (!op.has(input)) {
    op.fail(Code::BadArity, "input " + std::to_string(input) + " is absent");
    return CacheCode();
  }
  const std::vector<Dim> one(4, Dim(1)), each{Dim(1), Dim(heads), Dim(1), op.graph().dims(x)[3]};
  return {op.b.reshape(op.b.cast(op.in(input), op.graph().dtype(x)), how == "PER_TENSOR" ? one : each)};
}

// The bias [...,total] of scores for a cache with room for `keys` keys. What is behind the total is hidden.
ValueId for_room(Op& op, ValueId bias, Dim keys) {
  if (!bias.valid()) return bias;
  const int64_t last = op.graph().rank(bias) - 1;
  const Dim total = op.graph().dims(bias)[static_cast<size_t>(last)];
  if (op.dims().equal(total, keys)) return bias;
  const ValueId end = size_of(op, op.dims().sub(total, Dim(1)));
  return op.b.create(OpKind::Gather, {bias, op.b.create(OpKind::Min, {positions(op, keys), end})}, AxisAttrs{last});
}

}  // namespace

// Operands: q (or packed q, k, v), k, v, past key, past value, lengths-1, total length, cos, sin, positions, score bias, sinks,
// scales of the key and value caches, norms of q and of k. Each batch has its own past length: its length minus the number of
// queries (padding is on the right; padded first queries have no past). The caches have the total length if it is constant, else
// room for the queries.
void group_query_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0), kv_heads = op.i("kv_num_heads", 0);
  if (!attention_heads(op, heads) || !attention_heads(op, kv_heads)) return;
  if (!op.has(5)) return (void)op.fail(Code::BadArity, "the lengths are absent");
  if (op.rank(0) != 3 || heads % kv_heads != 0)
    return (void)op.fail(Code::BadShape, "needs q [batch, length, hidden], and num_heads a multiple of kv_num_heads");
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const Dim batch = op.sizes(0)[0], length = op.sizes(0)[1];
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  if (!op.has(1)) {
    const Dim size = dims.floor_div(op.sizes(0)[2], Dim(heads + 2 * kv_heads)), q = dims.mul(size, Dim(heads)),
              kv = dims.mul(size, Dim(kv_heads));
    const ValueId packed = x[0];
    x = {part(op, packed, Dim(0), q), part(op, packed, q, kv), part(op, packed, dims.add(q, kv), kv)};
  }
  for (size_t i = 0; i < 3; ++i) x[i] = heads_first(op, x[i], i == 0 ? heads : kv_heads);
  if (op.has(14) != op.has(15)) return (void)op.fail(Code::BadArity, "the norms of q and of k go together");
  const double norm_epsilon = op.f("qk_norm_epsilon", 1e-6);
  for (size_t i = 0; i < 2 && op.has(14); ++i)
    x[i] = b.create(OpKind::RmsNorm, {x[i], op.in(14 + i)}, NormAttrs{3, norm_epsilon});
  if (op.i("sliding_window_cache", 0) != 0) return (void)op.unsupported("a cache of the size of the window");
  const bool past = op.has(3) && op.has(4) && op.rank(3) == 4 && op.rank(4) == 4 && !(op.sizes(3)[2] == Dim(0));
  const ValueId last = per_batch(op, op.in(5), batch);  // position of the last key
  ValueId before = b.scalar(DType::I64, 0);             // [B,1,1,1], the length of the past
  if (past) before = b.create(OpKind::Max, {b.sub(b.add(last, b.scalar(DType::I64, 1)), size_of(op, length)), before});
  const bool interleaved = op.i("rotary_interleaved", 0) != 0;
  if (op.i("do_rotary", 0) != 0) {
    if (!op.has(7) || !op.has(8)) return (void)op.fail(Code::BadArity, "rotary embedding needs its tables");
    RopeAttrs a;
    a.style = interleaved ? RopeStyle::GptJ : RopeStyle::NeoX;
    if (const auto half = dims.constant_value(op.sizes(7).back())) a.n_rot = 2 * *half;
    ValueId at = positions(op, length);
    if (op.has(9)) at = b.cast(op.in(9), DType::I64);
    else if (past) at = b.add(at, b.reshape(before, {batch, Dim(1)}));
    const auto table = [&](size_t i) { return b.create(OpKind::Gather, {op.in(i), at}, AxisAttrs{0}); };
    const ValueId c = table(7), s = table(8);
    for (size_t i = 0; i < 2; ++i) x[i] = b.create(OpKind::Rope, {x[i], c, s}, a);
  }
  const CacheCode k_code = cache_code(op, "k_quant_type", 12, kv_heads, x[1]),
                  v_code = cache_code(op, "v_quant_type", 13, kv_heads, x[2]);
  x[1] = k_code.encode(op, x[1]);
  x[2] = v_code.encode(op, x[2]);
  const auto declared = op.declared(1);
  const bool is_shared = past && declared && declared->rank() == 4 && dims.equal(declared->dims[2], op.sizes(3)[2]);
  if (past) {
    Dim total = dims.add(op.sizes(3)[2], length);
    if (is_shared) total = op.sizes(3)[2];
    else if (const auto known = op.known_ints(6); known && known->size() == 1)
      if (const auto room = dims.constant_value(op.sizes(3)[2])) total = Dim(std::max((*known)[0], *room));
    x[1] = appended(op, op.in(3), x[1], before, total);
    x[2] = appended(op, op.in(4), x[2], before, total);
  }
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return;
  const Dim keys = op.graph().dims(x[1])[2];
  const int64_t window = op.i("local_window_size", -1);  // number of keys that a query sees, including its own
  Masks m{op, {}, {}};
  m.keep(window_mask(op, length, keys, past ? before : ValueId(), window > 0 ? window - 1 : -1, 0));
  m.keep(b.create(OpKind::Le, {positions(op, keys), last}));
  if (op.has(10)) m.add(for_room(op, op.in(10), keys));
  op.i("qk_output", 0);  // the kind of output 3
  const bool smooth = op.i("smooth_softmax", 0) > 0;
  ValueId sinks = op.has(11) ? b.cast(op.in(11), op.graph().dtype(x[0])) : ValueId();
  if (!sinks.valid() && smooth) sinks = b.expand(b.scalar(op.graph().dtype(x[0]), 0), {Dim(heads)});
  const double scale = op.f("scale", 0), softcap = op.f("softcap", 0);
  const ValueId k = k_code.decode(op, x[1]), v = v_code.decode(op, x[2]);
  const ValueId y =
      sinks.valid() ? attend_with_sinks(op, x[0], k, v, m, softcap, sinks) : attend(op, x[0], k, v, m, scale, softcap);
  op.set(0, heads_last(op, y));
  // Without a declared shape this is decided at run time: a buffer with room for all keys keeps its size, zero-filled after the
  // last key.
  const bool run_decides = past && !is_shared && !(declared && declared->rank() == 4) && !op.known_ints(6) && op.has(6);
  for (size_t i = 1; i < 3; ++i) {
    if (!op.wants(i)) continue;
    if (!run_decides) {
      op.set(i, x[i]);
      continue;
    }
    const ValueId total = b.reshape(b.cast(op.in(6), DType::I64), {}), zero = b.scalar(op.graph().dtype(x[i]), 0);
    const ValueId used = b.create(OpKind::Le, {b.reshape(positions(op, keys), {keys, Dim(1)}), last});
    op.set(i, first_part(op, b.create(OpKind::Where, {used, x[i], zero}), 2,
                         b.create(OpKind::Max, {total, size_of(op, op.sizes(3)[2])})));
  }
}

}  // namespace rlxc::onnx_import
