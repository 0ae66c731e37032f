// Line-by-line diff of two texts.
#pragma once
#include <string>
#include <string_view>

namespace rlxc {

// Unified format with three lines of context; empty if the texts are equal. Lines unique in both texts are anchors (Cohen's
// patience diff). Small ranges between anchors are compared in full, large ones replaced as a whole. O(n log n) for n lines
// outside full comparisons.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name);

}  // namespace rlxc
