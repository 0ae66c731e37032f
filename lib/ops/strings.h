// Helpers for string ops.
#pragma once
#include <string>

#include "ir/attrs.h"

namespace rlxc::ops {

// Changes the case of ASCII letters and of two-byte letters of Latin-1, Greek and Cyrillic with a fixed distance between cases.
std::string change_case(const std::string&, LetterCase);

}  // namespace rlxc::ops
