// Operators that are known and not imported: why, and what to do instead.
#pragma once
#include <span>
#include <string_view>

namespace rlxc::onnx_import {

struct RefusedOperator {
  std::string_view domain, name, why, help;  // domain "" is ai.onnx
};
std::span<const RefusedOperator> refused_operators();

}  // namespace rlxc::onnx_import
