// Executes a kernel on host memory: the oracle for builders, passes and renderers.
//
// The threads of a workgroup execute the statements in lockstep, each under its own condition. Workgroups and iterations of
// Parallel loops run one after another. What a device leaves undefined is a finding: accesses out of bounds, reads of
// uninitialised memory, races between threads or workgroups, barriers that some threads do not reach, and loads from an argument
// after an aliased argument overwrote the element, without a global barrier between.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

struct InterpretLimits {
  int64_t steps = int64_t{1} << 32;  // expression nodes times threads; the run stops with a finding beyond it
  size_t findings = 8;               // most messages recorded
};

struct InterpretResult {
  std::vector<std::string> findings;
  bool ok() const { return findings.empty(); }
};

// arguments: memory of the Global buffers, in order. symbols: values of the i64 arguments. f32 is computed in double and rounded
// after every operator.
InterpretResult interpret(const Kernel&, std::span<void* const> arguments, std::span<const int64_t> symbols,
                          const InterpretLimits& = {});

}  // namespace rlxc::kernel
