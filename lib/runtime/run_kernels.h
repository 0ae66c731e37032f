// Builds the cpu package with the C compiler of this machine, loads it and runs it: the kernels engine of `rlxc run`.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "eval/eval.h"
#include "ir/lir.h"
#include "runtime/run_package.h"

namespace rlxc {

namespace codegen {
class LoweringCache;
}

class KernelRunner {
 public:
  virtual ~KernelRunner() = default;
  virtual std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics&) = 0;
};

// Returns null with Code::UnsupportedOnTarget (for every node without a kernel) or Code::ToolFailed. A run fails with
// Code::TooLarge if its loops take more than RunOptions::max_operations. `lowerings`: of the module, if it was planned for
// another processor than the target's default.
std::unique_ptr<KernelRunner> make_kernel_runner(const LirModule&, Diagnostics&, const RunOptions& = {},
                                                 codegen::LoweringCache* lowerings = nullptr);

}  // namespace rlxc
