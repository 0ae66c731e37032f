// Arrays of vectors. In WGSL, memory is an array of one element type, a read of which never exceeds an element. An array of
// vectors of two or four words is read by as many bytes at once. Parts of its elements can be read too, but threads that write
// parts of one element race.
#pragma once
#include <cstdint>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

// Chooses Buffer::grain for arguments and shared buffers: 2 or 4 where vectors are read or written, and all stores are whole
// elements of the array. Other vector accesses of these buffers become accesses of single elements (a load has a Ramp as index).
// alignments: a power of two that divides the address of an argument in bytes; empty: 16 for all. Follows merge_stores().
void choose_grains(kernel::Kernel&, const std::vector<uint8_t>& alignments);

}  // namespace rlxc::target
