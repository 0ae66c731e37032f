// Operators of com.microsoft on batches without padding. `token_offset` [B,S] lists the places of the real tokens among all B*S,
// then those of the padding.
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/dynamic.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// The places of the T real tokens, i64 [T].
ValueId token_places(Op& op, size_t offsets, Dim tokens) {
  const std::vector<Dim> d = op.sizes(offsets);
  const ValueId all = op.b.reshape(op.b.cast(op.in(offsets), DType::I64), {op.dims().product(d)});
  return op.b.narrow(all, 0, Dim(0), tokens);
}

}  // namespace

ValueId with_padding(Op& op, ValueId rows, size_t offsets) {
  if (!rows.valid()) return {};
  const std::vector<Dim> d = dims_of(op, rows), batch = op.sizes(offsets);
  if (d.size() != 2 || batch.size() != 2) {
    op.fail(Code::BadShape, "needs rows [tokens, hidden] and token offsets [batch, length]");
    return ValueId();
  }
  const ValueId zeros = op.b.expand(op.b.scalar(op.graph().dtype(rows), 0), {op.dims().product(batch), d[1]});
  const ValueId at = op.b.reshape(token_places(op, offsets, d[0]), {d[0], Dim(1)});
  return op.b.reshape(op.b.create(OpKind::ScatterNd, {zeros, at, rows}, ScatterAttrs{}), {batch[0], batch[1], d[1]});
}

namespace {

// The inverse: the rows of the real tokens of [B,S,H].
ValueId without_padding(Op& op, ValueId x, size_t offsets, Dim tokens) {
  if (!x.valid()) return {};
  const std::vector<Dim> d = dims_of(op, x);
  const ValueId rows = op.b.reshape(x, {op.dims().mul(d[0], d[1]), d[2]});
  return op.b.create(OpKind::Gather, {rows, token_places(op, offsets, tokens)}, AxisAttrs{0});
}

bool packed_operands(Op& op, size_t offsets, size_t lengths) {
  return (op.rank(offsets) == 2 && op.rank(lengths) == 1) ||
         op.fail(Code::BadShape,
                 "needs token offsets [B,S] and cumulative lengths [B+1]: " + op.show(offsets) + ", " + op.show(lengths));
}

// Attention of rows q, k, v [T,H]: `lengths` numbers the input of cumulative lengths [B+1], `bias` that of a score bias.
ValueId packed_attend(Op& op, const std::array<ValueId, 3>& rows, size_t offsets, size_t lengths, size_t bias) {
  const int64_t heads = op.i("num_heads", 0);
  std::array<ValueId, 3> x;
  for (size_t i = 0; i < 3; ++i) x[i] = heads_first(op, with_padding(op, rows[i], offsets), heads);
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return {};
  const std::vector<Dim> batch = op.sizes(offsets);
  const ValueId ends = op.b.narrow(op.in(lengths), 0, Dim(1), batch[0]),
                starts = op.b.narrow(op.in(lengths), 0, Dim(0), batch[0]);
  Masks m{op, {}, {}};
  m.keep(compute(op, OpKind::Lt, positions(op, batch[1]), per_batch(op, op.b.sub(ends, starts), batch[0])));
  if (op.has(bias)) m.add(op.in(bias));
  const ValueId y = heads_last(op, attend(op, x[0], x[1], x[2], m, op.f("scale", 0), 0));
  return without_padding(op, y, offsets, op.graph().dims(rows[0])[0]);
}

}  // namespace

// Operands: x [B,S,H], the number of tokens of each sequence [B].
void remove_padding(Op& op) {
  if (op.rank(0) != 3 || op.rank(1) != 1) return (void)op.fail(Code::BadShape, "needs x [B,S,H] and token counts [B]");
  Builder& b = op.b;
  const std::vector<Dim> d = op.sizes(0);
  const Dim all = op.dims().mul(d[0], d[1]);
  const ValueId counts = b.cast(op.in(1), DType::I64);
  const ValueId inside = compute(op, OpKind::Lt, positions(op, d[1]), b.reshape(counts, {d[0], Dim(1)}));
  const ValueId real = b.reshape(inside, {all}), total = b.reduce(ReduceOp::Sum, counts, {0}, false);
  // The rank of each token among its kind; padding follows the real tokens.
  const auto rank = [&](ValueId m) { return b.create(OpKind::Cumsum, {b.cast(m, DType::I64)}, CumAttrs{0, true}); };
  const ValueId place = select(op, real, rank(real), b.add(total, rank(b.unary(OpKind::Not, real))));
  const ValueId zeros = b.expand(integer(op, 0), {all});
  const ValueId order = b.create(OpKind::ScatterElements, {zeros, place, positions(op, all)}, ScatterAttrs{0});
  const ValueId taken = first_part(op, order, 0, total);
  op.set(0, b.create(OpKind::Gather, {b.reshape(op.in(0), {all, d[2]}), taken}, AxisAttrs{0}));
  op.set(1, b.cast(b.reshape(order, {d[0], d[1]}), DType::I32));
  const ValueId sums = b.create(OpKind::Cumsum, {op.in(1)}, CumAttrs{0});
  op.set(2, b.concat(std::array{b.expand(b.scalar(op.dtype(1), 0), {Dim(1)}), sums}, 0));
  op.set(3, b.reduce(ReduceOp::Max, op.in(1), {0}, true));
}

void restore_padding(Op& op) {
  if (op.rank(0) != 2 || op.rank(1) != 2) return (void)op.fail(Code::BadShape, "needs rows [T,H] and token offsets [B,S]");
  op.set(0, with_padding(op, op.in(0), 1));
}

// Operands: x [T,W], weights [W,3H], bias [3H], token offsets, cumulative lengths, score bias.
void packed_attention_layer(Op& op) {
  if (!packed_operands(op, 3, 4)) return;
  if (op.rank(0) != 2 || op.rank(1) != 2) return (void)op.fail(Code::BadShape, "needs x [tokens, width] and weights");
  const ValueId qkv = op.b.add(op.b.matmul(op.in(0), op.in(1)), op.in(2));
  std::array<Dim, 3> sizes;
  sizes.fill(op.dims().floor_div(op.sizes(1)[1], Dim(3)));
  if (const auto given = op.ints("qkv_hidden_sizes"); given.size() == 3)
    for (size_t i = 0; i < 3; ++i) sizes[i] = Dim(given[i]);
  std::array<ValueId, 3> rows;
  Dim start(0);
  for (size_t i = 0; i < 3; ++i) {
    rows[i] = op.b.narrow(qkv, 1, start, sizes[i]);
    start = op.dims().add(start, sizes[i]);
  }
  op.set(0, packed_attend(op, rows, 3, 4, 5));
}

// Operands: q, k, v [T,H], or q alone [T,N,3,D]; bias [3H], token offsets, cumulative lengths, score bias.
void packed_multi_head_attention(Op& op) {
  op.f("mask_filter_value", 0);  // padding has no score
  if (!packed_operands(op, 4, 5)) return;
  std::array<ValueId, 3> rows{op.in(0), op.in(1), op.in(2)};
  if (op.rank(0) == 4) {
    const std::vector<Dim> d = op.sizes(0);
    for (int64_t i = 0; i < 3; ++i)
      rows[static_cast<size_t>(i)] = op.b.reshape(op.b.narrow(op.in(0), 2, Dim(i), Dim(1)), {d[0], op.dims().mul(d[1], d[3])});
  }
  Dim start(0);
  for (ValueId& r : rows) {
    if (!r.valid() || op.graph().rank(r) != 2) return (void)op.unsupported("this form of q, k and v: " + op.show(0));
    if (!op.has(3)) continue;
    const Dim size = op.graph().dims(r)[1];
    r = op.b.add(r, op.b.narrow(op.in(3), 0, start, size));
    start = op.dims().add(start, size);
  }
  op.set(0, packed_attend(op, rows, 4, 5, 6));
}

// Operands: q [T,N*D] (or packed q, k, v), k, v [T,M*D], caches of keys and of values [blocks,size,M,D], cumulative lengths
// [B+1], lengths of the pasts [B], the blocks of each sequence [B,most], cos, sin, slots [T], sinks [N], norms of q and of k [D].
void paged_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0), kv_heads = op.i("kv_num_heads", 0), window = op.i("local_window_size", -1);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    return (void)op.fail(Code::BadAttribute, "num_heads must be a multiple of kv_num_heads");
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (op.s(name, "NONE") != "NONE") return (void)op.unsupported("a quantized cache");
  for (const char* name : {"k_cache_dtype", "v_cache_dtype"}) op.s(name, "");
  if (op.s("kv_cache_layout", "SEPARATE") != "SEPARATE" || op.i("rotary_offset", 0) != 0 || op.i("is_causal", 1) != 1)
    return (void)op.unsupported("latent caches, a rotary offset and attention that is not causal");
  op.i("v_head_size", 0);
  if (op.rank(0) != 2 || op.rank(3) != 4 || op.rank(4) != 4 || op.rank(7) != 2)
    return (void)op.fail(Code::BadShape, "needs q [tokens, hidden], caches of four axes and a table of blocks");
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const Dim tokens = op.sizes(0)[0], blocks = op.sizes(3)[0], size = op.sizes(3)[1], width = op.sizes(3)[3],
            batch = op.sizes(7)[0], most = op.sizes(7)[1];
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  const Dim kv = dims.mul(width, Dim(kv_heads)), q = dims.mul(width, Dim(heads));
  if (!op.has(1))
    x = {b.narrow(op.in(0), 1, Dim(0), q), b.narrow(op.in(0), 1, q, kv), b.narrow(op.in(0), 1, dims.add(q, kv), kv)};
  for (size_t i = 0; i < 3; ++i) x[i] = b.reshape(x[i], {tokens, Dim(i == 0 ? heads : kv_heads), Dim(1), width});
  for (size_t i = 0; i < 2; ++i)
    if (op.has(12 + i)) x[i] = b.create(OpKind::RmsNorm, {x[i], op.in(12 + i)}, NormAttrs{3, op.f("qk_norm_epsilon", 1e-6)});
  op.f("qk_norm_epsilon", 1e-6);
  // Sequence and position of each token.
  const ValueId ends = b.cast(b.narrow(op.in(5), 0, Dim(1), batch), DType::I64), at = positions(op, tokens);
  const ValueId sequence =
      b.reduce(ReduceOp::Sum, b.cast(compute(op, OpKind::Ge, b.reshape(at, {tokens, Dim(1)}), ends), DType::I64), {1}, false);
  const auto of_sequence = [&](size_t input) {
    return b.create(OpKind::Gather, {b.cast(op.in(input), DType::I64), sequence}, AxisAttrs{0});
  };
  const ValueId place = b.add(of_sequence(6), b.sub(at, of_sequence(5)));
  if (op.i("do_rotary", 0) != 0) {
    if (op.rank(8) != 2 || op.rank(9) != 2) return (void)op.fail(Code::BadArity, "rotary embedding needs its tables");
    RopeAttrs a;
    a.style = op.i("rotary_interleaved", 0) != 0 ? RopeStyle::GptJ : RopeStyle::NeoX;
    if (const auto half = dims.constant_value(op.sizes(8).back())) a.n_rot = 2 * *half;
    const ValueId row = b.reshape(place, {tokens, Dim(1)});
    const ValueId c = b.create(OpKind::Gather, {op.in(8), row}, AxisAttrs{0}),
                  s = b.create(OpKind::Gather, {op.in(9), row}, AxisAttrs{0});
    for (size_t i = 0; i < 2; ++i) x[i] = b.create(OpKind::Rope, {x[i], c, s}, a);
  }
  op.i("rotary_interleaved", 0);
  const ValueId block_size = size_of(op, size), table = b.cast(op.in(7), DType::I64);
  ValueId slot = op.has(10) ? b.cast(op.in(10), DType::I64) : ValueId();
  if (!slot.valid()) {
    const ValueId row = compute(op, OpKind::Div, place, block_size);
    const ValueId block =
        b.create(OpKind::GatherElements,
                 {b.create(OpKind::Gather, {table, sequence}, AxisAttrs{0}), b.reshape(row, {tokens, Dim(1)})}, AxisAttrs{1});
    slot = b.add(b.mul(b.reshape(block, {tokens}), block_size), compute(op, OpKind::Mod, place, block_size));
  }
  // A slot -1 writes to a row behind the cache.
  const Dim rows = dims.mul(blocks, size);
  slot = b.reshape(select(op, compute(op, OpKind::Lt, slot, integer(op, 0)), size_of(op, rows), slot), {tokens, Dim(1)});
  std::array<ValueId, 2> keys;
  for (size_t i = 0; i < 2; ++i) {
    const ValueId flat = b.reshape(op.in(3 + i), {rows, kv});
    const ValueId spare = b.expand(b.scalar(op.dtype(3 + i), 0), {Dim(1), kv});
    const ValueId fresh = b.cast(b.reshape(x[1 + i], {tokens, kv}), op.dtype(3 + i));
    const ValueId all = b.create(OpKind::ScatterNd, {b.concat(std::array{flat, spare}, 0), slot, fresh}, ScatterAttrs{});
    const ValueId cache = b.narrow(all, 0, Dim(0), rows);
    op.set(1 + i, b.reshape(cache, op.sizes(3 + i)));
    // The blocks of each token's sequence: [T,M,most*size,D].
    const ValueId own = b.create(OpKind::Gather, {b.reshape(cache, op.sizes(3 + i)), table}, AxisAttrs{0});
    const ValueId sequences = b.reshape(own, {batch, dims.mul(most, size), Dim(kv_heads), width});
    const ValueId of_token = b.create(OpKind::Gather, {b.transpose(sequences, {0, 2, 1, 3}), sequence}, AxisAttrs{0});
    keys[i] = b.cast(of_token, op.dtype(0));
  }
  Masks m{op, {}, {}};
  m.keep(window_mask(op, Dim(1), dims.mul(most, size), per_batch(op, place, tokens), window > 0 ? window - 1 : -1, 0));
  const double softcap = op.f("softcap", 0), scale = op.f("scale", 0);
  const ValueId y = op.has(11) ? attend_with_sinks(op, x[0], keys[0], keys[1], m, softcap, b.cast(op.in(11), op.dtype(0)))
                               : attend(op, x[0], keys[0], keys[1], m, scale, softcap);
  op.set(0, b.reshape(y, {tokens, q}));
}

}  // namespace rlxc::onnx_import
