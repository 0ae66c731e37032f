#include "passes/legalise/unfuse_elementwise_regions.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/fuse/region_step.h"
#include "passes/graphs.h"

namespace rlxc {

ValueId unfuse_region(Graph& g, NodeId n) {
  Builder b(g, nullptr, n);
  const std::vector<RegionStep> steps = g.attrs<RegionAttrs>(n).steps;
  std::vector<ValueId> values, operands;
  for (const RegionStep& s : steps) {
    operands.clear();
    for (size_t i = 0; i < argument_count(s); ++i) {
      const uint16_t a = s.args[i];
      operands.push_back(a & RegionStep::kStep ? values[a & ~RegionStep::kStep] : g.operand(n, a));
    }
    const ValueId v = b.create(s.op, operands, attrs_of_step(s));
    if (!v.valid()) return {};
    g.set_origin(g.def(v), g.origin(n));
    values.push_back(v);
  }
  const std::vector<Dim> dims(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  return b.expand(values.back(), dims);
}

PassResult unfuse_elementwise_regions(Module& m, PassContext& context) {
  const TargetTraits& t = context.target;
  const bool native = t.native[static_cast<size_t>(OpKind::ElementwiseRegion)];
  int64_t unfused = 0;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::ElementwiseRegion) continue;
      if (native && g.attrs<RegionAttrs>(n).steps.size() <= t.region_max_steps && g.operands(n).size() <= t.region_max_inputs)
        continue;
      const ValueId v = unfuse_region(g, n);
      if (!v.valid()) {
        context.diagnostics.error(Code::Internal, "a region does not type-check step by step", "node \"" + g.label(n) + "\"");
        continue;
      }
      g.replace_all_uses(g.result(n), v);
      g.erase(n);
      ++unfused;
    }
  }
  return {unfused > 0, {{"regions_unfused", unfused}}};
}

}  // namespace rlxc
