// Replaces symbols by sizes, or by other expressions, throughout a module.
#pragma once
#include <functional>

#include "ir/dim_range.h"
#include "ir/graph.h"

namespace rlxc {

// Replaces them in the types of all values and in attributes. Equalities of the module stay. O(values + distinct types and
// attributes).
void bind_dims(Module&, const DimBindings&);
void substitute_dims(Module&, const SymbolValues&);

// The attributes with each symbolic dim replaced by what `replace` makes of it.
Attrs with_dims(Attrs, const std::function<Dim(Dim)>& replace);

// Symbolic dims of all values and attributes, and of the equalities.
std::vector<Dim> dims_of(const Module&);
void each_dim(const Attrs&, const std::function<void(Dim)>&);  // symbolic or not, in the order of the fields

struct KnownSize {
  Dim dim;
  int64_t size;
};
// Appends the dims of a value of this type with their actual sizes. Types other than tensors append nothing.
void add_sizes(const Type&, std::span<const int64_t> actual, std::vector<KnownSize>*);

// Adds symbols that follow from the sizes: dims that are a symbol, then linear expressions with one unknown. Existing bindings
// stay. O(sizes * symbols found).
void solve_dims(const DimTable&, std::span<const KnownSize>, DimBindings*);

// The input symbols that linear equalities of the module with one unknown, taken in order, make constant, as 12*n == 12 of a
// Reshape to constant sizes. Symbols defined by nodes are excluded, since their node determines the size. O(equalities).
DimBindings determined_sizes(Module&);

}  // namespace rlxc
