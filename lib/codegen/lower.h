// Lowers a node to kernels.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/capability.h"
#include "codegen/node_kernels.h"
#include "ir/layout.h"

namespace rlxc::codegen {

bool has_lowering(OpKind);  // whether the op has kernels in any form
// Returns whether lower_node has kernels for the node on this target, and sets `reason` if not. O(operands).
bool supports(const Graph&, NodeId, const CapabilityRow&, std::string* reason);

bool may_prepack(OpKind);  // whether the op has prepacked buffers in any form
// Facts about the kernels of a node that memory planning uses.
struct LoweringInfo {
  std::vector<PrepackedBuffer> prepacked;  // buffers that replace operands at run time: all or none
};
// `on_load`: the operands known at load time. Builds no kernels. O(operands).
LoweringInfo lower_info(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&, const std::vector<bool>& on_load);

// Returns whether the result may share the operand's memory, if the operand has no later use and equal shape and element width.
// The kernels then never load an operand element after they store to the result at its index; the kernel interpreter checks this.
// O(1).
bool may_overwrite(const Graph&, NodeId, size_t result, size_t operand);

// Returns simplified kernels, or nullopt where `supports` fails. `prepacked`: the buffers of lower_info, or none. Kernels are
// named after the op; the caller makes names unique. Leaves and control flow have no kernels. Does not change the graph, except
// that the DimTable may grow.
std::optional<NodeKernels> lower_node(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&,
                                      std::span<const PrepackedBuffer> prepacked, std::string* reason);

// Returns a kernel that adds the number of out-of-range indices in an operand to Binding::BadIndices, and sets `indices` to that
// operand. Returns nullopt for a node without indices.
std::optional<NodeKernels> lower_index_check(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&, ValueId* indices);

}  // namespace rlxc::codegen
