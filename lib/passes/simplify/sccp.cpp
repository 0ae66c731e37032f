// Conditional constant propagation: constants captured by a body are propagated into it, and an If with a constant condition is
// replaced by the chosen body, at any depth. (Wegman, Zadeck: Constant Propagation with Conditional Branches, 1991; values flow
// through operands only, so the graph itself is the lattice.) O(nodes).
#include "ir/graphs.h"
#include "passes/inline_body.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

struct Work {
  GraphId graph;
  NodeId node;
};

// Turns constant captures of `n` into constants of its bodies. Returns the number of replaced body inputs.
int64_t propagate(Graph& g, NodeId n) {
  Module& m = g.module();
  const Captures c = captures(g, n);
  int64_t replaced = 0;
  for (size_t i = c.first; i < g.operands(n).size(); ++i) {
    const ValueId v = g.operand(n, i);
    if (!v.valid() || g.op(g.def(v)) != OpKind::Constant) continue;
    for (GraphId id : g.bodies(n)) {
      Graph& body = m.graph(id);
      const ValueId input = body.result(body.inputs()[i - c.input_offset]);
      if (body.use_count(input) == 0) continue;
      const TypeId type = g.type_id(v);
      const NodeId copy = body.make_node(OpKind::Constant, {}, g.attr_id(g.def(v)), {&type, 1}, {}, body.first());
      body.replace_all_uses(input, body.result(copy));
      ++replaced;
    }
  }
  return replaced;
}

// The body chosen by a constant condition, or invalid. Its equalities become conditions of the module; inside a body, which may
// not run, they must hold already.
GraphId chosen(Graph& g, NodeId n) {
  if (g.op(n) != OpKind::If) return {};
  const NodeId c = g.def(g.operand(n, 0));
  if (g.op(c) != OpKind::Constant) return {};
  const bool taken = element_as_int(g.module().data[g.attrs<DataAttrs>(c).data], 0) != 0;
  const std::vector<Dim> equal = taken ? g.attrs<IfAttrs>(n).then_equal : g.attrs<IfAttrs>(n).else_equal;
  DimTable& dims = g.module().dims;
  const bool is_main = g.id() == g.module().main().id();
  for (size_t i = 0; i < equal.size(); i += 2)
    if (!(is_main ? dims.assume_equal(equal[i], equal[i + 1]) : dims.equal(equal[i], equal[i + 1]))) return {};
  return g.bodies(n)[taken ? 0 : 1];
}

}  // namespace

PassResult sccp(Module& m, PassContext& context) {
  int64_t propagated = 0, inlined = 0;
  std::vector<Work> work;
  auto visit = [&](const Graph& g, NodeId n) {
    if (has_trait(g.op(n), kBody)) work.push_back({g.id(), n});
  };
  for (NodeId n : m.main().nodes()) visit(m.main(), n);
  std::vector<NodeId> made;
  while (!work.empty()) {
    const Work w = work.back();
    work.pop_back();
    Graph& g = m.graph(w.graph);
    const GraphId body = chosen(g, w.node);
    const auto inline_chosen = [&] {
      made.clear();
      const std::vector<ValueId> operands(g.operands(w.node).begin() + 1, g.operands(w.node).end());
      const std::vector<ValueId> results = inline_body(g, w.node, m.graph(body), operands, &made);
      for (size_t r = 0; r < results.size(); ++r) g.replace_all_uses(g.result(w.node, r), results[r]);
      g.erase(w.node);
      return true;
    };
    if (!body.valid() || !context.rewrite(inline_chosen)) {
      const int64_t before = propagated;
      context.rewrite([&] { return (propagated += propagate(g, w.node)) > before; });
      for (GraphId b : g.bodies(w.node))
        for (NodeId n : m.graph(b).nodes()) visit(m.graph(b), n);
      continue;
    }
    for (NodeId n : made) visit(g, n);
    ++inlined;
  }
  return {propagated + inlined > 0, {{"branches_inlined", inlined}, {"constants_propagated", propagated}}};
}

}  // namespace rlxc
