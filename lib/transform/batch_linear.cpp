// Batching of products and convolutions: samples join the axis that these sum nothing over, or become groups.
#include <algorithm>
#include <array>

#include "transform/batch_rules.h"

namespace rlxc::transform {
namespace {

bool matmul_batch(Batch& t) {
  const int rank = std::max(t.rank(0), t.rank(1));
  if (t.rank(0) < 2 || t.rank(1) < 2) return false;
  return t.give(make(OpKind::MatMul, {t.aligned(0, rank), t.aligned(1, rank)}, t.attrs<MatMulAttrs>())), true;
}

bool q_matmul_batch(Batch& t) {
  if (t.batched_from(2) || t.rank(0) < 2 || t.rank(1) < 2) return false;
  for (size_t i = 2; i < t.count(); ++i)
    if (t.has(i) && num_elements(t.graph.type(t.graph.operand(t.node, i))) != 1) return false;
  const int rank = std::max(t.rank(0), t.rank(1));
  const ValueId y = t.b.create(OpKind::QMatMul, {t.aligned(0, rank).v, t.aligned(1, rank).v, t.in(2).v, t.in(3).v}, NoAttrs{});
  return t.give({&t.b, y}), y.valid();
}

bool dot_general_batch(Batch& t) {
  DotGeneralAttrs d = t.attrs<DotGeneralAttrs>();
  const auto further = [](std::vector<int64_t>& axes) {
    for (int64_t& a : axes) ++a;
  };
  if (t.batched(0)) further(d.lhs_batch), further(d.lhs_contracting);
  if (t.batched(1)) further(d.rhs_batch), further(d.rhs_contracting);
  if (t.batched(0) && t.batched(1)) d.lhs_batch.insert(d.lhs_batch.begin(), 0), d.rhs_batch.insert(d.rhs_batch.begin(), 0);
  const auto batch = static_cast<int64_t>(d.lhs_batch.size());
  const auto lhs_free = t.rank(0) - batch - static_cast<int64_t>(d.lhs_contracting.size());
  const Term y = make(OpKind::DotGeneral, {t.in(0), t.in(1)}, d);
  if (t.batched(0) && t.batched(1)) return t.give(y), true;
  const int64_t at = t.batched(0) ? batch : batch + lhs_free;  // the axis of samples is the first free one of its operand
  std::vector<int64_t> order{at};
  for (int64_t i = 0; i < y.rank(); ++i)
    if (i != at) order.push_back(i);
  return t.give(transpose(y, order)), true;
}

// Each sample's axes 0 and 1 joined to one, or parted again.
Term joined(Term x, size_t at) {
  std::vector<Dim> d = x.dims();
  if (!x.valid()) return x;
  d[at] = x.b->dims().mul(d[at], d[at + 1]);
  d.erase(d.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return reshape(x, d);
}
Term parted(Term x, size_t at, Dim first, Dim second) {
  std::vector<Dim> d = x.dims();
  if (!x.valid()) return x;
  d[at] = second;
  d.insert(d.begin() + static_cast<std::ptrdiff_t>(at), first);
  return reshape(x, d);
}
Term swapped(Term x) {  // the first two axes
  std::vector<int64_t> order{1, 0};
  for (int64_t i = 2; i < x.rank(); ++i) order.push_back(i);
  return transpose(x, order);
}

// x [N,C,..], w; each sample's own weights make its channels groups of their own.
bool conv_batch(Batch& t) {
  ConvAttrs c = t.attrs<ConvAttrs>();
  const std::vector<Dim> y = t.result_dims();
  Term out;
  if (!t.batched(0) && !t.batched(1)) {
    out = make(t.op(), {t.in(0), t.in(1)}, c);
  } else if (!t.batched(1)) {
    out = parted(make(t.op(), {joined(t.in(0), 0), t.in(1)}, c), 0, t.size, y[0]);
  } else {
    const auto samples = t.b.dims().constant_value(t.size);
    if (!samples) return false;
    c.groups *= *samples;
    out = make(t.op(), {joined(swapped(t.lifted(0)), 1), joined(t.in(1), 0)}, c);
    out = swapped(parted(out, 1, t.size, y[1]));
  }
  if (t.has(2)) {
    std::vector<Dim> beside(y.size(), Dim(1));
    beside[1] = y[1];
    out = out + reshape(t.in(2), t.batched(2) ? t.with_axis(beside) : beside);
  }
  return t.give(out), out.valid();
}

bool grouped_matmul_batch(Batch& t) {
  if (t.batched(1)) return false;
  const Term y = make(OpKind::GroupedMatMul, {joined(t.lifted(0), 0), t.in(1), joined(t.lifted(2), 0)}, t.attrs<MatMulAttrs>());
  return t.give(parted(y, 0, t.size, t.result_dims()[0])), true;
}

// What works on each item of axis 0 alone.
bool by_items(Batch& t) {
  if (t.batched_from(1) || t.rank(0) < 1) return false;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < t.count(); ++i) operands.push_back((i == 0 ? joined(t.in(0), 0) : t.in(i)).v);
  const ValueId y = t.b.create(t.op(), operands, t.b.module().attrs[t.graph.attr_id(t.node)]);
  return t.give(parted({&t.b, y}, 0, t.size, t.result_dims()[0])), y.valid();
}

// All but the decay, which items share.
bool selective_scan_batch(Batch& t) {
  if (t.batched(2)) return false;
  const auto item = [&](size_t i) { return joined(t.lifted(i), 0); };
  const Term y = make(OpKind::SelectiveScan, {item(0), item(1), t.in(2), item(3), item(4)});
  return t.give(parted(y, 0, t.size, t.result_dims()[0])), true;
}

bool max_pool_indices_batch(Batch& t) {
  if (t.attrs<PoolAttrs>().column_major) return false;
  const NodeId n = t.b.create_node(OpKind::MaxPoolIndices, std::array{joined(t.in(0), 0).v}, t.attrs<PoolAttrs>());
  if (!n.valid()) return false;
  const Dim items = t.result_dims()[0], all = t.b.dims().product(t.dims(0));
  t.give(parted({&t.b, t.b.graph().result(n, 0)}, 0, t.size, items), 0);
  // Positions count from the beginning of a sample.
  const Term at = parted({&t.b, t.b.graph().result(n, 1)}, 0, t.size, items);
  const Term length{&t.b, t.b.create(OpKind::DimValue, {}, DimsAttrs{{all}, true})};
  return t.give(make(OpKind::Mod, {at, length}), 1), true;
}

bool attention_batch(Batch& t) {
  const AttentionAttrs a = t.attrs<AttentionAttrs>();
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) operands.push_back(joined(t.lifted(i), 0).v);
  if (t.has(3)) {
    Term mask = t.in(3);
    if (t.batched(3) || (t.rank(3) == 4 && t.dims(3)[0] != Dim(1))) {
      // With axes for items and heads, one mask an item of a sample.
      std::vector<Dim> d = t.dims(3);
      while (d.size() < 4) d.insert(d.begin(), Dim(1));
      mask = reshape(t.lifted(3), t.with_axis(d));
      d[0] = t.dims(0)[0];
      mask = joined(expand(mask, t.with_axis(d)), 0);
    }
    operands.push_back(mask.v);
  }
  const ValueId y = t.b.create(OpKind::Attention, operands, a);
  return t.give(parted({&t.b, y}, 0, t.size, t.result_dims()[0])), y.valid();
}

// Tables that are the same for all items.
bool rope_batch(Batch& t) {
  if (t.batched_from(1)) return false;
  for (size_t i : {1, 2})
    if (t.rank(i) > 2 && t.dims(i)[0] != Dim(1)) return false;
  return by_items(t);
}

bool quantize_batch(Batch& t) {
  if (t.batched_from(1)) return false;
  QuantAttrs q = t.attrs<QuantAttrs>();
  if (q.block != 0) return false;
  ++q.axis;
  const ValueId y = t.b.create(t.op(), {t.in(0).v, t.in(1).v, t.in(2).v}, q);
  return t.give({&t.b, y}), y.valid();
}

}  // namespace

std::span<const BatchEntry> linear_batches() {
  static constexpr BatchEntry kTable[] = {
      {OpKind::MatMul, matmul_batch},
      {OpKind::QMatMul, q_matmul_batch},
      {OpKind::DotGeneral, dot_general_batch},
      {OpKind::Conv, conv_batch},
      {OpKind::ConvTranspose, conv_batch},
      {OpKind::GroupedMatMul, grouped_matmul_batch},
      {OpKind::QConv, by_items},
      {OpKind::Pool, by_items},
      {OpKind::GroupNorm, by_items},
      {OpKind::Lrn, by_items},
      {OpKind::SelectiveScan, selective_scan_batch},
      {OpKind::MaxPoolIndices, max_pool_indices_batch},
      {OpKind::Attention, attention_batch},
      {OpKind::Rope, rope_batch},
      {OpKind::Quantize, quantize_batch},
      {OpKind::Dequantize, quantize_batch},
  };
  return kTable;
}

}  // namespace rlxc::transform
