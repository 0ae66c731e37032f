// Random values for equivalence checks. A seed gives the same values on every machine.
#pragma once
#include <cstdint>
#include <string_view>

#include "eval/eval.h"

namespace rlxc::eval {

struct RandomRange {
  double low = -1, high = 1;          // floats, uniform
  int64_t int_low = 0, int_high = 3;  // integers, inclusive; valid indices into any axis of size >= 4
};

// The dims of a tensor type with its symbols bound; unbound symbols are 2.
std::vector<int64_t> sizes_of(const Module&, const Type&, const DimBindings&);

// Checks that the bindings of the options meet the module's equalities (Code::BadBinding), and that random values of all inputs
// fit into max_bytes (Code::TooLarge at an input).
bool random_inputs_fit(const Module&, const Options&, Diagnostics&);

// A random value of the type. The caller has checked that it fits. Sequences and maps are empty.
HostValue random_value(const Module&, const Type&, const DimBindings&, uint64_t seed, const RandomRange& = {});

// Derives a seed from `name`.
uint64_t seed_of(uint64_t seed, std::string_view name);

}  // namespace rlxc::eval
