#include "report/fusion_facts.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/cost.h"
#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/graphs.h"

namespace rlxc::report {
namespace {

constexpr size_t kNamesTried = 8;  // limit on visited sources of a node
constexpr size_t kMostReasons = 4;

// Declined fusions by node.
class DeclinedIndex {
 public:
  DeclinedIndex(const Module& m, std::span<const Decision> decisions) : module_(m) {
    for (const Decision& d : decisions)
      if (!d.fused) declined_[d.node.raw].push_back(&d);
  }
  bool empty() const { return declined_.empty(); }

  // Appends the declined fusions about one of the two nodes whose members include the other or are empty.
  void find(const Graph& g, NodeId a, NodeId b, std::vector<const Decision*>* out) const {
    about(g, a, b, out);
    about(g, b, a, out);
  }

 private:
  // Calls f for the name of n and its sources.
  template <class F>
  void each_name(const Graph& g, NodeId n, F f) const {
    if (g.node_name(n).valid()) f(g.node_name(n));
    if (!g.origin(n).valid()) return;
    const std::vector<Symbol>& sources = module_.origin(g.origin(n)).sources;
    for (size_t i = 0; i < sources.size() && i < kNamesTried; ++i)
      if (sources[i] != g.node_name(n)) f(sources[i]);
  }
  bool stands_for(const Graph& g, NodeId n, Symbol decided) const {
    bool found = false;
    each_name(g, n, [&](Symbol s) { found |= s == decided; });
    return found;
  }
  void about(const Graph& g, NodeId n, NodeId neighbour, std::vector<const Decision*>* out) const {
    each_name(g, n, [&](Symbol name) {
      const auto it = declined_.find(name.raw);
      if (it == declined_.end()) return;
      for (const Decision* d : it->second) {
        if (out->size() >= kMostReasons) return;
        const bool fits =
            d->members.empty() || std::ranges::any_of(d->members, [&](Symbol s) { return stands_for(g, neighbour, s); });
        const bool known =
            std::ranges::any_of(*out, [&](const Decision* o) { return o->pattern == d->pattern && o->reason == d->reason; });
        if (fits && !known) out->push_back(d);
      }
    });
  }

  const Module& module_;
  std::unordered_map<uint32_t, std::vector<const Decision*>> declined_;
};

void collect_readers(const Graph& g, const GraphLayouts& layouts, const std::vector<bool>& launch, ValueId value,
                     std::vector<NodeId>* readers) {
  std::vector<ValueId> open = {value};
  for (size_t i = 0; i < open.size(); ++i)
    for (Graph::Use use : g.uses(open[i])) {
      if (use.user == g.terminator()) continue;
      if (launch[use.user.raw]) readers->push_back(use.user);
      else if (use.index == 0 && layouts.is_view(g, use.user)) open.push_back(g.result(use.user));
    }
  std::sort(readers->begin(), readers->end(), [](NodeId a, NodeId b) { return a.raw < b.raw; });
  readers->erase(std::unique(readers->begin(), readers->end()), readers->end());
}

void count_graph(const Graph& g, const GraphLayouts& layouts, const std::vector<Phase>& phases, ModuleCounts* c) {
  NodeId before;
  for (NodeId n : g.nodes()) {
    ++c->nodes;
    ++c->ops[static_cast<size_t>(g.op(n))];
    if (!is_launch(g, layouts, n, phases[n.raw])) continue;
    const Cost cost = node_cost(g, n);
    c->launches += !continues_launch(g, before, n);
    before = n;
    for (int64_t bytes : {cost.bytes_read, cost.bytes_written})
      if (__builtin_add_overflow(c->traffic, bytes, &c->traffic)) c->traffic = INT64_MAX;
  }
}

}  // namespace

void DecisionTotals::add(const Decision& d) {
  ++(d.fused ? formed : declined);
  if (d.fused) {
    launches += d.launches_saved;
    bytes += d.bytes_saved;
  }
}

DecisionSummary::DecisionSummary(std::span<const Decision> decisions) {
  for (const Decision& d : decisions) {
    all.add(d);
    patterns[d.pattern].add(d);
    if (!d.fused) declined[{d.pattern, d.reason}].push_back(&d);
  }
}

LaunchFacts::LaunchFacts(const LirModule& lir, std::span<const Decision> decisions) {
  const Module& m = *lir.module;
  const DeclinedIndex declined(m, decisions);
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    const GraphLayouts& layouts = lir.plans[id.raw].layouts;
    std::vector<bool> launch(g.node_capacity());
    for (NodeId n : g.nodes()) launch[n.raw] = is_launch(g, layouts, n, lir.plans[id.raw].phase[n.raw]);
    NodeId before;
    for (NodeId n : g.nodes()) {
      if (!launch[n.raw]) continue;
      if (continues_launch(g, before, n)) launches.back().nodes.push_back(n);
      else launches.push_back({id, {n}});
      before = n;
      for (size_t r = 0; r < g.result_count(n); ++r) {
        IntermediateValue h{id, g.result(n, r), n, {}, 0, {}};
        collect_readers(g, layouts, launch, h.value, &h.to);
        std::erase_if(h.to, [&](NodeId reader) { return continues_launch(g, n, reader); });
        if (h.to.empty()) continue;
        h.bytes = static_cast<int64_t>(byte_size(g.type(h.value)).value_or(0));
        if (!declined.empty())
          for (NodeId reader : h.to) declined.find(g, n, reader, &h.decisions);
        intermediates.push_back(std::move(h));
      }
    }
  }
}

std::vector<Decision> settled(std::vector<Decision> decisions) {
  // Index of the last fusion that took a node, plus one: of any pattern, and of each pattern. Only for nodes of declined fusions.
  using Node = std::pair<uint32_t, uint32_t>;  // graph, label
  using NodeAndPattern = std::pair<Node, std::string_view>;
  std::map<Node, size_t> any;
  std::map<NodeAndPattern, size_t> same;
  const auto node_of = [](const Decision& d, Symbol s) { return Node{d.graph.raw, s.raw}; };
  for (const Decision& d : decisions)
    if (!d.fused) any[node_of(d, d.node)] = same[{node_of(d, d.node), d.pattern}] = 0;
  for (size_t i = 0; i < decisions.size() && !any.empty(); ++i) {
    const Decision& d = decisions[i];
    const auto merged = [&](Symbol s) {
      const auto it = any.find(node_of(d, s));
      if (it == any.end()) return;
      it->second = i + 1;
      if (const auto own = same.find({it->first, d.pattern}); own != same.end()) own->second = i + 1;
    };
    if (!d.fused) continue;
    merged(d.node);
    for (Symbol m : d.members) merged(m);
  }
  std::set<std::tuple<NodeAndPattern, std::string_view, std::vector<uint32_t>>> seen;
  std::vector<bool> holds(decisions.size(), true);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Decision& d = decisions[i];
    if (d.fused) continue;
    const NodeAndPattern key{node_of(d, d.node), d.pattern};
    std::vector<uint32_t> members;
    for (Symbol m : d.members) members.push_back(m.raw);
    const size_t last = d.lapses_when_merged ? any.at(key.first) : same.at(key);
    holds[i] = last <= i + 1 && seen.emplace(key, d.reason, std::move(members)).second;
  }
  std::vector<Decision> out;
  for (size_t i = 0; i < decisions.size(); ++i)
    if (holds[i]) out.push_back(std::move(decisions[i]));
  return out;
}

ModuleCounts count_module(const Module& m) {
  ModuleCounts c;
  for (GraphId id : graphs_in_use(m)) count_graph(m.graph(id), assign_layouts(m.graph(id)), derive_phases(m.graph(id)), &c);
  return c;
}

ModuleCounts count_module(const LirModule& lir) {
  ModuleCounts c;
  for (GraphId id : graphs_in_use(*lir.module))
    count_graph(lir.module->graph(id), lir.plans[id.raw].layouts, lir.plans[id.raw].phase, &c);
  return c;
}

}  // namespace rlxc::report
