// Creates and reads run-time values, for tests and tools.
#pragma once
#include <string>
#include <vector>

#include "eval/eval.h"

namespace rlxc::eval {

inline HostValue host_value(TensorData d) { return {TypeKind::Tensor, std::move(d), {}}; }

// A tensor of type `t` with these elements, rounded (integers saturate). Requires one value per element.
HostValue tensor_of(DType t, std::vector<int64_t> dims, const std::vector<double>& values);
HostValue strings_of(std::vector<int64_t> dims, std::vector<std::string> values);
inline HostValue sequence_of(std::vector<HostValue> items) { return {TypeKind::Sequence, {}, std::move(items)}; }
// Keys [n], i64 or string, and values [n]. Nullopt for other shapes and types, and for duplicate keys.
std::optional<HostValue> map_of(const TensorData& keys, const TensorData& values);
// Each row [keys] of a tensor [rows, keys] or [keys] as a map.
HostValue maps_of_rows(const TensorData&, const MapKeysAttrs&);
HostValue empty_map(const Type&);  // an empty map of this type
bool is_map(const HostValue&);     // a well-formed map

// The elements of a tensor as doubles.
std::vector<double> numbers(const HostValue&);

// The type of a value, with static dims.
Type type_of(const HostValue&);

}  // namespace rlxc::eval
