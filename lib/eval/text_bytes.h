// Converts strings to the rows of bytes used by kernels (passes/interface/strings_as_bytes.h), and back.
#pragma once
#include "eval/eval.h"

namespace rlxc::eval {

// string [..] -> u8 [.., w] with w the greatest length, at least 1. Nullopt if a string ends with a zero byte, which would be
// lost.
std::optional<HostValue> bytes_of_text(const HostValue&);
HostValue text_of_bytes(const HostValue&);  // u8 [.., w] -> string [..], without trailing zeros

}  // namespace rlxc::eval
