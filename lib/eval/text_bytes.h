// Strings as the rows of bytes that kernels have in their place (passes/interface/strings_as_bytes.h), and back.
#pragma once
#include "eval/eval.h"

namespace rlxc::eval {

// string [..] -> u8 [.., w], w the longest, at least 1; nullopt if a string ends with a zero byte, which would be lost.
std::optional<HostValue> bytes_of_text(const HostValue&);
HostValue text_of_bytes(const HostValue&);  // u8 [.., w] -> string [..], without the zeros behind the text

}  // namespace rlxc::eval
