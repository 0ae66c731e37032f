// Models in the text form of protocol buffers (.textproto, .pbtxt, .prototxt):
// https://protobuf.dev/reference/protobuf/textformat-spec
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "support/diagnostics.h"

namespace rlxc::onnx_import {

bool looks_like_text_proto(std::string_view head);  // the first bytes of a file, without white space before them
// The model in the wire format. Unknown fields are an error, with the line. Linear in the length.
std::optional<std::string> read_text_proto(std::string_view text, Diagnostics&);

}  // namespace rlxc::onnx_import
