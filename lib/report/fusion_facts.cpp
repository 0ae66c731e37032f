#include "report/fusion_facts.h"

#include <algorithm>
#include <unordered_set>

#include "analysis/cost.h"
#include "analysis/phases.h"
#include "analysis/views.h"
#include "ir/graphs.h"
#include "support/hash.h"

namespace rlxc::report {
namespace {

constexpr size_t kNamesTried = 8;  // of the sources of a node
constexpr size_t kMostReasons = 4;

// Misses by the name of the node that they are about.
class MissIndex {
 public:
  MissIndex(const Module& m, std::span<const Decision> decisions) : module_(m) {
    for (const Decision& d : decisions)
      if (!d.fused) misses_[d.node.bytes()].push_back(&d);
  }
  bool empty() const { return misses_.empty(); }

  // Those about one of the two nodes which name the other, or no other.
  void find(const Graph& g, NodeId a, NodeId b, std::vector<const Decision*>* out) const {
    about(g, a, b, out);
    about(g, b, a, out);
  }

 private:
  template <class F>
  void each_name(const Graph& g, NodeId n, F f) const {
    if (g.node_name(n).valid()) f(module_.text(g.node_name(n)));
    if (!g.origin(n).valid()) return;
    const std::vector<Symbol>& sources = module_.origin(g.origin(n)).sources;
    for (size_t i = 0; i < sources.size() && i < kNamesTried; ++i)
      if (sources[i] != g.node_name(n)) f(module_.text(sources[i]));
  }
  bool names(const Graph& g, NodeId n, std::string_view name) const {
    bool found = false;
    each_name(g, n, [&](std::string_view s) { found |= s == name; });
    return found;
  }
  void about(const Graph& g, NodeId n, NodeId neighbour, std::vector<const Decision*>* out) const {
    each_name(g, n, [&](std::string_view name) {
      const auto it = misses_.find(name);
      if (it == misses_.end()) return;
      for (const Decision* d : it->second) {
        if (out->size() >= kMostReasons) return;
        const bool fits = d->members.empty() ||
                          std::ranges::any_of(d->members, [&](const ForeignText& s) { return names(g, neighbour, s.bytes()); });
        const bool known =
            std::ranges::any_of(*out, [&](const Decision* o) { return o->pattern == d->pattern && o->reason == d->reason; });
        if (fits && !known) out->push_back(d);
      }
    });
  }

  const Module& module_;
  std::unordered_map<std::string_view, std::vector<const Decision*>> misses_;
};

void collect_readers(const Graph& g, const std::vector<bool>& launch, ValueId value, std::vector<NodeId>* readers) {
  std::vector<ValueId> open = {value};
  for (size_t i = 0; i < open.size(); ++i)
    for (Graph::Use use : g.uses(open[i])) {
      if (use.user == g.terminator()) continue;
      if (launch[use.user.raw]) readers->push_back(use.user);
      else if (use.index == 0 && view_of(g, use.user)) open.push_back(g.result(use.user));
    }
  std::sort(readers->begin(), readers->end(), [](NodeId a, NodeId b) { return a.raw < b.raw; });
  readers->erase(std::unique(readers->begin(), readers->end()), readers->end());
}

}  // namespace

void DecisionTotals::add(const Decision& d) {
  ++(d.fused ? formed : missed);
  if (d.fused) launches += d.launches_saved, bytes += d.bytes_saved;
}

DecisionSummary::DecisionSummary(std::span<const Decision> decisions) {
  for (const Decision& d : decisions) {
    all.add(d);
    patterns[d.pattern].add(d);
    if (!d.fused) misses[{d.pattern, d.reason}].push_back(&d);
  }
}

LaunchFacts::LaunchFacts(const Module& m, std::span<const Decision> decisions) {
  const MissIndex misses(m, decisions);
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    const std::vector<Phase> phases = derive_phases(g);
    std::vector<bool> launch(g.node_capacity());
    for (NodeId n : g.nodes()) launch[n.raw] = is_launch(g, n, phases[n.raw]);
    NodeId before;
    for (NodeId n : g.nodes()) {
      if (!launch[n.raw]) continue;
      if (continues_launch(g, before, n)) launches.back().nodes.push_back(n);
      else launches.push_back({id, {n}});
      before = n;
      for (size_t r = 0; r < g.result_count(n); ++r) {
        Handover h{id, g.result(n, r), n, {}, 0, {}};
        collect_readers(g, launch, h.value, &h.to);
        std::erase_if(h.to, [&](NodeId reader) { return continues_launch(g, n, reader); });
        if (h.to.empty()) continue;
        h.bytes = static_cast<int64_t>(byte_size(g.type(h.value)).value_or(0));
        if (!misses.empty())
          for (NodeId reader : h.to) misses.find(g, n, reader, &h.why);
        handovers.push_back(std::move(h));
      }
    }
  }
}

constexpr std::string_view kElementwiseRegion = "elementwise_region", kProductEnd = "matmul_bias_act";

std::vector<Decision> settled(std::vector<Decision> decisions) {
  const auto key_of = [](const Decision& d, std::string_view pattern, std::string_view node) {
    Hash128 h;
    h.update_u64(d.graph.raw);
    h.update_text(pattern);
    h.update_text(node);
    return h;
  };
  const auto key = [&](const Decision& d) { return key_of(d, d.pattern, d.node.bytes()); };
  std::unordered_map<uint64_t, size_t> merged;  // node of a declined decision -> the last decision that merged it, plus one
  for (const Decision& d : decisions)
    if (!d.fused) merged.try_emplace(key(d).digest().low);
  const auto note = [&](const Decision& d, std::string_view node, size_t i) {
    // What stays apart from its elementwise readers, or from a product, may become part of any other kernel.
    for (std::string_view pattern : {std::string_view(d.pattern), kElementwiseRegion, kProductEnd})
      if (const auto it = merged.find(key_of(d, pattern, node).digest().low); it != merged.end()) it->second = i + 1;
  };
  for (size_t i = 0; i < decisions.size() && !merged.empty(); ++i) {
    const Decision& d = decisions[i];
    if (!d.fused) continue;
    note(d, d.node.bytes(), i);
    for (const ForeignText& m : d.members) note(d, m.bytes(), i);
  }
  std::unordered_set<uint64_t> seen;
  std::vector<Decision> out;
  for (size_t i = 0; i < decisions.size(); ++i) {
    Decision& d = decisions[i];
    if (!d.fused) {
      Hash128 same = key(d);
      const size_t last = merged.at(same.digest().low);
      same.update_text(d.reason);
      for (const ForeignText& m : d.members) same.update_text(m.bytes());
      if (last > i + 1 || !seen.insert(same.digest().low).second) continue;
    }
    out.push_back(std::move(d));
  }
  return out;
}

ModuleCounts count_module(const Module& m) {
  ModuleCounts c;
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    const std::vector<Phase> phases = derive_phases(g);
    NodeId before;
    for (NodeId n : g.nodes()) {
      ++c.nodes;
      ++c.ops[static_cast<size_t>(g.op(n))];
      if (!is_launch(g, n, phases[n.raw])) continue;
      const Cost cost = node_cost(g, n);
      c.launches += !continues_launch(g, before, n);
      before = n;
      c.traffic += cost.bytes_read + cost.bytes_written;
    }
  }
  return c;
}

}  // namespace rlxc::report
