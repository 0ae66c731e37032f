// Merges connected elementwise nodes into ElementwiseRegion nodes: one launch with interior values in registers. A node joins the
// region of its users, visited backwards, so a region has one result and no path leaves and re-enters it. A cheap node is copied
// into the regions of several users, unless it ends the epilogue of an integer matmul or convolution. Limited by the target's
// steps and operands, and by the cost of recomputing values smaller than the result. Runs after precision is chosen, since casts
// are steps. O(nodes + uses).
#include <algorithm>

#include "analysis/phases.h"
#include "ir/graphs.h"
#include "ir/op_rules.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/region_step.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

constexpr uint32_t kNoGroup = 0xFFFFFFFF;
constexpr size_t kMostCopies = 4;     // limit on copies of a node
constexpr size_t kMostEpilogue = 24;  // elementwise nodes after a contraction that are looked at

struct Group {
  NodeId root;
  std::vector<NodeId> members;  // last first
  std::vector<ValueId> inputs;  // distinct operands from outside
  double flops = 0;
};

class Marker {
 public:
  Marker(Graph& g, PassContext& c) : graph_(g), context_(c) {}

  void run() {
    std::vector<NodeId> order;
    order.reserve(graph_.live_nodes());
    load_time_.resize(graph_.node_capacity());
    weight_.resize(graph_.node_capacity());
    of_contraction_.resize(graph_.node_capacity());
    group_.assign(graph_.node_capacity(), kNoGroup);
    for (NodeId n : graph_.nodes()) {
      order.push_back(n);
      of_contraction_[n.raw] = follows_contraction(n);
      weight_[n.raw] = is_load_time(graph_, n, [&](ValueId v) { return weight_[graph_.def(v).raw]; });
      load_time_[n.raw] = weight_[n.raw] && has_known_sizes(n);
    }
    for (auto n = order.rbegin(); n != order.rend(); ++n)
      if (can_be_step(graph_, *n) && graph_.use_count(graph_.result(*n)) > 0) place(*n);
    for (const Group& group : groups_)
      if (group.members.size() > 1)
        context_.rewrite([&] {
          emit(group);
          return true;
        });
    // After the regions: a node separate from its users may end a region of its own.
    std::ranges::move(misses_, std::back_inserter(context_.decisions));
  }

  int64_t regions = 0, merged = 0, copies = 0;

 private:
  const TargetTraits& target() const { return context_.target; }
  ValueId value(NodeId n) const { return graph_.result(n); }

  // Whether the sizes of the results are known before the first run.
  bool has_known_sizes(NodeId n) const {
    for (size_t i = 0; i < graph_.result_count(n); ++i)
      if (!graph_.type(graph_.result(n, i)).is_static()) return false;
    return true;
  }

  // Adds n to the region of its users, or starts a new region.
  void place(NodeId n) {
    std::vector<uint32_t> wanted;  // distinct regions of the users
    bool outside = false;          // some user is in no region
    for (Graph::Use use : graph_.uses(value(n))) {
      const uint32_t u = use.user.raw < group_.size() ? group_[use.user.raw] : kNoGroup;
      if (u == kNoGroup) outside = true;
      else if (std::ranges::find(wanted, u) == wanted.end() && wanted.size() <= kMostCopies) wanted.push_back(u);
    }
    if (!wanted.empty() && outside) miss(n, graph_.is_output(value(n)) ? "graph_output" : "multi_consumer", wanted[0]);
    if (wanted.empty() || outside) return start(n);
    if (wanted.size() > kMostCopies || (wanted.size() > 1 && (ends_epilogue(n) || gives_codes(n, wanted)))) {
      miss(n, "multi_consumer", wanted[0]);
      return start(n);
    }
    for (uint32_t u : wanted)
      if (const char* reason = refusal(n, groups_[u])) {
        miss(n, reason, u);
        return start(n);
      }
    if (wanted.size() > 1 || !std::ranges::equal(graph_.dims(value(n)), graph_.dims(value(groups_[wanted[0]].root)))) {
      if (const auto time = recompute(n, wanted); !time.pays()) {
        miss(n, "cost", wanted[0], time.detail());
        return start(n);
      }
      if (wanted.size() > 1 && !context_.rewrite([] { return true; })) return start(n);
    }
    for (size_t i = 1; i < wanted.size(); ++i) join(copy_for(n, wanted[i]), wanted[i]);
    join(n, wanted[0]);
  }

  // Whether elementwise nodes of one shape, up to this one, compute it from the sums of an integer contraction.
  bool follows_contraction(NodeId n) const {
    if (graph_.op(n) == OpKind::QMatMul || graph_.op(n) == OpKind::QConv) return true;
    return can_be_step(graph_, n) && std::ranges::any_of(graph_.operands(n), [&](ValueId v) {
             return v.valid() && match::same_dims(graph_, v, value(n)) && of_contraction_[graph_.def(v).raw];
           });
  }

  // Whether the node ends elementwise work on the sums of an integer contraction, which then computes it.
  bool ends_epilogue(NodeId n) const {
    for (size_t steps = 0; steps < kMostEpilogue; ++steps) {
      const auto whole = std::ranges::find_if(graph_.operands(n), [&](ValueId v) {
        return v.valid() && match::same_dims(graph_, v, value(n)) && graph_.has_one_use(v) && of_contraction_[graph_.def(v).raw];
      });
      if (whole == graph_.operands(n).end()) return false;
      n = graph_.def(*whole);
      if (graph_.op(n) == OpKind::QMatMul || graph_.op(n) == OpKind::QConv) return true;
      if (!can_be_step(graph_, n)) return false;
    }
    return false;
  }

  // Whether some of these regions round n to 8 bits and others read it. If computing n again would read at least as much as
  // storing it and reading it back, one kernel gives both results (fuse_integer_results).
  bool gives_codes(NodeId n, const std::vector<uint32_t>& wanted) const {
    if (!target().integer_fusions || graph_.dtype(value(n)) != DType::F32) return false;
    const auto rounds = [&](uint32_t u) {
      const ValueId root = value(groups_[u].root);
      const bool codes = is_int8(graph_.dtype(root));
      return codes && match::same_dims(graph_, root, value(n)) && std::ranges::all_of(groups_[u].inputs, [&](ValueId v) {
               return !v.valid() || v == value(n) || num_elements(graph_.type(v)) == 1;
             });
    };
    const auto codes = std::ranges::count_if(wanted, rounds);
    if (codes == 0 || codes == std::ssize(wanted)) return false;
    int read = 0;  // bits of an element of what n is computed from
    std::vector<NodeId> work{n};
    for (size_t i = 0; i < work.size() && i < kMostEpilogue; ++i)
      for (ValueId v : graph_.operands(work[i])) {
        if (!v.valid() || !match::same_dims(graph_, v, value(n)) || load_time_[graph_.def(v).raw]) continue;
        if (graph_.has_one_use(v) && can_be_step(graph_, graph_.def(v))) work.push_back(graph_.def(v));
        else read += bits(graph_.dtype(v));
      }
    return read >= 2 * bits(graph_.dtype(value(n)));
  }

  void start(NodeId n) {
    group_[n.raw] = static_cast<uint32_t>(groups_.size());
    groups_.push_back({n, {n}, {}, element_flops(graph_.op(n)) * elements(value(n))});
    for (ValueId v : graph_.operands(n)) add_input(groups_.back(), v);
  }

  static void add_input(Group& group, ValueId v) {
    if (std::ranges::find(group.inputs, v) == group.inputs.end()) group.inputs.push_back(v);
  }

  double elements(ValueId v) const { return static_cast<double>(num_elements(graph_.type(v)).value_or(0)); }
  int64_t bytes(ValueId v) const { return static_cast<int64_t>(byte_size(graph_.type(v)).value_or(0)); }

  Cost cost_of(const Group& group) const {
    Cost c{group.flops, 0, bytes(value(group.root))};
    for (ValueId v : group.inputs) c.bytes_read += bytes(v);
    return c;
  }

  // Compares recomputing n per element of these regions with storing it once. With symbolic dims, regions count as memory-bound:
  // cheap nodes cost nothing.
  fuse::CostDecision recompute(NodeId n, const std::vector<uint32_t>& wanted) const {
    const Machine& machine = target().machine;
    const bool known = num_elements(graph_.type(value(n))) && num_elements(graph_.type(value(groups_[wanted[0]].root)));
    if (!known) return {is_cheap(graph_.op(n)) || divides_alike(n, wanted) ? 0 : machine.launch_ns + 1, machine.launch_ns};
    fuse::CostDecision time{0, launch_time_ns(node_cost(graph_, n), machine)};
    for (uint32_t u : wanted) {
      Cost c = cost_of(groups_[u]);
      time.separate_ns += work_time_ns(c, machine);
      c.flops += element_flops(graph_.op(n)) * elements(value(groups_[u].root));
      c.bytes_read -= bytes(value(n));
      for (ValueId v : graph_.operands(n))
        if (std::ranges::find(groups_[u].inputs, v) == groups_[u].inputs.end()) c.bytes_read += bytes(v);
      time.fused_ns += work_time_ns(c, machine);
    }
    return time;
  }

  // Whether n divides elements by a number, in at most two regions whose rows are its own: these read the elements instead of the
  // quotients.
  bool divides_alike(NodeId n, const std::vector<uint32_t>& wanted) const {
    return wanted.size() <= 2 && cost_rule(graph_.op(n)) == CostRule::Division && graph_.operands(n).size() == 2 &&
           num_elements(graph_.type(graph_.operand(n, 1))) == 1 && std::ranges::all_of(wanted, [&](uint32_t u) {
             const auto own = graph_.dims(value(n)), whole = graph_.dims(value(groups_[u].root));
             return !own.empty() && !whole.empty() && own.back() == whole.back();
           });
  }

  const char* refusal(NodeId n, const Group& group) const {
    if (load_time_[n.raw] != load_time_[group.root.raw]) return "load_time";
    const RegionLimits limits = region_limits(target(), of_contraction_[n.raw]);
    if (group.members.size() + 1 > limits.steps) return "step_limit";
    std::vector<ValueId> inputs = group.inputs;
    std::erase(inputs, value(n));
    for (ValueId v : graph_.operands(n))
      if (std::ranges::find(inputs, v) == inputs.end()) inputs.push_back(v);
    return limits.take(graph_, inputs) ? nullptr : "operand_limit";
  }

  void join(NodeId n, uint32_t u) {
    Group& group = groups_[u];
    group_[n.raw] = u;
    group.members.push_back(n);
    group.flops += element_flops(graph_.op(n)) * elements(value(group.root));
    std::erase(group.inputs, value(n));
    for (ValueId v : graph_.operands(n)) add_input(group, v);
  }

  NodeId copy_for(NodeId n, uint32_t u) {
    const std::vector<ValueId> operands(graph_.operands(n).begin(), graph_.operands(n).end());
    const TypeId type = graph_.type_id(value(n));
    const NodeId copy = graph_.make_node(graph_.op(n), operands, graph_.attr_id(n), {&type, 1}, {}, n);
    graph_.set_node_name(copy, graph_.node_name(n));
    graph_.set_origin(copy, graph_.origin(n));
    group_.resize(graph_.node_capacity(), kNoGroup);
    load_time_.resize(graph_.node_capacity());
    weight_.resize(graph_.node_capacity());
    load_time_[copy.raw] = load_time_[n.raw];
    weight_[copy.raw] = weight_[n.raw];
    of_contraction_.resize(graph_.node_capacity());
    of_contraction_[copy.raw] = of_contraction_[n.raw];
    std::vector<Graph::Use> mine;
    for (Graph::Use use : graph_.uses(value(n)))
      if (group_[use.user.raw] == u) mine.push_back(use);
    for (Graph::Use use : mine) graph_.set_operand(use.user, use.index, value(copy));
    std::ranges::replace(groups_[u].inputs, value(n), value(copy));
    ++copies;
    return copy;
  }

  void miss(NodeId n, const char* reason, uint32_t u, std::string detail = {}) {
    if (weight_[n.raw]) return;  // what depends on weights and sizes alone is not counted as missed
    Decision d;
    d.pattern = "elementwise_region";
    d.reason = reason;
    d.node = match::label_symbol(graph_, n);
    d.graph = graph_.id();
    d.members = {match::label_symbol(graph_, groups_[u].root)};
    d.lapses_when_merged = true;
    d.detail = !detail.empty() ? std::move(detail)
                               : std::to_string(graph_.use_count(value(n))) + " uses, region of " +
                                     std::to_string(groups_[u].members.size()) + " steps and " +
                                     std::to_string(groups_[u].inputs.size()) + " operands";
    misses_.push_back(std::move(d));
  }

  void emit(const Group& group) {
    FusionAttrs attrs;
    std::vector<ValueId> operands;
    std::vector<NodeId> members(group.members.rbegin(), group.members.rend());
    Decision d;
    d.pattern = "elementwise_region";
    d.reason = "fused";
    d.fused = true;
    d.graph = graph_.id();
    d.node = match::label_symbol(graph_, group.root);
    d.launches_saved = static_cast<int64_t>(members.size()) - 1;
    for (size_t k = 0; k < members.size(); ++k) {
      const NodeId n = members[k];
      step_.resize(graph_.node_capacity());
      step_[n.raw] = static_cast<uint16_t>(k);
      RegionStep step = make_step(graph_, n);
      for (size_t i = 0; i < graph_.operands(n).size(); ++i) {
        const ValueId v = graph_.operand(n, i);
        const NodeId from = graph_.def(v);
        if (from != n && group_[from.raw] == group_[n.raw]) {
          step.args[i] = RegionStep::kStep | step_[from.raw];
          continue;
        }
        const auto known = std::ranges::find(operands, v);
        step.args[i] = static_cast<uint16_t>(known - operands.begin());
        if (known == operands.end()) operands.push_back(v);
      }
      attrs.steps.push_back(step);
      d.members.push_back(match::label_symbol(graph_, n));
      if (n != group.root) d.bytes_saved += 2 * static_cast<int64_t>(byte_size(graph_.type(value(n))).value_or(0));
    }
    Module& m = graph_.module();
    const TypeId type = graph_.type_id(value(group.root));
    const NodeId region =
        graph_.make_node(OpKind::ElementwiseRegion, operands, m.attrs.intern(std::move(attrs)), {&type, 1}, {}, group.root);
    group_.resize(graph_.node_capacity(), kNoGroup);
    merge_origins(graph_, region, members);
    graph_.replace_all_uses(value(group.root), value(region));
    for (NodeId n : group.members) graph_.erase(n);
    ++regions;
    merged += static_cast<int64_t>(members.size());
    context_.decisions.push_back(std::move(d));
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<bool> weight_;          // by node: depends on parameters, constants and sizes only
  std::vector<bool> load_time_;       // by node: is computed before the first run
  std::vector<bool> of_contraction_;  // by node: see follows_contraction
  std::vector<uint32_t> group_;       // by node
  std::vector<uint16_t> step_;        // by node: its step in its region
  std::vector<Group> groups_;
  std::vector<Decision> misses_;
};

}  // namespace

PassResult mark_elementwise_regions(Module& m, PassContext& context) {
  int64_t regions = 0, merged = 0, copies = 0;
  if (context.target.native[static_cast<size_t>(OpKind::ElementwiseRegion)])
    for (GraphId id : graphs_in_use(m)) {
      Marker marker(m.graph(id), context);
      marker.run();
      regions += marker.regions;
      merged += marker.merged;
      copies += marker.copies;
    }
  return {regions > 0, {{"regions", regions}, {"nodes_merged", merged}, {"nodes_copied", copies}}};
}

}  // namespace rlxc
