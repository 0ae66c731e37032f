// Dot units in C: one function whose body the C compiler chooses by the instructions that the processor has.
#pragma once
#include "backend/c/c_like.h"
#include "kernel/mapping.h"

namespace rlxc::target {

// The units that every processor has, by one instruction or by several.
inline constexpr kernel::DotUnit kCpuDotUnits[] = {{16, 4, DType::U8, DType::I8, DType::I32}};

constexpr kernel::Mapping cpu_mapping() {
  kernel::Mapping m;
  m.dot_units = kCpuDotUnits;
  return m;
}

// The name of a function of a, b and c.
std::string cpu_dot(const CLike&, Type a, Type b, Type c, Helpers&);

}  // namespace rlxc::target
