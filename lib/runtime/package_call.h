// One call of a package from the host: checked inputs, the sizes that follow, and memory for outputs.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "codegen/package.h"
#include "eval/eval.h"

namespace rlxc {

struct Call {
  std::vector<int64_t> sizes;  // by symbol of the package
  std::vector<const void*> in;
  std::vector<void*> out;                      // the bytes of `results`, padded by 64
  std::vector<eval::HostValue> results;        // data-dependent dims are 0; memory is sized for their bounds
  std::vector<std::vector<std::byte>> copies;  // of inputs given as one repeated element, and of misaligned inputs

  void set_shape(size_t result, std::vector<int64_t> dims);  // call after the run
};

// The symbols that follow from the sizes of these inputs, given in the order of the main graph.
DimBindings input_sizes(const Module&, std::span<const eval::HostValue> inputs);
// Replaces them by these sizes.
void bind_input_sizes(Module&, std::span<const eval::HostValue> inputs);

// Refuses an index that is out of range. Error: Code::BadTensor.
bool check_index_inputs(const Module&, std::span<const IndexInput>, std::span<const eval::HostValue> inputs, Diagnostics&);

// `inputs` are in the order of the graph and must outlive the call. Errors: Code::BadShape or BadType if they do not fit,
// UnboundDim, TooLarge if `memory`, which counts the results, has no room for them.
std::optional<Call> bind_call(const codegen::Package&, std::span<const eval::HostValue> inputs, Diagnostics&,
                              const std::shared_ptr<eval::MemoryMeter>& memory = nullptr);

}  // namespace rlxc
