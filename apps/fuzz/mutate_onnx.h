// Mutates an ONNX file while preserving its protobuf encoding: removes, repeats and exchanges fields, or copies values between
// them. Names, operators and sizes become invalid.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace rlxc {

// Returns nullopt if the bytes are not a message.
std::optional<std::string> mutate_onnx(const std::string& model, uint64_t seed);

}  // namespace rlxc
