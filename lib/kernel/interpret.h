// Executes a kernel on host memory: the judge of builders, passes and renderers.
//
// The threads of a group go through the statements together, each under its condition, so that barriers have their meaning;
// groups, and iterations of Parallel loops, run one after another. What would be undefined on a device is a finding: accesses
// out of bounds, reads of memory that nothing was stored to, two threads or groups that touch an element (one of them storing)
// without a barrier between them, loads of what another argument at the same place has overwritten since the last global barrier,
// a barrier that some threads do not reach.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

struct InterpretLimits {
  int64_t steps = int64_t{1} << 32;  // expression nodes times threads: beyond it the run stops with a finding
  size_t findings = 8;               // messages kept
};

struct InterpretResult {
  std::vector<std::string> findings;
  bool ok() const { return findings.empty(); }
};

// arguments: memory of the Global buffers, in order; symbols: values of the i64 arguments. f32 is computed in double and
// rounded after every operator.
InterpretResult interpret(const Kernel&, std::span<void* const> arguments, std::span<const int64_t> symbols,
                          const InterpretLimits& = {});

}  // namespace rlxc::kernel
