// Adds before values are transposed. The residual of a ConvNeXt block is added with channels first to a matmul's result with
// channels last: the sum would be a launch of its own, and the Quantize of each block could not rise to what computes it.
//   add(transpose(a), transpose(b))  ->  transpose(add(a, b))
//   add(transpose(a), conv)          ->  transpose(add(a, back)), where back = transpose(conv) and other readers read it turned
//   again
//   add(transpose(a), dequantize(transpose(q)))  ->  transpose(add(a, dequantize(q)))
// Q/DQ pairs may follow the transposes and the convolution; they then come before the transposes. Requires one permutation, that
// nobody else reads the transposed a, and that an integer contraction computed a, whose epilogue then adds. An integer
// convolution writes its result in that order. Transposes back of the result vanish. O(nodes + uses).
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostTurnedReaders = 16;
constexpr size_t kMostRoundings = 4;  // Q/DQ nodes after one another

bool are_inverse(std::span<const int64_t> p, std::span<const int64_t> q) {
  for (size_t i = 0; i < p.size(); ++i)
    if (p[static_cast<size_t>(q[i])] != static_cast<int64_t>(i)) return false;
  return true;
}

bool is_product(const Graph& g, NodeId transpose) {
  const NodeId source = contraction_of(g, g.operand(transpose, 0));
  return g.has_one_use(g.result(transpose)) && g.has_one_use(g.operand(transpose, 0)) && source.valid() &&
         g.op(source) != OpKind::MatMul;
}

// Readers of `v`, the result of an integer convolution, read it transposed back and forth by `perm`. False: v is none, or the
// place of the new nodes is not known.
bool turn_back(Graph& g, ValueId v, const std::vector<int64_t>& perm, const Order& order) {
  const NodeId conv = contraction_of(g, v, false);
  if (!conv.valid() || g.op(conv) != OpKind::QConv || g.use_count(v) > kMostTurnedReaders || g.is_output(v)) return false;
  NodeId first;
  std::vector<Graph::Use> readers;
  for (const Graph::Use& use : g.uses(v)) {
    if (order.at(use.user) == 0) return false;
    if (!first.valid() || order.at(use.user) < order.at(first)) first = use.user;
    readers.push_back(use);
  }
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  Builder b(g, nullptr, first);
  const ValueId turned = b.transpose(b.transpose(v, back), perm);
  if (!turned.valid() || turned == v) return false;
  const NodeId members[] = {g.def(v)};
  merge_origins(g, g.def(turned), members);
  for (const Graph::Use& use : readers) g.set_operand(use.user, use.index, turned);
  return true;
}

// Returns the value that Q/DQ nodes with one scale round to v.
ValueId unrounded(const Graph& g, ValueId v) {
  for (size_t i = 0; i < kMostRoundings && g.def(v).valid() && rounds_by_one(g, g.def(v)); ++i) v = g.operand(g.def(v), 0);
  return v;
}

// Rounds before the transpose what Q/DQ nodes round after it: elements have one scale. `v` is then a transpose.
void round_first(Graph& g, ValueId v, const std::vector<int64_t>& perm) {
  std::vector<NodeId> rounds;  // upwards
  for (NodeId n = g.def(v); n.valid() && rounds_by_one(g, n) && rounds.size() < kMostRoundings; n = g.def(v)) {
    rounds.push_back(n);
    v = g.operand(n, 0);
  }
  const NodeId turn = defining_op(g, v, OpKind::Transpose);
  if (rounds.empty() || !turn.valid() || g.attrs<PermAttrs>(turn).perm != perm) return;
  v = g.operand(turn, 0);
  for (auto n = rounds.rbegin(); n != rounds.rend(); ++n) {
    Builder b(g, nullptr, *n);
    v = b.create(g.op(*n), {v, g.operand(*n, 1), g.operand(*n, 2)}, g.module().attrs[g.attr_id(*n)]);
    const ValueId turned = b.transpose(v, perm);
    const NodeId members[] = {*n};
    for (ValueId made : {v, turned}) merge_origins(g, g.def(made), members);
    replace(g, g.result(*n), turned);
  }
}

bool sink(Graph& g, NodeId n, const Order& order) {
  const auto transposed = [&](size_t i) { return defining_op(g, g.operand(n, i), OpKind::Transpose); };
  if (!same_dims(g, g.operand(n, 0), g.operand(n, 1))) return false;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const NodeId turn = defining_op(g, unrounded(g, g.operand(n, i)), OpKind::Transpose);
    if (!turn.valid() || !is_product(g, turn)) continue;
    // A convolution that was turned here for another sum stays as it is.
    if (turn != transposed(i) && g.op(contraction_of(g, g.operand(turn, 0))) != OpKind::QMatMul) continue;
    const std::vector<int64_t> perm = g.attrs<PermAttrs>(turn).perm;
    round_first(g, g.operand(n, i), perm);
    if (transposed(1 - i).valid()) continue;
    turn_back(g, unrounded(g, g.operand(n, 1 - i)), perm, order);
    round_first(g, g.operand(n, 1 - i), perm);
  }
  const NodeId both[] = {transposed(0), transposed(1)};
  if (!both[0].valid() || !both[1].valid()) return false;
  const std::vector<int64_t> perm = g.attrs<PermAttrs>(both[0]).perm;
  if (perm != g.attrs<PermAttrs>(both[1]).perm || (!is_product(g, both[0]) && !is_product(g, both[1]))) return false;
  Builder b(g, nullptr, n);
  const ValueId sum = b.create(g.op(n), {g.operand(both[0], 0), g.operand(both[1], 0)}, g.module().attrs[g.attr_id(n)]);
  const ValueId turned = b.transpose(sum, perm);
  if (!turned.valid()) return false;
  const NodeId members[] = {n, both[0], both[1]};
  merge_origins(g, g.def(sum), members);
  const ValueId y = g.result(n);
  std::vector<ValueId> backs;
  for (const Graph::Use& use : g.uses(y))
    if (g.op(use.user) == OpKind::Transpose && are_inverse(perm, g.attrs<PermAttrs>(use.user).perm))
      backs.push_back(g.result(use.user));
  replace_group(g, members, y, turned);
  for (ValueId v : backs) replace(g, v, sum);
  return true;
}

}  // namespace

PassResult sink_transposes(Module& m, PassContext& context) {
  int64_t sunk = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::FusedQMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    const Order order(g);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Add) sunk += context.rewrite([&] { return sink(g, n, order); });
  });
  return {sunk > 0, {{"sums", sunk}}};
}

}  // namespace rlxc
