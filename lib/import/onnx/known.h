// Compile-time contents of small tensors: sizes and values computed from sizes. An element is a symbolic integer, a symbolic
// fraction (for example sizes times a resize scale), or a real number.
#pragma once
#include <optional>
#include <vector>

#include "ir/data.h"
#include "ir/dim.h"

namespace rlxc::onnx_import {

inline constexpr int64_t kMaxKnownElements = 64;
inline constexpr size_t kMaxKnownRank = 4;

struct Num {
  Dim num;          // the integer, or the numerator
  int64_t den = 1;  // > 0
  double real = 0;  // if is_real
  bool is_real = false;
  bool is_size = false;  // of an axis: not negative
};

struct Known {
  DType dtype = DType::I64;  // i32, i64, bool, f32 or f64
  std::vector<int64_t> shape;
  std::vector<Num> v;  // row-major
};

bool can_be_known(DType);
// Returns the contents of a constant; nullopt if it is large or its type is not supported.
std::optional<Known> known_from(const TensorData&, DimTable&);

// Arithmetic on elements of type `t`. Returns nullopt if the result is uncertain.
using NumOp = std::optional<Num> (*)(DimTable&, DType t, const Num&, const Num&);
std::optional<Num> num_add(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_sub(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_mul(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_div(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_mod(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_min(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_max(DimTable&, DType, const Num&, const Num&);
std::optional<Num> num_floor(DimTable&, DType, const Num&);
std::optional<Num> num_ceil(DimTable&, DType, const Num&);
std::optional<Num> num_cast(DimTable&, DType from, DType to, const Num&);
std::optional<bool> num_equal(DimTable&, const Num&, const Num&);
std::optional<bool> num_less(DimTable&, const Num&, const Num&);

// Combines the elements of two tensors with numpy broadcasting.
std::optional<Known> combine(DimTable&, const Known&, const Known&, NumOp);

}  // namespace rlxc::onnx_import
