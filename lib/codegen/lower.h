// Lowers a node to kernels, their launch order and the memory of each launch.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/capability.h"
#include "ir/layout.h"
#include "kernel/language.h"

namespace rlxc::codegen {

// One argument of a launch: an operand, result or scratch buffer of the node, an i64 cell where the kernel stores a
// data-dependent dim for later launches, or the i64 counter of out-of-range indices.
struct Binding {
  enum class Kind : uint8_t { Operand, Result, Scratch, Extent, BadIndices };
  Kind kind = Kind::Operand;
  uint32_t index = 0;  // Extent: index among the node's extents
  bool operator==(const Binding&) const = default;
};

struct Launch {
  uint32_t kernel = 0;           // index in NodeKernels::kernels
  std::vector<Binding> buffers;  // the kernel's Global buffers, in order
  std::vector<Dim> sizes;        // the kernel's symbols, in order
  bool on_load = false;          // reads only weights: runs once, at load time
  bool copies = false;           // copies buffer 0 to buffer 1
};

struct Scratch {
  DType dtype = DType::F32;
  Dim elements;
  bool on_load = false;  // a prepacked buffer: written by on_load launches
};

inline Dim scratch_bytes(DimTable& dims, DType t, Dim elements) { return dims.mul(elements, Dim(rlxc::bits(t) / 8)); }

// A buffer that is written once at load time and read by the kernels of a node in every run.
struct PrepackedBuffer {
  DType dtype = DType::F32;
  Dim elements;
  std::vector<uint32_t> operands;  // operands that it is computed from; runs do not read them
  double saved_ns = 0;             // estimated time saved per run, on one CPU thread
};

struct NodeKernels {
  std::vector<kernel::Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Scratch> scratch;
};

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
