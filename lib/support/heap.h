// The heap of a compile. A large graph touches memory once and keeps most of it, so that clearing its pages takes a tenth of the
// time. Vectors grow by copying; by default glibc maps and unmaps each of them, and all their pages fault again.
#pragma once
#include <cstddef>

namespace rlxc {

// Reserves addresses for graphs of some million nodes in pages of 2 MiB. One takes as long as some thirty small pages.
// `is_limited`: a limit counts reserved memory, so that none is reserved.
void reserve_heap(bool is_limited);

// Clears pages of the reserved heap on another processor, for about this many bytes that the caller is about to allocate.
void populate_heap(size_t bytes);

}  // namespace rlxc
