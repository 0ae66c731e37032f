#include "memory/schedule_for_memory.h"

#include <algorithm>

#include "analysis/phases.h"
#include "codegen/lower.h"
#include "ir/graphs.h"
#include "plan/schedule.h"

namespace rlxc {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
constexpr size_t kMostTasks = 100'000;  // larger graphs are not searched

struct Tasks {
  plan::TaskGraph graph;
  std::vector<std::vector<NodeId>> nodes;  // by task: the nodes of its launch
};

bool is_task(const Graph& g, const GraphPlan& plan, NodeId n) {
  if (has_trait(g.op(n), kLeaf | kTerminator) || plan.phase[n.raw] == Phase::Prologue) return false;
  return g.result_count(n) == 0 || !plan.slot[g.result(n).raw].view;
}

Tasks tasks_of(const Graph& g, const GraphPlan& plan, const Liveness& liveness, const std::vector<GraphPlan>& plans) {
  const DimTable& dims = g.module().dims;
  Tasks out;
  std::vector<uint32_t> buffer(g.value_capacity(), kNone);         // by root value
  std::vector<std::vector<uint32_t>> readers(g.value_capacity());  // of old states: the tasks that read them
  uint32_t last_effect = kNone;
  for (NodeId n : plan.schedule) {
    if (!is_task(g, plan, n)) continue;
    const bool joins = !out.nodes.empty() && continues_launch(g, out.nodes.back().back(), n);
    if (!joins) {
      out.nodes.emplace_back();
      out.graph.tasks.emplace_back();
    }
    const auto t = static_cast<uint32_t>(out.nodes.size() - 1);
    out.nodes.back().push_back(n);
    plan::Task& task = out.graph.tasks.back();
    if (joins) task.overwrites.clear();
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      const Slot& s = plan.slot[v.raw];
      buffer[v.raw] = static_cast<uint32_t>(out.graph.bytes.size());
      task.makes.push_back(buffer[v.raw]);
      const ValueId old = liveness.replaces[v.raw];
      out.graph.bytes.push_back(s.region == Region::None && !old.valid() ? sample_size(dims, s.size) : 0);
      // A state is written after all that read it, or its new value would need memory of its own, and a copy.
      if (old.valid())
        for (uint32_t reader : readers[old.raw])
          if (reader != t) out.graph.before.emplace_back(reader, t);
      out.graph.kept.push_back(liveness.last_use[v.raw] >= plan.schedule.size());
    }
    for (size_t i = 0; i < g.operands(n).size(); ++i) {
      const ValueId v = g.operand(n, i);
      const ValueId root = v.valid() ? plan.layouts.root[v.raw] : v;
      if (root.valid() && plan.slot[root.raw].region == Region::State) readers[root.raw].push_back(t);
      const uint32_t b = root.valid() ? buffer[root.raw] : kNone;
      if (b == kNone || std::find(task.makes.begin(), task.makes.end(), b) != task.makes.end()) continue;
      task.reads.push_back(b);
      if (!joins && !task.makes.empty() && !liveness.replaces[g.result(n).raw].valid() && codegen::may_overwrite(g, n, 0, i) &&
          std::ranges::equal(g.dims(v), g.dims(g.result(n))))
        task.overwrites.push_back(b);
    }
    if (runs_bodies(g, n))
      for (GraphId b : g.bodies(n)) task.scratch += sample_size(dims, plans[b.raw].arena_size);
    if (!has_trait(g.op(n), kImpure | kSequenceOp | kBody)) continue;
    if (last_effect != kNone) out.graph.before.emplace_back(last_effect, t);
    last_effect = t;
  }
  return out;
}

// Inserts all other nodes into this order of tasks. A load-time result comes right before its first reader, which may prepack it;
// views and leaves come as early as possible.
std::vector<NodeId> with_others(const Graph& g, const GraphPlan& plan, const std::vector<NodeId>& tasks) {
  const auto waits_for_readers = [&](NodeId n) {
    return is_task(g, plan, n) || (plan.phase[n.raw] == Phase::Prologue && !has_trait(g.op(n), kLeaf));
  };
  std::vector<uint32_t> waits(g.node_capacity());
  for (NodeId n : plan.schedule)
    for (ValueId v : g.operands(n)) waits[n.raw] += v.valid();
  std::vector<bool> seen(g.node_capacity());
  std::vector<NodeId> order;
  std::vector<std::pair<NodeId, size_t>> stack;  // a node, and how many of its operands have been visited
  const auto look_at = [&](NodeId n) {
    if (!seen[n.raw]) stack.emplace_back(n, 0);
    seen[n.raw] = true;
  };
  const auto emit = [&](NodeId last) {
    for (look_at(last); !stack.empty();) {
      const NodeId n = stack.back().first;
      const size_t i = stack.back().second++;
      if (i < g.operands(n).size()) {
        if (g.operand(n, i).valid()) look_at(g.def(g.operand(n, i)));
        continue;
      }
      order.push_back(n);
      stack.pop_back();
      for (size_t r = 0; r < g.result_count(n); ++r)
        for (const Graph::Use use : g.uses(g.result(n, r)))
          if (use.user != g.terminator() && --waits[use.user.raw] == 0 && !waits_for_readers(use.user)) look_at(use.user);
    }
  };
  for (NodeId n : plan.schedule)
    if (g.operands(n).empty() && !waits_for_readers(n)) emit(n);
  for (NodeId n : tasks) emit(n);
  for (NodeId n : plan.schedule) emit(n);  // nodes that only outputs depend on
  return order;
}

}  // namespace

std::optional<std::vector<NodeId>> order_for_memory(const Graph& g, const GraphPlan& given, const Liveness& liveness,
                                                    const std::vector<GraphPlan>& plans) {
  const Tasks tasks = tasks_of(g, given, liveness, plans);
  if (tasks.nodes.size() < 3 || tasks.nodes.size() > kMostTasks) return std::nullopt;
  const plan::Order order = plan::schedule(tasks.graph);
  if (std::is_sorted(order.tasks.begin(), order.tasks.end())) return std::nullopt;
  std::vector<NodeId> nodes;
  for (uint32_t t : order.tasks) nodes.insert(nodes.end(), tasks.nodes[t].begin(), tasks.nodes[t].end());
  return with_others(g, given, nodes);
}

}  // namespace rlxc
