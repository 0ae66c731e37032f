// Models in ONNX's own text syntax (.onnxtxt): https://github.com/onnx/onnx/blob/main/docs/Syntax.md
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "support/diagnostics.h"

namespace rlxc::onnx_import {

bool looks_printed(std::string_view head);  // the first bytes of a file, without white space before them
// The model in the wire format. Tensors whose contents the printer left out ("...") are an error. Linear in the length.
std::optional<std::string> read_printed(std::string_view text, Diagnostics&);

}  // namespace rlxc::onnx_import
