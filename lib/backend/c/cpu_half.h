// Conversions between f32 and the 16-bit floats, which C has no types for: element by element, and on vectors by the instructions
// or integer operations that keep all lanes busy. Both round to nearest even.
#pragma once
#include "backend/c/c_like.h"

namespace rlxc::target {

inline bool is_half(DType t) { return t == DType::F16 || t == DType::BF16; }

// Adds the C function of a cast from or to f32 under this name and returns the name.
std::string scalar_half_cast(DType to, DType from, const std::string& name, Helpers&);
// The same for vectors; `scalar` is the function for one element.
void add_vector_half_cast(const CLike&, Type to, Type from, const std::string& name, const std::string& scalar, Helpers&);

}  // namespace rlxc::target
