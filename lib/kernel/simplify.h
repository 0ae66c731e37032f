// Rewrites of a kernel that preserve its results bit for bit.
//
// Equal expressions are one node, however often a builder writes them. These passes decide where a node is evaluated and name the
// shared ones, which bounds the text of a kernel linearly in its expressions.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// Runs the passes below in order. Linear in statements times nesting depth plus expressions. Returns the number of changes.
int simplify(Kernel&);

// Simplifies indices by interval analysis: quotients and remainders of sums with divisible terms, comparisons with a known
// result, dead branches, loops of at most one iteration.
int simplify_indices(Kernel&);

// Puts every pure expression with several uses in a Let before the first one, in the innermost block that dominates them all. An
// expression that reads memory moves only to where it was evaluated anyway.
int name_shared(Kernel&);

// Replaces Lets of a variable or a constant by their value; removes unused Lets, and registers that nothing reads.
int remove_dead_lets(Kernel&);

// Moves a read of mutable memory with one use to that use if only Lets are between them: `acc = acc + x`.
int sink_reads(Kernel&);

// Splits expressions more than `height` operators high into Lets.
int split_deep(Kernel&, int height = 16);

// Narrows i64 arithmetic that provably fits to i32: loops, symbols, indices. Symbols become i32 arguments. Not part of
// simplify(): for targets with 32-bit threads. `assume`: narrows without proof, for devices whose buffers have fewer than 2^31
// elements.
int narrow_indices(Kernel&, bool assume = false);

// Removes expressions that no statement uses.
void compact(Kernel&);

}  // namespace rlxc::kernel
