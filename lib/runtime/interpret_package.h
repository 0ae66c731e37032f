// Runs a package with the interpreter of the kernel language in the place of a device: slow, but every access out of bounds, race
// and read of memory that nothing was stored to is an error that names the kernel.
#pragma once
#include <memory>
#include <string>

#include "runtime/run_kernels.h"

namespace rlxc {

// For targets that kernels are written for. Null with Code::UnsupportedOnTarget. The module must outlive it. A run
// whose launches take more than max_operations ends with Code::TooLarge; 0: no limit.
std::unique_ptr<KernelRunner> make_interpreting_runner(const LirModule&, const std::string& target, Diagnostics&,
                                                       uint64_t max_operations = 0);

}  // namespace rlxc
