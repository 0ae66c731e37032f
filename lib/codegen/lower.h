// From a node to kernels: which kernels compute it, in which order they are launched, and what memory each of them gets.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/capability.h"
#include "ir/layout.h"
#include "kernel/language.h"

namespace rlxc::codegen {

// One argument of a launch: an operand or result of the node, a scratch buffer of the node, an i64 that it stores a size to
// which only it can tell (later launches see that size), or the i64 that counts indices out of range.
struct Binding {
  enum class Kind : uint8_t { Operand, Result, Scratch, Extent, BadIndices };
  Kind kind = Kind::Operand;
  uint32_t index = 0;  // of an Extent: among those of the node
  bool operator==(const Binding&) const = default;
};

struct Launch {
  uint32_t kernel = 0;           // of NodeKernels::kernels
  std::vector<Binding> buffers;  // the kernel's Global buffers, in order
  std::vector<Dim> sizes;        // the kernel's symbols, in order
  bool on_load = false;          // reads nothing but weights: runs once, when the weights are loaded
  bool copies = false;           // buffer 0 to buffer 1, as they are
};

struct Scratch {
  DType dtype = DType::F32;
  Dim elements;
  bool on_load = false;  // a prepacked buffer: written by on_load launches
};

inline Dim scratch_bytes(DimTable& dims, DType t, Dim elements) { return dims.mul(elements, Dim(rlxc::bits(t) / 8)); }

// A buffer that is written once, when weights are loaded, and that the kernels of a node read at every run.
struct PrepackedBuffer {
  DType dtype = DType::F32;
  Dim elements;
  std::vector<uint32_t> operands;  // that it is made of; runs do not read them
  double saved_ns = 0;             // that a run saves by it, about, on one thread of a common processor
};

struct NodeKernels {
  std::vector<kernel::Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Scratch> scratch;
};

bool has_lowering(OpKind);  // is there a kernel for some of its forms?
// Whether lower_node has kernels for the node on this target; if not, why not. O(operands).
bool supports(const Graph&, NodeId, const CapabilityRow&, std::string* reason);

bool may_prepack(OpKind);  // have kernels for some of its forms prepacked buffers?
// Facts about the kernels of a node that memory planning uses.
struct LoweringInfo {
  std::vector<PrepackedBuffer> prepacked;  // that its kernels can read in place of operands: all or none
};
// `on_load`: which operands are known when weights are loaded. Writes no kernels. O(operands).
LoweringInfo lower_info(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&, const std::vector<bool>& on_load);

// May the result lie where the operand lies, if nothing needs that any more and both have one shape and width? The kernels then
// load no element of the operand once they have stored to the result at its index, which the interpreter of kernels checks. O(1).
bool may_overwrite(const Graph&, NodeId, size_t result, size_t operand);

// Kernels, simplified and ready to be rendered; nullopt where `supports` says no. `prepacked` are those of lower_info, or none.
// Kernel names are the op's name; the caller makes them unique. Leaves and control flow have no kernels. Graphs are not changed,
// but their table of sizes may grow.
std::optional<NodeKernels> lower_node(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&,
                                      std::span<const PrepackedBuffer> prepacked, std::string* reason);

// A kernel that adds the number of indices out of range, among those that the node reads from an operand, to Binding::BadIndices;
// nullopt for a node that reads none. `indices`: that operand.
std::optional<NodeKernels> lower_index_check(const Graph&, const GraphLayouts&, NodeId, const CapabilityRow&, ValueId* indices);

}  // namespace rlxc::codegen
