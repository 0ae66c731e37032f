// Rewrites of a kernel that keep what it computes, bit for bit.
//
// A builder may write an expression as often as it likes: equal expressions are one node. These passes decide where it is
// evaluated, and give names to what is used more than once, so that the text of a kernel is linear in its expressions.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// All of the passes below, in order. Linear in statements times nesting depth plus expressions. Returns the number of changes.
int simplify(Kernel&);

// Every pure expression with several uses becomes a Let before the first of them, in the innermost block that holds them all.
// An expression that reads memory or divides moves only to where it was evaluated anyway. Deep expressions are split.
int name_shared(Kernel&);

// Lets of a variable or a constant are replaced by it; Lets that nothing uses are removed.
int remove_dead_lets(Kernel&);

}  // namespace rlxc::kernel
