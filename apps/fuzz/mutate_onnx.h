// Changes of an ONNX file that leave it a protobuf message: fields are removed, repeated, exchanged, or get the values of others,
// so that names, operators and sizes are wrong rather than the encoding.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace rlxc {

// None if the bytes are no message.
std::optional<std::string> mutate_onnx(const std::string& model, uint64_t seed);

}  // namespace rlxc
