// Checks that a kernel is well-formed before it is rendered: element types and lanes, names in scope, the launch nest, writable
// buffers, indices that are certainly out of bounds, barriers and shuffles under non-uniform control, and device limits. Linear
// in statements and expressions.
#pragma once
#include <string>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

struct VerifyLimits {
  int64_t shared_bytes = 48 << 10;
  int64_t workgroup_size = 1024;
};

// Returns the errors, which name the kernel's variables and buffers. Empty if the kernel is valid.
std::vector<std::string> verify(const Kernel&, const VerifyLimits& = {});

}  // namespace rlxc::kernel
