// One run of a package from the host's side: its inputs checked, the sizes that follow from them, and room for its outputs.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "codegen/package.h"
#include "eval/eval.h"

namespace rlxc {

struct Call {
  std::vector<int64_t> sizes;  // of the package's symbols
  std::vector<const void*> in;
  std::vector<void*> out;                      // the bytes of `results`, with 64 more behind
  std::vector<eval::HostValue> results;        // data-dependent dims are 0; the bytes have room for their bounds
  std::vector<std::vector<std::byte>> copies;  // of inputs given as one repeated element, and of misaligned ones

  void set_shape(size_t result, std::vector<int64_t> dims);  // after the run
};

// Puts the sizes of these inputs, in the order of the main graph, in the place of the symbols that they are.
void bind_input_sizes(Module&, std::span<const eval::HostValue> inputs);

// Inputs in the order of the graph. Errors: Code::BadShape, BadType where they do not fit, UnboundDim. The inputs must outlive
// it.
std::optional<Call> bind_call(const codegen::Package&, std::span<const eval::HostValue> inputs, Diagnostics&);

}  // namespace rlxc
