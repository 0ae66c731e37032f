// Gradients of matmuls, convolutions, pooling and rotations.
#include <algorithm>

#include "transform/nn_gradients.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

bool matmul_back(Adjoint& a) {
  const MatMulAttrs m = a.attrs<MatMulAttrs>();
  const Term x = a.in(0), y = a.in(1), g = a.g();
  if (a.wants(0)) a.give(0, m.trans_a ? matmul(y, g, m.trans_b, true) : matmul(g, y, false, !m.trans_b));
  if (a.wants(1)) a.give(1, m.trans_b ? matmul(g, x, true, m.trans_a) : matmul(x, g, !m.trans_a, false));
  return true;
}

// One side of a contraction: g with the other side over that one's free axes, then its axes in their order.
Term contraction_side(Term g, Term other, const std::vector<int64_t>& batch, const std::vector<int64_t>& contracting,
                      const std::vector<int64_t>& other_batch, const std::vector<int64_t>& other_contracting, bool first) {
  const auto free_of = [](int rank, const auto& x, const auto& y) {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < rank; ++i)
      if (std::ranges::find(x, i) == x.end() && std::ranges::find(y, i) == y.end()) out.push_back(i);
    return out;
  };
  const auto count = static_cast<int64_t>(batch.size());
  const std::vector<int64_t> other_free = free_of(other.rank(), other_batch, other_contracting);
  const int64_t own_free = g.rank() - count - static_cast<int64_t>(other_free.size());
  DotGeneralAttrs d;
  for (int64_t i = 0; i < count; ++i) d.lhs_batch.push_back(i);
  d.rhs_batch = other_batch;
  for (size_t i = 0; i < other_free.size(); ++i)
    d.lhs_contracting.push_back(count + (first ? own_free : 0) + static_cast<int64_t>(i));
  d.rhs_contracting = other_free;
  const Term joined = make(OpKind::DotGeneral, {g, other}, d);  // batch, own free axes, the other's contracted axes in order
  // Where each axis of the own side is in it.
  std::vector<int64_t> perm;
  std::vector<int64_t> sorted = other_contracting;
  std::ranges::sort(sorted);
  const int rank = static_cast<int>(batch.size() + contracting.size() + static_cast<size_t>(own_free));
  const std::vector<int64_t> free = free_of(rank, batch, contracting);
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (const auto at = std::ranges::find(batch, axis); at != batch.end()) {
      perm.push_back(at - batch.begin());
    } else if (const auto c = std::ranges::find(contracting, axis); c != contracting.end()) {
      const int64_t partner = other_contracting[static_cast<size_t>(c - contracting.begin())];
      perm.push_back(count + own_free + (std::ranges::find(sorted, partner) - sorted.begin()));
    } else {
      perm.push_back(count + (std::ranges::find(free, axis) - free.begin()));
    }
  }
  return transpose(joined, perm);
}

bool dot_general_back(Adjoint& a) {
  const DotGeneralAttrs d = a.attrs<DotGeneralAttrs>();
  if (a.wants(0))
    a.give(0, contraction_side(a.g(), a.in(1), d.lhs_batch, d.lhs_contracting, d.rhs_batch, d.rhs_contracting, true));
  if (a.wants(1))
    a.give(1, contraction_side(a.g(), a.in(0), d.rhs_batch, d.rhs_contracting, d.lhs_batch, d.lhs_contracting, false));
  return true;
}

bool all_valid(const Adjoint& a) {
  return std::ranges::all_of(a.parts, [](const Adjoint::Part& p) { return p.value.valid(); });
}

bool conv_back(Adjoint& a) {
  const ConvAttrs c = a.attrs<ConvAttrs>();
  const Term x = a.in(0), w = a.in(1), g = a.g();
  if (a.wants(0)) a.give(0, conv_input_gradient(g, w, c, x.dims()));
  if (a.wants(1)) a.give(1, conv_weight_gradient(x, g, c, w.dims()));
  if (a.wants(2)) a.give(2, sum(g, all_but(1, x.rank()), false));
  return all_valid(a);
}

// A convolution backwards: g is its input, x what came of it.
bool conv_transpose_back(Adjoint& a) {
  ConvAttrs c = a.attrs<ConvAttrs>();
  const Term x = a.in(0), w = a.in(1), g = a.g();
  c.output_padding.assign(c.output_padding.size(), 0);
  if (a.wants(0)) a.give(0, make(OpKind::Conv, {g, w}, c));
  if (a.wants(1)) a.give(1, conv_weight_gradient(g, x, c, w.dims()));
  if (a.wants(2)) a.give(2, sum(g, all_but(1, x.rank()), false));
  return all_valid(a);
}

// Sums over windows go back as a transposed convolution with ones; a mean is a sum over the number that it was divided by.
bool pool_back(Adjoint& a) {
  const PoolAttrs p = a.attrs<PoolAttrs>();
  const Term x = a.in(0);
  if (p.op == ReduceOp::Max) return a.give(0, max_pool_gradient(x, a.g(), p)), all_valid(a);
  if (p.op == ReduceOp::L2) return a.give(0, power_pool_gradient(x, a.out(), a.g(), p)), all_valid(a);
  if (p.op != ReduceOp::Sum && p.op != ReduceOp::Mean) return false;
  Term g = a.g();
  if (p.op == ReduceOp::Mean) {
    PoolAttrs total = p;
    total.op = ReduceOp::Sum;
    const Term ones = expand(x.number(1), x.dims());
    g = g * make(OpKind::Pool, {ones}, p) / make(OpKind::Pool, {ones}, total);
  }
  a.give(0, sum_pool_gradient(g, p, x.dims()));
  return all_valid(a);
}

bool max_pool_indices_back(Adjoint& a) {
  if (a.attrs<PoolAttrs>().column_major) return false;
  return a.give(0, added_at(a.in(0).dims(), a.out(1), a.g())), all_valid(a);
}

// Of each row the product with its own matrix; the gradient of a matrix adds up over its rows.
bool grouped_matmul_back(Adjoint& a) {
  const MatMulAttrs m = a.attrs<MatMulAttrs>();
  const Term x = a.in(0), w = a.in(1), index = a.in(2), g = a.g();
  if (a.wants(0)) a.give(0, make(OpKind::GroupedMatMul, {g, w, index}, MatMulAttrs{false, !m.trans_b}));
  if (a.wants(1)) {
    const auto column = [](Term v) { return reshape(v, {v.dims()[0], v.dims()[1], Dim(1)}); };
    const Term each = m.trans_b ? matmul(column(g), column(x), false, true) : matmul(column(x), column(g), false, true);
    const std::vector<Dim> d = w.dims();
    const Dim rows = x.dims()[0], size = a.b.dims().mul(d[1], d[2]);
    const Term into = zeros(a.b, g.dtype(), {d[0], size});
    const Term at = reshape(index.with(a.b.cast(index.v, DType::I64)), {rows, Dim(1)});
    a.give(1, reshape(make(OpKind::ScatterNd, {into, at, reshape(each, {rows, size})}, ScatterAttrs{0, Reduction::Add}), d));
  }
  return all_valid(a);
}

// The rotation back.
bool rope_back(Adjoint& a) {
  if (a.has(3) || a.wants(1) || a.wants(2)) return false;
  return a.give(0, make(OpKind::Rope, {a.g(), a.in(1), -a.in(2)}, a.attrs<RopeAttrs>())), true;
}

}  // namespace

std::span<const RuleEntry> linear_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::MatMul, matmul_back},
      {OpKind::DotGeneral, dot_general_back},
      {OpKind::Conv, conv_back},
      {OpKind::ConvTranspose, conv_transpose_back},
      {OpKind::Pool, pool_back},
      {OpKind::Rope, rope_back},
      {OpKind::MaxPoolIndices, max_pool_indices_back},
      {OpKind::GroupedMatMul, grouped_matmul_back},
  };
  return kTable;
}

}  // namespace rlxc::transform
