// Which operations the transforms know, and how: for tables and tests.
#pragma once
#include <string_view>

#include "ir/opkind.h"

namespace rlxc::transform {

enum class Table : uint8_t { Gradient, Tangent, Batch };

// "rule"; "expansion": by simpler operations (`has_expansion`: there are some); "lowered": before transforms; "loop": one sample
// after another; else why there is nothing to know: "no operands", "not a float"; or why there is no rule: "own sizes" (samples
// differ in size), "made later" (models are sharded after transforms), "a map" (no tensor). "-": unknown.
std::string_view coverage(OpKind, Table, bool has_expansion);
inline bool is_covered(std::string_view how) { return how != "-" && how != "own sizes" && how != "made later" && how != "a map"; }

}  // namespace rlxc::transform
