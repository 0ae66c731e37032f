// Random values for checks of equivalence. The same seed gives the same value on every machine.
#pragma once
#include <cstdint>
#include <string_view>

#include "eval/eval.h"

namespace rlxc::eval {

struct RandomRange {
  double low = -1, high = 1;          // floats, uniform
  int64_t int_low = 0, int_high = 3;  // integers, both ends included; safe as indices into any axis of size >= 4
};

// The sizes of a tensor type, its symbols bound (an unbound one is 2).
std::vector<int64_t> sizes_of(const Module&, const Type&, const DimBindings&);

// Whether random values for all inputs can be made within the options' max_bytes; false with Code::TooLarge at an input if not.
bool random_inputs_fit(const Module&, const Options&, Diagnostics&);

// A value of the type and those sizes, which the caller has checked to fit; sequences and maps are empty.
HostValue random_value(const Module&, const Type&, const DimBindings&, uint64_t seed, const RandomRange& = {});

// A seed that depends on `name` only, through `seed`.
uint64_t seed_of(uint64_t seed, std::string_view name);

}  // namespace rlxc::eval
