#include "codegen/kernel_fusion.h"

#include "kernel/fuse_kernels.h"

namespace rlxc::codegen {
namespace {

bool is_weight(const Graph& g, const GraphLayouts& layouts, ValueId v) { return is_weight(g.op(g.def(layouts.root[v.raw]))); }

}  // namespace

bool can_fuse_kernels(const Graph& g, const GraphLayouts& layouts, std::span<const NodeId> nodes, LoweringCache& lowerings,
                      std::string* reason) {
  const CapabilityRow& row = lowerings.row();
  std::vector<const kernel::Kernel*> kernels;
  size_t weights = 0, others = 0;
  for (NodeId n : nodes) {
    const auto& lowered = lowerings.lower(g, layouts, n, vectors_fit(g, n, layouts.offset), {});
    if (!lowered.kernels) {
      *reason = lowered.reason;
      return false;
    }
    for (const Launch& l : lowered.kernels->launches) {
      others += l.sizes.size();
      for (const Binding& b : l.buffers)
        ++(b.kind == Binding::Kind::Operand && is_weight(g, layouts, g.operand(n, b.index)) ? weights : others);
      kernels.push_back(&lowered.kernels->kernels[l.kernel]);
    }
  }
  const size_t arguments = weights + (row.weights_apart ? 1 : others);
  if (row.max_arguments > 0 && arguments > row.max_arguments) {
    *reason = std::to_string(arguments) + " arguments, of " + std::to_string(row.max_arguments) + " that a kernel can have";
    return false;
  }
  return kernel::fits_one_workgroup(kernels, row.mapping, reason);
}

}  // namespace rlxc::codegen
