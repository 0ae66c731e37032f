// Bindings for devices that bind weights separately and only a limited number of bytes per binding (WebGPU). All other memory is
// one address range. Both are split into buffers within the limit. Each kernel argument names its buffers; an argument that spans
// several is accessed through all of them.
#pragma once
#include "codegen/package.h"

namespace rlxc {

// Assigns bindings, and duplicates kernels that are launched with different ones. Weights are split at multiples of `limit` (0:
// no limit). The address range is: packed, outputs, inputs (except states), arena, held, scratch, cells, each aligned to 64
// bytes; Package::cuts holds the splits. Symbolic sizes take their maximum over the module's ranges; without ranges memory is not
// split and the host rejects sizes that are too large. Arguments of control flow bodies are bound to all buffers. Warns, with the
// nodes, if a kernel needs more bindings than every device has; an error if it needs more than can exist. Weights beyond these
// bindings, the small ones first, are copied to packed memory when the package is loaded.
// Returns for each kernel and argument a power of two, at most 16, that divides its address in bytes in all launches.
std::vector<std::vector<uint8_t>> bind_memory(codegen::Package*, uint64_t limit, Diagnostics&);

}  // namespace rlxc
