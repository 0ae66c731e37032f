// Making and reading run-time values, for tests and tools.
#pragma once
#include <string>
#include <vector>

#include "eval/eval.h"

namespace rlxc::eval {

inline HostValue host_value(TensorData d) { return {TypeKind::Tensor, std::move(d), {}}; }

// A tensor of `t` with these elements, rounded (integers saturate). Requires as many values as elements.
HostValue tensor_of(DType t, std::vector<int64_t> dims, const std::vector<double>& values);
HostValue strings_of(std::vector<int64_t> dims, std::vector<std::string> values);
inline HostValue sequence_of(std::vector<HostValue> items) { return {TypeKind::Sequence, {}, std::move(items)}; }
// Keys [n], i64 or string, and their values [n]; nullopt if they are not that, or a key occurs twice.
std::optional<HostValue> map_of(const TensorData& keys, const TensorData& values);
// Each row [keys] of a tensor [rows, keys] or [keys] as a map.
HostValue maps_of_rows(const TensorData&, const MapKeysAttrs&);
HostValue empty_map(const Type&);  // of a map of those types
bool is_map(const HostValue&);     // and a well-formed one

// The elements of a tensor, widened.
std::vector<double> numbers(const HostValue&);

// The type of a value with all sizes known.
Type type_of(const HostValue&);

}  // namespace rlxc::eval
