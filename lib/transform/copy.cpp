#include "transform/copy.h"

#include "ir/bind_dims.h"

namespace rlxc::transform {

GraphId cloned(Module& m, GraphId id, const SymbolValues& sizes) {
  const GraphId copy = m.make_graph(m.graph(id).name().bytes() + "_again" + std::to_string(m.graph_count()));
  Builder b(m.graph(copy));
  std::vector<ValueId> inputs;
  for (NodeId n : m.graph(id).inputs()) {
    const ValueId v = m.graph(id).result(n);
    Type t = m.graph(id).type(v);
    if (!sizes.empty())
      for (Dim& d : t.dims) d = substitute(m.dims, d, sizes);
    inputs.push_back(b.input(std::string(m.bytes(m.graph(id).value_name(v))), t));
  }
  m.graph(copy).set_outputs(inlined(b, id, inputs, sizes));
  return copy;
}

NodeId repeated(Builder& b, const Graph& from, NodeId n, std::span<const ValueId> operands, const SymbolValues& sizes) {
  std::vector<GraphId> bodies;
  for (GraphId inner : from.bodies(n)) bodies.push_back(cloned(b.module(), inner, sizes));
  const Attrs& attrs = b.module().attrs[from.attr_id(n)];
  if (sizes.empty()) return b.create_node(from.op(n), operands, attrs, bodies);
  return b.create_node(from.op(n), operands, with_dims(attrs, [&](Dim d) { return substitute(b.dims(), d, sizes); }), bodies);
}

std::vector<ValueId> inlined(Builder& b, GraphId body, std::span<const ValueId> inputs, const SymbolValues& sizes) {
  const Graph& g = b.module().graph(body);
  std::vector<ValueId> map(g.value_capacity()), out;
  for (size_t i = 0; i < inputs.size(); ++i) map[g.result(g.inputs()[i]).raw] = inputs[i];
  for (NodeId n : g.nodes()) {
    if (g.op(n) == OpKind::Input) continue;
    std::vector<ValueId> operands;
    for (ValueId v : g.operands(n)) operands.push_back(v.valid() ? map[v.raw] : v);
    b.set_node_name(g.node_name(n));
    const NodeId copy = repeated(b, g, n, operands, sizes);
    if (!copy.valid()) return {};
    for (size_t r = 0; r < g.result_count(n); ++r) map[g.result(n, r).raw] = b.graph().result(copy, r);
  }
  b.set_node_name({});
  for (ValueId v : g.outputs()) out.push_back(map[v.raw]);
  return out;
}

}  // namespace rlxc::transform
