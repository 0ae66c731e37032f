// Puts sizes, or other symbols, in the place of symbols throughout a module.
#pragma once
#include "ir/dim_range.h"
#include "ir/graph.h"

namespace rlxc {

// Types of all values and sizes in attributes. Equalities of the module stay. O(values + distinct types and attributes).
void bind_dims(Module&, const DimBindings&);
void substitute_dims(Module&, const SymbolValues&);

struct KnownSize {
  Dim dim;
  int64_t size;
};
// Those of a value of this type; of what has no sizes of its own (a sequence), none.
void add_sizes(const Type&, std::span<const int64_t> actual, std::vector<KnownSize>*);

// Adds the symbols that follow from sizes: those that are one, then those that are the only unknown of a linear expression. What
// is bound stays. O(sizes * symbols found).
void solve_dims(const DimTable&, std::span<const KnownSize>, DimBindings*);

// The symbols of inputs that an equality of the module, taken in order, makes a constant. O(equalities). Symbols that nodes
// define are not among them: the node, not the equality, tells their size.
DimBindings determined_sizes(const Module&);

}  // namespace rlxc
