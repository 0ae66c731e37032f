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
    default: sent = operand, steps = std::min(1.0, devices - 1);
  }
  e.bytes = static_cast<uint64_t>(sent);
  e.ns = sent / link.bandwidth + steps * kLinkNs;
  return e;
}

double send_ns(uint64_t bytes, const Link& link) { return static_cast<double>(bytes) / link.bandwidth + kLinkNs; }

RunClock::RunClock(const Graph& g) : g_(g), split_(stages_of(g)), stages_(split_ ? static_cast<size_t>(split_->count) : 1) {}

void RunClock::compute(NodeId n, double ns) {
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (split_ && !split_->computes(static_cast<int64_t>(s), n)) continue;
    stages_[s].compute_ns += ns;
    stages_[s].end_ns += ns;
  }
}

ExchangeCost RunClock::exchange(NodeId n, const Link& link) {
  const ExchangeCost e = exchange_cost(g_, n, link);
  std::string message;
  const auto& a = g_.attrs<CollectiveAttrs>(n);
  const auto group = group_of(a, &message);
  const bool between = split_ && group && std::ranges::find(group->along, split_->axis) != group->along.end();
  double begin = 0;
  const auto takes_part = [&](size_t s) { return !split_ || split_->computes(static_cast<int64_t>(s), n); };
  for (size_t s = 0; s < stages_.size(); ++s)
    if (takes_part(s)) begin = std::max(begin, stages_[s].end_ns);
  for (size_t s = 0; s < stages_.size(); ++s) {
    if (!takes_part(s)) continue;
    Stage& stage = stages_[s];
    stage.end_ns = (between ? begin : stage.end_ns) + e.ns;
    stage.exchange_ns += e.ns;
    const bool sends = !between || g_.op(n) != OpKind::CollectivePermute ||
                       std::ranges::find(a.source, static_cast<int64_t>(s)) != a.source.end();
    if (sends) stage.sent += e.bytes;
  }
  return e;
}

double RunClock::end_ns() const { return std::ranges::max(stages_, {}, &Stage::end_ns).end_ns; }

const RunClock::Stage& RunClock::busiest() const {
  return *std::ranges::max_element(stages_, {}, [](const Stage& s) { return s.compute_ns + s.exchange_ns; });
}

bool is_only_sliced(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Param || g.use_count(g.result(n)) == 0) return false;
  for (Graph::Use use : g.uses(g.result(n)))
    if (!is_weight_slice(g, use.user)) return false;
  return true;
}

std::vector<uint64_t> stage_weight_bytes(const Graph& g) {
  const auto stages = stages_of(g);
  std::vector<uint64_t> sums(stages ? static_cast<size_t>(stages->count) : 1);
  for (NodeId n : g.nodes())
    if (is_weight_slice(g, n) || (g.op(n) == OpKind::Param && !is_only_sliced(g, n)))
      for (size_t s = 0; s < sums.size(); ++s)
        if (!stages || stages->computes(static_cast<int64_t>(s), n)) sums[s] += byte_size(g.type(g.result(n))).value_or(0);
  return sums;
}

uint64_t device_weight_bytes(const Graph& g) { return std::ranges::max(stage_weight_bytes(g)); }

uint64_t load_time_bytes(const Graph& g) {
  const std::vector<Phase> phase = program_phases(g);
  std::vector<ValueId> root(g.value_capacity());
  std::vector<bool> counted(g.value_capacity());
  uint64_t sum = 0;
  for (NodeId n : g.nodes()) {
    for (size_t r = 0; r < g.result_count(n); ++r) root[g.result(n, r).raw] = g.result(n, r);
    if (view_of(g, n)) root[g.result(n).raw] = root[g.operand(n, 0).raw];
    if (phase[n.raw] == Phase::Prologue) continue;
    for (ValueId v : g.operands(n)) {
      if (!v.valid() || counted[root[v.raw].raw]) continue;
      const NodeId maker = g.def(root[v.raw]);
      if (phase[maker.raw] != Phase::Prologue || has_trait(g.op(maker), kLeaf) || is_weight_slice(g, maker)) continue;
      counted[root[v.raw].raw] = true;
      sum += byte_size(g.type(root[v.raw])).value_or(0);
    }
  }
  return sum;
}

uint64_t live_bytes(const Graph& g) {
  const std::vector<Phase> phase = program_phases(g);
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
