// Bindings of a device that binds each weight apart, and only so many bytes of a buffer at a time (WebGPU). All memory but the
// weights is one range of addresses; both are cut into buffers that the device can bind. A kernel is told which of its arguments
// lie in which of these, and an argument that lies in several is read and written through all of them.
#pragma once
#include "codegen/package.h"

namespace rlxc {

// Kernels that are used with arguments in different memories become several, and get their bindings. A weight is cut at the
// multiples of `limit` (0: none). The range of addresses is: packed, outputs, inputs (that are no states), arena, held, scratch,
// cells, each from a multiple of 64 on; Package::cuts says where it is cut. Sizes that depend on symbols are the largest ones in
// the ranges of the module; without ranges memory is left whole, and the host refuses sizes that are too large. What a body of
// control flow is handed may lie anywhere: it is bound to all pieces. Warnings, with the nodes: a kernel with more bindings than
// every device has. Errors: more than there can be.
void bind_memory(codegen::Package*, uint64_t limit, Diagnostics&);

}  // namespace rlxc
