// Products are matmuls where recognition looks for them: in attention, and before biases and activations.
#include <algorithm>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

// JAX multiplies in the order that suits its axes, and transposes: the other order often needs less of it, or nothing, as in
// attention.
void swap_factors(Graph& g, Diagnostics& d) {
  for (const NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::Transpose) continue;
    const ValueId product = g.operand(n, 0);
    const NodeId dot = g.def(product);
    if (g.op(dot) != OpKind::DotGeneral || !g.has_one_use(product)) continue;
    const DotGeneralAttrs a = g.attrs<DotGeneralAttrs>(dot);
    const Ints perm = g.attrs<PermAttrs>(n).perm;
    const auto rank_of = [&](size_t i) { return g.rank(g.operand(dot, i)); };
    const auto batch = static_cast<int64_t>(a.lhs_batch.size());
    const int64_t left = rank_of(0) - batch - static_cast<int64_t>(a.lhs_contracting.size()),
                  right = rank_of(1) - batch - static_cast<int64_t>(a.rhs_contracting.size());
    Ints other = perm;  // of the product of the swapped factors
    for (int64_t& axis : other)
      if (axis >= batch) axis = axis < batch + left ? axis + right : axis - left;
    const auto inversions = [](const Ints& p) {
      int64_t count = 0;
      for (size_t i = 0; i < p.size(); ++i)
        for (size_t k = i + 1; k < p.size(); ++k) count += p[i] > p[k];
      return count;
    };
    if (inversions(other) >= inversions(perm)) continue;
    Builder b(g, &d, n);
    const ValueId swapped = b.create(OpKind::DotGeneral, {g.operand(dot, 1), g.operand(dot, 0)},
                                     DotGeneralAttrs{a.rhs_batch, a.lhs_batch, a.rhs_contracting, a.lhs_contracting});
    const ValueId placed = b.transpose(swapped, other);
    if (!placed.valid()) continue;
    g.replace_all_uses(g.result(n), placed);
    g.erase(n);
    g.erase(dot);
  }
}

// An operand as matrices [batch..., rows, columns], or with these two swapped.
struct Matrices {
  ValueId x;
  bool swapped = false;
  Dims free = {};
};

Matrices matrices(Builder& b, ValueId x, const Ints& batch, const Ints& contracted, bool contracted_last, bool keeps_rows) {
  const Graph& g = b.graph();
  const Dims own(g.dims(x).begin(), g.dims(x).end());
  const auto in = [](const Ints& list, int64_t axis) { return std::ranges::count(list, axis) > 0; };
  Matrices out;
  Ints free, perm = batch, rest;
  for (int64_t i = 0; i < static_cast<int64_t>(own.size()); ++i) {
    if (in(batch, i)) continue;
    rest.push_back(i);
    if (in(contracted, i)) continue;
    free.push_back(i);
    out.free.push_back(own[static_cast<size_t>(i)]);
  }
  const auto sizes = [&](const Ints& axes) {
    Dims d;
    for (const int64_t axis : axes) d.push_back(own[static_cast<size_t>(axis)]);
    return d;
  };
  if (free.size() == 1 && contracted.size() == 1) {  // as it is, but for the batch
    perm.insert(perm.end(), rest.begin(), rest.end());
    out.x = b.transpose(x, perm);
    out.swapped = (rest.back() == contracted[0]) != contracted_last;
    return out;
  }
  const Ints &first = contracted_last ? free : contracted, &second = contracted_last ? contracted : free;
  perm.insert(perm.end(), first.begin(), first.end());
  perm.insert(perm.end(), second.begin(), second.end());
  out.x = b.transpose(x, perm);
  if (keeps_rows && contracted.size() == 1 && !free.empty()) return out;
  Dims to = sizes(batch);
  to.push_back(b.dims().product(sizes(first)));
  to.push_back(b.dims().product(sizes(second)));
  out.x = b.reshape(out.x, to);
  return out;
}

void as_matmul(Graph& g, NodeId n, Diagnostics& d) {
  const DotGeneralAttrs a = g.attrs<DotGeneralAttrs>(n);
  const ValueId y = g.result(n);
  const Dims to(g.dims(y).begin(), g.dims(y).end());
  Builder b(g, &d, n);
  const Matrices left = matrices(b, g.operand(n, 0), a.lhs_batch, a.lhs_contracting, true, a.lhs_batch.empty());
  const Matrices right = matrices(b, g.operand(n, 1), a.rhs_batch, a.rhs_contracting, false, false);
  const ValueId product = b.matmul(left.x, right.x, left.swapped, right.swapped);
  if (product.valid()) g.replace_all_uses(y, b.reshape(product, to));
  if (product.valid()) g.erase(n);
}

}  // namespace

void shape_products(Graph& g, Diagnostics& d) {
  swap_factors(g, d);
  for (const NodeId n : g.nodes())
    if (g.op(n) == OpKind::DotGeneral) as_matmul(g, n, d);
}

}  // namespace rlxc::stablehlo_import
