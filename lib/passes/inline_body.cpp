#include "passes/inline_body.h"

namespace rlxc {

std::vector<ValueId> copy_body(Graph& g, NodeId before, const Graph& body, std::span<const ValueId> inputs,
                               std::vector<NodeId>* made) {
  std::vector<ValueId> map(body.value_capacity());
  for (size_t i = 0; i < body.inputs().size(); ++i) map[body.result(body.inputs()[i]).raw] = inputs[i];
  std::vector<ValueId> operands;
  std::vector<TypeId> types;
  for (NodeId n : body.nodes()) {
    if (body.op(n) == OpKind::Input) continue;
    operands.clear();
    types.clear();
    for (ValueId v : body.operands(n)) operands.push_back(v.valid() ? map[v.raw] : v);
    for (size_t r = 0; r < body.result_count(n); ++r) types.push_back(body.type_id(body.result(n, r)));
    const NodeId copy = g.make_node(body.op(n), operands, body.attr_id(n), types, body.bodies(n).copy(), before);
    g.set_node_name(copy, body.node_name(n));
    g.set_origin(copy, body.origin(n));
    for (size_t r = 0; r < types.size(); ++r) {
      map[body.result(n, r).raw] = g.result(copy, r);
      g.set_value_name(g.result(copy, r), body.value_name(body.result(n, r)));
    }
    if (made) made->push_back(copy);
  }
  std::vector<ValueId> results;
  for (ValueId v : body.outputs()) results.push_back(map[v.raw]);
  return results;
}

std::vector<ValueId> inline_body(Graph& g, NodeId before, Graph& body, std::span<const ValueId> inputs,
                                 std::vector<NodeId>* made) {
  const std::vector<ValueId> results = copy_body(g, before, body, inputs, made);
  std::vector<NodeId> order;
  for (NodeId n : body.nodes()) order.push_back(n);
  body.set_outputs({});
  while (!body.inputs().empty()) body.remove_input(body.inputs().back());
  for (auto n = order.rbegin(); n != order.rend(); ++n) body.erase(*n);
  return results;
}

}  // namespace rlxc
