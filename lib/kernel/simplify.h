// Rewrites of a kernel that keep what it computes, bit for bit.
//
// A builder may write an expression as often as it likes: equal expressions are one node. These passes decide where it is
// evaluated, and give names to what is used more than once, so that the text of a kernel is linear in its expressions.
#pragma once
#include "kernel/language.h"

namespace rlxc::kernel {

// All of the passes below, in order. Linear in statements times nesting depth plus expressions. Returns the number of changes.
int simplify(Kernel&);

// Index algebra by interval analysis: quotients and remainders of sums whose parts divide, comparisons that are known,
// branches never taken, loops of no or one iteration.
int simplify_indices(Kernel&);

// Every pure expression with several uses becomes a Let before the first of them, in the innermost block that holds them all.
// An expression that reads memory moves only to where it was evaluated anyway.
int name_shared(Kernel&);

// Lets of a variable or a constant are replaced by it; Lets that nothing uses, and registers that nothing reads, are removed.
int remove_dead_lets(Kernel&);

// A read of mutable memory with one use, in the next statement but Lets, goes to that use: `acc = acc + x`.
int sink_reads(Kernel&);

// Names parts of expressions that are more than `height` operators high.
int split_deep(Kernel&, int height = 16);

// i64 arithmetic that provably fits becomes i32: loops, symbols, indices. Not part of simplify(): for targets whose lanes
// compute 32 bits at a time. Symbols become i32 arguments. `assume`: where it can't be proven it is taken for granted, for
// devices whose buffers have less than 2^31 elements.
int narrow_indices(Kernel&, bool assume = false);

// Drops expressions that no statement uses.
void compact(Kernel&);

}  // namespace rlxc::kernel
