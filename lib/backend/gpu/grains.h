// Arrays of vectors. In WGSL, memory is an array of one element type, and a read never exceeds an element. Arrays of vectors of
// two or four words thus have wider reads. Reads of parts of an element are allowed, but threads that write parts of one race.
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
