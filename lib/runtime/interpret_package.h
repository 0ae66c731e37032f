// Runs a package with the kernel interpreter as its device. Slow, but out-of-bounds accesses, races and reads of uninitialised
// memory are errors that name the kernel.
#pragma once
#include <memory>
#include <string>

#include "runtime/run_kernels.h"

namespace rlxc {

// For kernel targets. Returns null with Code::UnsupportedOnTarget. The module must outlive the runner. A run fails with
// Code::TooLarge if its launches take more than max_operations; 0: no limit. `lowerings` as for make_kernel_runner. Its buffers
// and results are counted by `memory`, if given.
std::unique_ptr<KernelRunner> make_interpreting_runner(const LirModule&, const std::string& target, Diagnostics&,
                                                       uint64_t max_operations = 0, codegen::LoweringCache* lowerings = nullptr,
                                                       std::shared_ptr<eval::MemoryMeter> memory = nullptr);

}  // namespace rlxc
