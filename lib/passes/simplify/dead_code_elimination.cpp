// Removes nodes that no output depends on, in all graphs, and captures that no body reads. Declared inputs stay; unused
// parameters and unused impure nodes go (state is an explicit result). A node that defines a dim used by other nodes (NonZero)
// stays. O(nodes).
#include <algorithm>
#include <optional>
#include <set>

#include "ir/bind_dims.h"
#include "ir/graphs.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

bool has_uses(const Graph& g, NodeId n) {
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (g.use_count(g.result(n, r)) > 0) return true;
  return false;
}

// Drops captures of `n` that no body reads. Returns their number.
int64_t drop_unread_captures(Graph& g, NodeId n) {
  Module& m = g.module();
  const Captures c = captures(g, n);
  std::vector<ValueId> kept(g.operands(n).begin(), g.operands(n).end());
  int64_t dropped = 0;
  for (size_t i = kept.size(); i-- > c.first;) {
    const size_t input = i - c.input_offset;
    const bool read =
        std::ranges::any_of(g.bodies(n), [&](GraphId b) { return has_uses(m.graph(b), m.graph(b).inputs()[input]); });
    if (read) continue;
    for (GraphId b : g.bodies(n)) {
      Graph& body = m.graph(b);
      const NodeId leaf = body.inputs()[input];
      body.remove_input(leaf);
      body.erase(leaf);
    }
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    ++dropped;
  }
  if (dropped) g.set_operands(n, kept);
  return dropped;
}

// The dims that nodes use by symbol instead of by operand: those of DimValue, Reshape, TopK, ...
class NamedSizes {
 public:
  explicit NamedSizes(const Module& m) : m_(m) {}

  // Returns whether a result of the node has a used dim that none of its operands has (NonZero, SequenceAt, ...).
  bool defined_by(const Graph& g, NodeId n) {
    for (size_t r = 0; r < g.result_count(n); ++r)
      for (Dim d : g.dims(g.result(n, r)))
        if (!d.is_static() && !is_operand_size(g, n, d) && names_part_of(g, n, d)) return true;
    return false;
  }

 private:
  static bool is_operand_size(const Graph& g, NodeId n, Dim d) {
    return std::ranges::any_of(g.operands(n), [&](ValueId v) { return v.valid() && std::ranges::count(g.dims(v), d) > 0; });
  }

  bool names_part_of(const Graph& g, NodeId n, Dim d) {
    if (!named_) collect();
    if (named_->empty()) return false;
    std::set<std::string> known;
    for (ValueId v : g.operands(n))
      if (v.valid())
        for (Dim own : g.dims(v)) known.merge(symbols(own));
    if (!has_trait(g.op(n), kBody)) each_dim(m_.attrs[g.attr_id(n)], [&](Dim own) { known.merge(symbols(own)); });
    const std::set<std::string> own = symbols(d);
    return std::ranges::any_of(own, [&](const std::string& s) { return named_->contains(s) && !known.contains(s); });
  }

  std::set<std::string> symbols(Dim d) const {
    const auto list = m_.dims.symbols_of(d);
    return {list.begin(), list.end()};
  }

  void collect() {
    named_.emplace();
    std::set<int64_t> seen;
    for (GraphId id : graphs_in_use(m_)) {
      const Graph& g = m_.graph(id);
      for (NodeId n : g.nodes())
        each_dim(m_.attrs[g.attr_id(n)], [&](Dim d) {
          if (!d.is_static() && seen.insert(d.raw()).second) named_->merge(symbols(d));
        });
    }
  }

  const Module& m_;
  std::optional<std::set<std::string>> named_;
};

}  // namespace

PassResult dead_code_elimination(Module& m, PassContext& context) {
  int64_t nodes = 0, dropped = 0;
  std::vector<GraphId> graphs = graphs_in_use(m);
  std::ranges::reverse(graphs);
  NamedSizes named(m);
  for (GraphId id : graphs) {  // bodies first: their unused captures may be dead in the parent
    Graph& g = m.graph(id);
    std::vector<NodeId> order;
    order.reserve(g.live_nodes());
    for (NodeId n : g.nodes()) order.push_back(n);
    std::ranges::reverse(order);
    for (NodeId n : order) {
      if (g.op(n) == OpKind::Input) continue;
      if (!has_uses(g, n)) {
        if (named.defined_by(g, n)) continue;
        nodes += context.rewrite([&] {
          g.erase(n);
          return true;
        });
      } else if (has_trait(g.op(n), kBody)) {
        const int64_t before = dropped;
        context.rewrite([&] { return (dropped += drop_unread_captures(g, n)) > before; });
      }
    }
  }
  return {nodes + dropped > 0, {{"nodes_removed", nodes}, {"captures_removed", dropped}}};
}

}  // namespace rlxc
