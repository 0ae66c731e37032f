#include "passes/copy_graph.h"

#include "passes/inline_body.h"

namespace rlxc {

Graph& copy_graph(const Graph& g, std::string_view name, std::vector<NodeId>* made) {
  Module& m = g.module();
  Graph& copy = m.graph(m.make_graph(name));
  std::vector<ValueId> inputs;
  for (NodeId n : g.inputs()) {
    const NodeId input = copy.make_node(OpKind::Input, {}, g.attr_id(n), std::vector{g.type_id(g.result(n))});
    copy.set_value_name(copy.result(input), g.value_name(g.result(n)));
    inputs.push_back(copy.result(input));
  }
  const std::vector<ValueId> outputs = copy_body(copy, copy.terminator(), g, inputs, made);
  for (size_t i = 0; i < outputs.size(); ++i) copy.add_output(outputs[i], g.output_name(i));
  return copy;
}

}  // namespace rlxc
