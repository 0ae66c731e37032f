// Dot units in C: a function with one body per instruction set, selected by the preprocessor.
#pragma once
#include "backend/c/c_like.h"
#include "kernel/mapping.h"

namespace rlxc::target {

// The units: those of bytes are worth it on every processor, with one instruction or several; that of bf16 where it is one
// instruction. Builders choose the unit of a vector's size.
inline constexpr kernel::DotUnit kCpuDotUnits[] = {
    {16, 4, DType::U8, DType::I8, DType::I32},     {8, 4, DType::U8, DType::I8, DType::I32},
    {4, 4, DType::U8, DType::I8, DType::I32},      {16, 2, DType::I16, DType::I16, DType::I32},
    {8, 2, DType::I16, DType::I16, DType::I32},    {4, 2, DType::I16, DType::I16, DType::I32},
    {16, 2, DType::BF16, DType::BF16, DType::F32}, {4, 2, DType::BF16, DType::BF16, DType::F32}};

constexpr kernel::Mapping cpu_mapping(bool bf16 = false) {
  kernel::Mapping m;
  m.dot_units = std::span(kCpuDotUnits).first(bf16 ? 8 : 6);
  return m;
}

// Adds a function of a, b and c and returns its name. small: elements of a are below 128.
std::string cpu_dot(const CLike&, Type a, Type b, Type c, bool small, Helpers&);

// Adds a constant and returns its name: the number of instructions of a dot product of bytes in a vector of `vector_bytes`.
// Elements of a are below 128. It is 0 if the processor has no such instruction.
std::string cpu_dot_instructions(int vector_bytes, Helpers&);

}  // namespace rlxc::target
