// Dot units in C: a function with one body per instruction set, selected by the preprocessor.
#pragma once
#include "backend/c/c_like.h"
#include "kernel/mapping.h"

namespace rlxc::target {

// The units of every processor, with one instruction or several.
inline constexpr kernel::DotUnit kCpuDotUnits[] = {{16, 4, DType::U8, DType::I8, DType::I32}};

constexpr kernel::Mapping cpu_mapping() {
  kernel::Mapping m;
  m.dot_units = kCpuDotUnits;
  return m;
}

// Adds a function of a, b and c and returns its name.
std::string cpu_dot(const CLike&, Type a, Type b, Type c, Helpers&);

}  // namespace rlxc::target
