// Emulates CUDA, HIP and MSL: headers with the languages' types, qualifiers and built-in functions. The C++ compiler of this
// machine builds unmodified kernel sources, and their threads run as fibers that meet at barriers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

// Returns the headers that rendered kernels include, for the include path.
std::vector<std::pair<std::string, std::string>> emulation_headers();

// Returns kernel sources with storage for MSL's shared memory, which a header cannot provide: pointers have the same qualifier.
std::string emulated(std::string source);

// Returns a C function `void rlxc_entry_<i>(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t*
// threads)` that runs a kernel. Append it to the kernel's source. `metal`: the kernel has an MSL argument list.
std::string emulation_entry(const kernel::Kernel&, size_t i, bool metal);

}  // namespace rlxc::target
