#include "analysis/exchange.h"

#include <algorithm>

#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/mesh.h"

namespace rlxc {
namespace {

constexpr double kLinkNs = 5000;  // from one device to the next, without the bytes

}  // namespace

bool exchanges_data(OpKind op) { return has_trait(op, kCollective) && op != OpKind::DeviceSlice && op != OpKind::DeviceIndex; }

ExchangeCost exchange_cost(const Graph& g, NodeId n, const Link& link) {
  std::string message;
  const auto group = group_of(g.attrs<CollectiveAttrs>(n), &message);
  ExchangeCost e{group ? group->size() : 1, 0, 0};
  const auto devices = static_cast<double>(e.devices);
  const auto operand = static_cast<double>(byte_size(g.type(g.operand(n, 0))).value_or(0));
  double sent = 0, steps = devices - 1;
  switch (g.op(n)) {
    case OpKind::AllReduce: sent = 2 * operand * (devices - 1) / devices, steps *= 2; break;
    case OpKind::AllGather: sent = operand * (devices - 1); break;
    case OpKind::ReduceScatter:
    case OpKind::AllToAll: sent = operand * (devices - 1) / devices; break;
    default: sent = operand, steps = 1;
  }
  e.bytes = static_cast<uint64_t>(sent);
  e.ns = sent / link.bandwidth + steps * kLinkNs;
  return e;
}

bool is_only_sliced(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Param || g.use_count(g.result(n)) == 0) return false;
  for (Graph::Use use : g.uses(g.result(n)))
    if (!is_weight_slice(g, use.user)) return false;
  return true;
}

uint64_t device_weight_bytes(const Graph& g) {
  uint64_t sum = 0;
  for (NodeId n : g.nodes())
    if (is_weight_slice(g, n) || (g.op(n) == OpKind::Param && !is_only_sliced(g, n)))
      sum += byte_size(g.type(g.result(n))).value_or(0);
  return sum;
}

uint64_t live_bytes(const Graph& g) {
  const std::vector<Phase> phase = derive_phases(g);
  std::vector<ValueId> root(g.value_capacity());
  std::vector<NodeId> last(g.value_capacity());
  std::vector<bool> output(g.value_capacity());
  const auto counts = [&](NodeId n) { return !has_trait(g.op(n), kLeaf) && phase[n.raw] != Phase::Prologue; };
  for (NodeId n : g.nodes()) {
    for (size_t r = 0; r < g.result_count(n); ++r) root[g.result(n, r).raw] = g.result(n, r);
    if (view_of(g, n)) root[g.result(n).raw] = root[g.operand(n, 0).raw];
    for (ValueId v : g.operands(n))
      if (v.valid()) last[root[v.raw].raw] = n;
  }
  for (ValueId v : g.outputs()) output[root[v.raw].raw] = true;
  const auto bytes = [&](ValueId v) {
    return output[v.raw] || g.type(v).kind != TypeKind::Tensor ? 0 : byte_size(g.type(v)).value_or(0);
  };
  uint64_t live = 0, most = 0;
  std::vector<bool> freed(g.value_capacity());
  for (NodeId n : g.nodes()) {
    for (size_t r = 0; counts(n) && r < g.result_count(n); ++r)
      if (const ValueId v = g.result(n, r); root[v.raw] == v && last[v.raw].valid()) live += bytes(v);
    most = std::max(most, live);
    for (ValueId v : g.operands(n)) {
      if (!v.valid()) continue;
      const ValueId owner = root[v.raw];
      if (last[owner.raw] != n || freed[owner.raw] || !counts(g.def(owner))) continue;
      freed[owner.raw] = true;
      live -= bytes(owner);
    }
  }
  return most;
}

}  // namespace rlxc
