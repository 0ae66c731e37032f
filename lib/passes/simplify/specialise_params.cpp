// Turns the Params of PassOptions::specialised_params into Constants, which folding may use. A name without a Param, or a Param
// without data, is an error. O(nodes).
#include "passes/passes.h"
#include "passes/simplify/param_names.h"

namespace rlxc {

PassResult specialise_params(Module& m, PassContext& ctx) {
  Graph& g = m.main();
  std::vector<std::string> names = ctx.options.specialised_params;
  for (NodeId n : g.nodes())  // a second run finds Constants with these names
    if (g.op(n) == OpKind::Constant && !names.empty()) std::erase(names, m.bytes(g.value_name(g.result(n))));
  int64_t made = 0;
  for (NodeId n : find_params(g, names, ctx.diagnostics)) {
    const ValueId v = g.result(n);
    const DataId data = g.attrs<DataAttrs>(n).data;
    if (!data.valid() || (m.data[data].bytes.empty() && m.data[data].size_bytes() > 0)) {
      ctx.diagnostics.error(Code::MissingWeights, "the values of parameter " + g.label(n).quoted() + " are not known");
      continue;
    }
    made += ctx.rewrite([&] {
      const TypeId type = g.type_id(v);
      const NodeId c = g.make_node(OpKind::Constant, {}, g.attr_id(n), {&type, 1}, {}, n);
      g.set_node_name(c, g.node_name(n));
      g.set_value_name(g.result(c), g.value_name(v));
      g.replace_all_uses(v, g.result(c));
      g.erase(n);
      return true;
    });
  }
  return {made > 0, {{"params_specialised", made}}};
}

}  // namespace rlxc
