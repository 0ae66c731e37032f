// Attention of com.microsoft whose masks come from block tables, windows and distances.
#include <array>
#include <cmath>
#include <limits>

#include "import/onnx/attention.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Bool [L,R,C] from the block rows [L,R+1] and columns [L,nnz] of L layouts in CSR form.
ValueId block_layouts(Op& op, size_t rows, size_t columns, Dim blocks) {
  Builder& b = op.b;
  const Dim layouts = op.sizes(rows)[0], entries = op.sizes(columns)[1];
  const ValueId bounds = b.cast(op.in(rows), DType::I64), column = b.cast(op.in(columns), DType::I64);
  const ValueId ends = b.reshape(b.narrow(bounds, 1, Dim(1), blocks), {layouts, Dim(1), blocks});
  const ValueId at = b.reshape(positions(op, entries), {Dim(1), entries, Dim(1)});
  const ValueId row = b.reduce(ReduceOp::Sum, b.cast(compute(op, OpKind::Ge, at, ends), DType::I64), {2}, false);  // [L,nnz]
  const ValueId count = size_of(op, blocks), all = b.mul(count, count);
  const ValueId used =
      compute(op, OpKind::And, compute(op, OpKind::Lt, row, count), compute(op, OpKind::Ge, column, integer(op, 0)));
  const ValueId place = select(op, used, b.add(b.mul(row, count), column), all);  // the last element collects what is unused
  const Dim cells = op.dims().mul(blocks, blocks);
  const ValueId zeros = b.expand(b.scalar(DType::U8, 0), {layouts, op.dims().add(cells, Dim(1))});
  const ValueId ones = b.expand(b.scalar(DType::U8, 1), {layouts, entries});
  const ValueId marked = b.create(OpKind::ScatterElements, {zeros, place, ones}, ScatterAttrs{1});
  return b.cast(b.reshape(b.narrow(marked, 1, Dim(0), cells), {layouts, blocks, blocks}), DType::Bool);
}

}  // namespace

// Operands: q (or packed q, k, v), k, v, key and value buffers [B,M,max,D], block rows, block columns, the largest total length,
// total lengths [B], cos, sin. Key j is visible to a query at p >= j if the layout of the head has the block of p and j.
void sparse_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0), kv_heads = op.i("kv_num_heads", 0), block = op.i("sparse_block_size", 0);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || block < 1)
    return (void)op.fail(Code::BadAttribute, "num_heads must be a multiple of kv_num_heads, and sparse_block_size >= 1");
  if (op.rank(0) != 3 || op.rank(3) != 4 || op.rank(4) != 4 || op.rank(5) != 2 || op.rank(6) != 2)
    return (void)op.fail(Code::BadShape, "needs q [batch, length, hidden], buffers of four axes and tables of two");
  Builder& b = op.b;
  DimTable& dims = op.dims();
  const Dim batch = op.sizes(0)[0], length = op.sizes(0)[1], room = op.sizes(3)[2];
  std::array<ValueId, 3> x{op.in(0), op.in(1), op.in(2)};
  if (!op.has(1)) {
    const Dim size = dims.floor_div(op.sizes(0)[2], Dim(heads + 2 * kv_heads)), q = dims.mul(size, Dim(heads)),
              kv = dims.mul(size, Dim(kv_heads));
    x = {b.narrow(op.in(0), 2, Dim(0), q), b.narrow(op.in(0), 2, q, kv), b.narrow(op.in(0), 2, dims.add(q, kv), kv)};
  }
  for (size_t i = 0; i < 3; ++i) x[i] = heads_first(op, x[i], i == 0 ? heads : kv_heads);
  // A prompt has no past, whatever its padding.
  const ValueId prompt = compute(op, OpKind::Eq, b.reshape(b.cast(op.in(7), DType::I64), {}), size_of(op, length));
  const ValueId total = per_batch(op, op.in(8), batch);
  const ValueId past = select(op, prompt, integer(op, 0), b.sub(total, size_of(op, length)));  // [B,1,1,1]
  if (op.i("do_rotary", 0) != 0) {
    if (op.rank(9) != 2 || op.rank(10) != 2) return (void)op.fail(Code::BadArity, "rotary embedding needs its tables");
    RopeAttrs a;
    a.style = op.i("rotary_interleaved", 0) != 0 ? RopeStyle::GptJ : RopeStyle::NeoX;
    if (const auto half = dims.constant_value(op.sizes(9).back())) a.n_rot = 2 * *half;
    const ValueId at = b.add(positions(op, length), b.reshape(past, {batch, Dim(1)}));
    const ValueId c = b.create(OpKind::Gather, {op.in(9), at}, AxisAttrs{0}),
                  s = b.create(OpKind::Gather, {op.in(10), at}, AxisAttrs{0});
    for (size_t i = 0; i < 2; ++i) x[i] = b.create(OpKind::Rope, {x[i], c, s}, a);
  }
  op.i("rotary_interleaved", 0);
  x[1] = appended(op, op.in(3), x[1], past, room);
  x[2] = appended(op, op.in(4), x[2], past, room);
  if (!x[0].valid() || !x[1].valid() || !x[2].valid()) return;
  const Dim layouts = op.sizes(5)[0], blocks = dims.sub(op.sizes(5)[1], Dim(1));
  const ValueId size = integer(op, block), last = b.sub(size_of(op, blocks), integer(op, 1));
  const auto block_of = [&](ValueId at) { return compute(op, OpKind::Min, compute(op, OpKind::Div, at, size), last); };
  const ValueId at = b.add(positions(op, length), b.reshape(past, {batch, Dim(1)}));  // [B,S]
  const ValueId columns =
      b.create(OpKind::Gather, {block_layouts(op, 5, 6, blocks), block_of(positions(op, room))}, AxisAttrs{2});
  const ValueId seen = b.create(OpKind::Gather, {columns, block_of(at)}, AxisAttrs{1});  // [L,B,S,max]
  const ValueId layout = compute(op, OpKind::Mod, positions(op, Dim(heads)), size_of(op, layouts));
  Masks m{op, {}, {}};
  m.keep(b.create(OpKind::Gather, {b.transpose(seen, {1, 0, 2, 3}), layout}, AxisAttrs{1}));
  m.keep(causal_mask(op, length, room, past));
  op.set(0, heads_last(op, attend(op, x[0], x[1], x[2], m, op.f("scale", 0), 0)));
  op.set(1, x[1]);
  op.set(2, x[2]);
}

// Operands: x [B,S,H], weights [H,3H], bias [3H], mask [B,S] to add to the scores of keys, weights and bias for global tokens,
// flags of global tokens [B,S]. A token sees the keys within the window and the global ones; a global token sees all.
void longformer_attention(Op& op) {
  const int64_t heads = op.i("num_heads", 0), window = op.i("window", 0);
  if (heads < 1 || window < 1) return (void)op.fail(Code::BadAttribute, "num_heads and window must be >= 1");
  if (op.rank(0) != 3 || op.rank(1) != 2 || op.rank(4) != 2)
    return (void)op.fail(Code::BadShape, "needs x [batch, length, hidden] and weights [hidden, 3*hidden]");
  Builder& b = op.b;
  const Dim batch = op.sizes(0)[0], length = op.sizes(0)[1], hidden = op.dims().floor_div(op.sizes(1)[1], Dim(3));
  const auto projected = [&](size_t weights) {
    const ValueId all = b.add(b.matmul(op.in(0), op.in(weights)), op.in(weights + 1));
    std::array<ValueId, 3> x;
    for (int64_t i = 0; i < 3; ++i)
      x[static_cast<size_t>(i)] = heads_first(op, b.narrow(all, 2, op.dims().mul(hidden, Dim(i)), hidden), heads);
    return x;
  };
  const auto local = projected(1), global = projected(4);
  const ValueId flags = compute(op, OpKind::Ne, op.in(6), b.scalar(op.dtype(6), 0));
  const ValueId mask = b.reshape(op.in(3), {batch, Dim(1), Dim(1), length});
  const ValueId near = window_mask(op, length, length, {}, window, window);
  const ValueId seen = compute(op, OpKind::Or, near, b.reshape(flags, {batch, Dim(1), Dim(1), length}));
  Masks some{op, seen, mask}, all{op, {}, mask};
  const ValueId y = attend(op, local[0], local[1], local[2], some, 0, 0),
                z = attend(op, global[0], global[1], global[2], all, 0, 0);
  op.set(0, heads_last(op, select(op, b.reshape(flags, {batch, Dim(1), length, Dim(1)}), z, y)));
}

// Operands: table of biases by head and bucket of distance, numbers of queries and of keys.
void relative_position_bias(Op& op) {
  const bool both = op.i("is_bidirectional", 0) != 0;
  const int64_t most = op.i("max_distance", 0);
  const auto queries = op.need_dims(1, "numbers of queries"), keys = op.need_dims(2, "numbers of keys");
  if (!queries || !keys) return;
  const auto buckets = op.rank(0) == 2 ? op.dims().constant_value(op.sizes(0)[0]) : std::nullopt;
  if (!buckets || *buckets < (both ? 4 : 2) || queries->size() != 1 || keys->size() != 1)
    return (void)op.fail(Code::BadShape, "needs a table [buckets, heads] and two numbers: " + op.show(0));
  const int64_t half = both ? *buckets / 2 : *buckets, exact = half / 2;
  if (most <= exact) return (void)op.fail(Code::BadAttribute, "max_distance must be more than " + std::to_string(exact));
  Builder& b = op.b;
  const DType t = DType::F32;
  const ValueId query = b.reshape(positions(op, (*queries)[0]), {(*queries)[0], Dim(1)});
  const ValueId signed_distance = b.sub(positions(op, (*keys)[0]), query), distance = b.unary(OpKind::Abs, signed_distance);
  const auto real = [&](double v) { return b.scalar(t, v); };
  const ValueId ratio = b.mul(compute(op, OpKind::Max, b.cast(distance, t), real(1)), real(1.0 / static_cast<double>(exact)));
  const double steps = std::log(static_cast<float>(static_cast<double>(most) / static_cast<double>(exact)));
  const ValueId scaled = b.mul(b.div(b.unary(OpKind::Log, ratio), real(steps)), real(static_cast<double>(half - exact)));
  const ValueId far = compute(op, OpKind::Min, b.add(b.cast(scaled, DType::I64), integer(op, exact)), integer(op, half - 1));
  ValueId bucket = select(op, compute(op, OpKind::Lt, distance, integer(op, exact)), distance, far);
  if (both)
    bucket =
        b.add(bucket, select(op, compute(op, OpKind::Gt, signed_distance, integer(op, 0)), integer(op, half), integer(op, 0)));
  // The table is stored by columns: its memory is [heads, buckets].
  const Dim heads = op.sizes(0)[1];
  const ValueId table = b.reshape(op.in(0), {heads, Dim(*buckets)});
  op.set(0, b.reshape(b.create(OpKind::Gather, {table, bucket}, AxisAttrs{1}), {Dim(1), heads, (*queries)[0], (*keys)[0]}));
}

// Operands: q [B,S,N*D] (or rows [T,N*D] with token offsets), its bias, positional bias [1,N,S,S], weights [D,E] and bias [E] of
// the gates, their scale [1,N,1,1], token offsets [B,S].
void gated_relative_position_bias(Op& op) {
  const int64_t heads = op.i("num_heads", 0);
  Builder& b = op.b;
  ValueId q = b.add(op.in(0), op.in(1));
  if (op.has(6)) q = with_padding(op, q, 6);
  const ValueId x = heads_first(op, q, heads);  // [B,N,S,D]
  const auto gates = op.rank(3) == 2 ? op.dims().constant_value(op.sizes(3)[1]) : std::nullopt;
  if (!x.valid()) return;
  if (!gates || *gates % 2 != 0) return (void)op.fail(Code::BadShape, "needs weights [size, an even number]: " + op.show(3));
  std::vector<Dim> d = dims_of(op, x);
  d.back() = Dim(2);
  d.emplace_back(*gates / 2);
  const ValueId sums = b.reduce(ReduceOp::Sum, b.reshape(b.add(b.matmul(x, op.in(3)), op.in(4)), d), {4}, false);
  const ValueId gate = b.unary(OpKind::Sigmoid, sums);  // [B,N,S,2]
  const ValueId u = b.narrow(gate, 3, Dim(0), Dim(1)), r = b.narrow(gate, 3, Dim(1), Dim(1));
  const auto real = [&](double v) { return b.scalar(op.dtype(0), v); };
  const ValueId factor = b.add(b.mul(u, b.sub(b.mul(r, op.in(5)), real(1))), real(2));
  op.set(0, b.mul(factor, op.in(2)));
}

}  // namespace rlxc::onnx_import
