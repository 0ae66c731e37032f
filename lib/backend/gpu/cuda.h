// CUDA C++ and HIP: one class, two rows.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

const CLike& cuda();
const CLike& rocm();

}  // namespace rlxc::target
