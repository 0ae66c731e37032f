// CUDA, HIP and MSL without a device: headers that supply the languages' types, qualifiers and built-in functions, so that
// the C++ compiler of this machine builds the very text of a kernel, and its threads run as fibers that meet at barriers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

// Files for the include path: the headers that rendered kernels include.
std::vector<std::pair<std::string, std::string>> emulation_headers();

// The text of kernels, with what no header can supply: the storage of MSL's shared memory, whose qualifier pointers have too.
std::string emulated(std::string source);

// A C function `void rlxc_entry_<i>(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t* threads)`
// that runs a kernel, to be appended to its text. `metal`: the argument list is that of MSL.
std::string emulation_entry(const kernel::Kernel&, size_t i, bool metal);

}  // namespace rlxc::target
