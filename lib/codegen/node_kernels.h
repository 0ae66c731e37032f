// The kernels of a node, their launch order and the memory of each launch.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/dim.h"
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

}  // namespace rlxc::codegen
