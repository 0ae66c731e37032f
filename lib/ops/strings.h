// What operations on strings do to letters.
#pragma once
#include <string>

#include "ir/attrs.h"

namespace rlxc::ops {

// Letters of ASCII, and the two-byte letters of Latin-1, Greek and Cyrillic whose cases lie a fixed distance apart.
std::string change_case(const std::string&, LetterCase);

}  // namespace rlxc::ops
