#include "ir/stages.h"

#include <algorithm>

namespace rlxc {
namespace {

class Demand {
 public:
  Demand(const Graph& g, const Mesh& mesh, size_t axis)
      : g_(g), axis_(axis), count_(mesh.axes[axis].size), value_(g.value_capacity()) {
    s_.axis = axis;
    s_.count = count_;
    s_.of.assign(g.node_capacity(), 0);
  }

  // Bits of the stages that are.
  uint32_t all() const { return count_ == Stages::kMost ? Stages::kAll : (uint32_t{1} << count_) - 1; }

  // False if every stage needs every node.
  bool run() {
    std::vector<NodeId> nodes;
    for (NodeId n : g_.nodes()) nodes.push_back(n);
    for (ValueId v : g_.outputs())
      if (v.valid()) value_[v.raw] = all();
    bool any = false;
    for (size_t i = nodes.size(); i-- > 0;) {
      const uint32_t bits = visit(nodes[i]);
      any |= bits != 0 && bits != all();
    }
    for (uint32_t& bits : s_.of)
      if (bits == all()) bits = Stages::kAll;
    return any;
  }
  Stages take() { return std::move(s_); }

 private:
  uint32_t visit(NodeId n) {
    uint32_t results = g_.result_count(n) == 0 || has_trait(g_.op(n), kImpure) ? all() : 0, operands = 0;
    for (size_t r = 0; r < g_.result_count(n); ++r) results |= value_[g_.result(n, r).raw];
    operands = results;
    if (has_trait(g_.op(n), kCollective)) {
      std::string message;
      const auto group = group_of(g_.attrs<CollectiveAttrs>(n), &message);
      const bool along = group && std::ranges::find(group->along, axis_) != group->along.end();
      if (along && g_.op(n) == OpKind::CollectivePermute && group->along.size() == 1) operands = senders(n, results);
      else if (along && g_.op(n) != OpKind::DeviceSlice && g_.op(n) != OpKind::DeviceIndex) results = operands = all();
    }
    for (ValueId v : g_.operands(n))
      if (v.valid()) value_[v.raw] |= operands;
    return s_.of[n.raw] = results | operands;
  }
  uint32_t senders(NodeId n, uint32_t receivers) const {
    uint32_t bits = 0;
    const std::vector<int64_t>& source = g_.attrs<CollectiveAttrs>(n).source;
    for (size_t at = 0; at < source.size(); ++at)
      if (receivers >> at & 1 && source[at] >= 0) bits |= uint32_t{1} << source[at];
    return bits;
  }

  const Graph& g_;
  const size_t axis_;
  const int64_t count_;
  std::vector<uint32_t> value_;
  Stages s_;
};

}  // namespace

std::optional<Stages> stages_of(const Graph& g) {
  std::vector<size_t> seen;
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::CollectivePermute) continue;
    std::string message;
    const auto group = group_of(g.attrs<CollectiveAttrs>(n), &message);
    if (!group || group->along.size() != 1 || group->size() > Stages::kMost) continue;
    const size_t axis = group->along[0];
    if (std::ranges::find(seen, axis) != seen.end()) continue;
    seen.push_back(axis);
    Demand demand(g, group->mesh, axis);
    if (demand.run()) return demand.take();
  }
  return std::nullopt;
}

}  // namespace rlxc
