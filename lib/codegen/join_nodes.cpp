#include "codegen/join_nodes.h"

#include "analysis/views.h"
#include "kernel/join.h"

namespace rlxc::codegen {
namespace {

bool is_file_weight(const Graph& g, ValueId v) {
  while (view_of(g, g.def(v))) v = g.operand(g.def(v), 0);
  return g.op(g.def(v)) == OpKind::Param || g.op(g.def(v)) == OpKind::Constant;
}

}  // namespace

CapabilityRow without_vectors(CapabilityRow row) {
  row.mapping.load_bytes = row.mapping.vector_bytes = 1;
  return row;
}

bool can_join(const Graph& g, std::span<const NodeId> nodes, const CapabilityRow& row, const IsWeight& is_weight,
              std::string* why) {
  for (const CapabilityRow& form : {row, without_vectors(row)})
    for (const IsWeight& known : {is_weight, IsWeight()}) {
      std::vector<kernel::Kernel> kernels;
      size_t weights = 0, others = 0;
      for (NodeId n : nodes) {
        auto lowered = lower_node(g, n, form, known, why);
        if (!lowered) return false;
        for (const Launch& l : lowered->launches) {
          if (l.on_load) continue;
          others += l.sizes.size();
          for (const Binding& b : l.buffers)
            ++(b.kind == Binding::Kind::Operand && is_file_weight(g, g.operand(n, b.index)) ? weights : others);
          kernels.push_back(lowered->kernels[l.kernel]);
        }
      }
      const size_t arguments = weights + (row.weights_apart ? 1 : others);
      if (row.max_arguments > 0 && arguments > row.max_arguments)
        return *why =
                   std::to_string(arguments) + " arguments, of " + std::to_string(row.max_arguments) + " that a kernel can have",
               false;
      std::vector<const kernel::Kernel*> parts;
      for (const kernel::Kernel& k : kernels) parts.push_back(&k);
      if (!kernel::join("launch", parts, row.mapping, why)) return false;
    }
  return true;
}

}  // namespace rlxc::codegen
