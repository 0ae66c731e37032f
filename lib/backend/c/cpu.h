// GNU C11 (gcc and clang): vector extensions, f16 and bf16 as uint16_t, threads through rlxc_parallel_for. Build with -fwrapv,
// because kernel integers wrap. A vector of bools is a vector of i32 masks.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

const CLike& cpu();

// Returns the text of rlxc_parallel_for: a pool of POSIX threads, or with `threads` false a plain call.
std::string_view parallel_runtime(bool threads);

}  // namespace rlxc::target
