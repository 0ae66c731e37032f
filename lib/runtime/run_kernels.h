// Builds the generated cpu package with the C compiler of this machine, loads it and runs it: the kernels engine of `rlxc run`.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "eval/eval.h"
#include "ir/lir.h"

namespace rlxc {

class KernelRunner {
 public:
  virtual ~KernelRunner() = default;
  virtual std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics&) = 0;
};

// Null when a node has no kernel (Code::UnsupportedOnTarget, all of them listed) or the compiler fails (Code::ToolFailed). A run
// whose loops take more than max_operations ends with Code::TooLarge; 0: no limit.
std::unique_ptr<KernelRunner> make_kernel_runner(const LirModule&, Diagnostics&, uint64_t max_operations = 0);

}  // namespace rlxc
