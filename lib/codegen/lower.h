// From a node to kernels: which kernels compute it, in which order they are launched, and what memory each of them gets.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/capability.h"
#include "ir/graph.h"
#include "kernel/language.h"

namespace rlxc::codegen {

// One argument of a launch: an operand or result of the node, a scratch buffer of the node, or an i64 that it stores a size to
// which only it can tell. Later launches see that size.
struct Binding {
  enum class Kind : uint8_t { Operand, Result, Scratch, Extent };
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
  bool on_load = false;            // written by on_load launches and kept
  std::vector<uint32_t> operands;  // on_load: what it is made of, which no other launch reads
  double saved_ns = 0;             // on_load: what runs save by it, about, on one thread of a common processor
};

inline Dim scratch_bytes(DimTable& dims, const Scratch& s) { return dims.mul(s.elements, Dim(rlxc::bits(s.dtype) / 8)); }

struct NodeKernels {
  std::vector<kernel::Kernel> kernels;
  std::vector<Launch> launches;
  std::vector<Scratch> scratch;
};

// Whether a value is known when weights are loaded: a parameter, a constant, or computed from such only. Null: there is no room
// to keep anything from then, and nothing is made on load.
using IsWeight = std::function<bool(ValueId)>;

// Whether lower_node has kernels for the node on this target; if not, why not. O(operands).
bool has_lowering(OpKind);  // is there a kernel for some of its forms?
bool supports(const Graph&, NodeId, const CapabilityRow&, std::string* why);

// Kernels, simplified and ready to be rendered; nullopt where `supports` says no. Kernel names are the op's name; the caller
// makes them unique. Leaves and control flow have no kernels. Graphs are not changed, but their table of sizes may grow.
std::optional<NodeKernels> lower_node(const Graph&, NodeId, const CapabilityRow&, const IsWeight&, std::string* why);

bool may_keep(OpKind);  // something from when weights are loaded

// The scratch buffers of lower_node that are kept from loading on, in its order, without the work of writing kernels.
std::vector<Scratch> kept_scratch(const Graph&, NodeId, const CapabilityRow&, const IsWeight&);

// What both depend on: nodes of a module with equal keys have equal kernels.
std::vector<uint32_t> lowering_key(const Graph&, NodeId, const IsWeight&);

}  // namespace rlxc::codegen
