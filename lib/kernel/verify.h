// Checks that a kernel is well-formed, before it is rendered: element types and lanes of every expression, names in scope,
// the shape of the launch nest, stores to what may be written, indices that are certainly out of bounds, barriers and
// shuffles that only some threads of a workgroup would reach, and the limits of a device. Linear in statements and expressions.
#pragma once
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

struct VerifyLimits {
  int64_t shared_bytes = 48 << 10;
  int64_t workgroup_size = 1024;
};

// What is wrong, in words that name the kernel's variables and buffers; empty for a good kernel.
std::vector<std::string> verify(const Kernel&, const VerifyLimits& = {});

}  // namespace rlxc::kernel
