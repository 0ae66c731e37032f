// Turns the Params of PassOptions::promoted_params into Inputs of the same name and type, after the declared ones, in list order.
// A name without a Param is an error. O(nodes).
#include "passes/passes.h"
#include "passes/simplify/param_names.h"

namespace rlxc {

PassResult promote_params(Module& m, PassContext& ctx) {
  Graph& g = m.main();
  // A second run finds Inputs with these names.
  std::vector<std::string> names = ctx.options.promoted_params;
  for (NodeId n : g.inputs()) std::erase(names, m.bytes(g.value_name(g.result(n))));
  int64_t promoted = 0;
  for (NodeId n : find_params(g, names, ctx.diagnostics))
    promoted += ctx.rewrite([&] {
      const ValueId v = g.result(n);
      const TypeId type = g.type_id(v);
      const NodeId input = g.make_node(OpKind::Input, {}, m.attrs.intern(NoAttrs{}), {&type, 1}, {}, n);
      g.set_node_name(input, g.node_name(n));
      g.set_value_name(g.result(input), g.value_name(v));
      g.replace_all_uses(v, g.result(input));
      g.erase(n);
      return true;
    });
  return {promoted > 0, {{"params_promoted", promoted}}};
}

}  // namespace rlxc
