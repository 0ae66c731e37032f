// Run-time checks of the sizes that a model requires to be equal (DimTable::equalities). Kernels rely on them: a contraction
// takes the length from one operand and reads both.
#pragma once
#include <span>
#include <vector>

#include "codegen/package.h"

namespace rlxc::codegen {

// Returns the pairs of equal sizes whose symbols are known at the call. Others depend on data-dependent dims.
std::vector<Dim> given_pairs(const Package&, std::span<const Dim> pairs);
std::vector<Dim> equal_sizes(const Package&);  // those of the model

// Sets `equal` of commands: each other pair is checked before the first command at which its dims are defined, again in each
// iteration of a loop that carries one of them. Pairs of a branch are checked when it is taken. Needs the symbols of the package.
// O(commands * open pairs).
void place_size_checks(Package*);

}  // namespace rlxc::codegen
