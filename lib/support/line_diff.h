// What changed between two texts, line by line.
#pragma once
#include <string>
#include <string_view>

namespace rlxc {

// The unified format of diff(1), with three lines around each change; empty when the texts are equal. Lines that occur once in
// both texts are anchors (Cohen's patience diff); what lies between anchors is compared in full where that is small, and replaced
// as a whole where it is not. O(n log n) for n lines beside that.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name);

}  // namespace rlxc
