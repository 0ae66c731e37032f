// Elements of 8 and 16 bits share 32-bit words of memory. A thread that writes one element of a word needs two atomic operations,
// and every read of this memory is atomic, too. If neighbouring threads write neighbouring elements, one thread computes all
// elements of a word instead, and stores it whole.
#pragma once
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

// Makes vector accesses of arguments with elements of less than 32 bits whole words: those that may begin within a word become
// accesses of single elements (a load has a Ramp as index). is_aligned: whether an argument begins at a word, empty if all do.
void align_words(kernel::Kernel&, const std::vector<bool>& is_aligned);

// Merges threads that store elements of a word. Follows align_words().
void merge_stores(kernel::Kernel&, const std::vector<bool>& is_aligned);

// Returns whether a thread stores only a part of a word of the memory of arguments.
bool stores_parts(const kernel::Kernel&);

}  // namespace rlxc::target
