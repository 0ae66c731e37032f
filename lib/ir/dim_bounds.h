// What a size can be at most when its symbols lie in ranges.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ir/dim.h"

namespace rlxc {

using DimRanges = std::map<std::string, std::pair<int64_t, int64_t>, std::less<>>;  // symbol -> least and most, inclusive

// By interval arithmetic: never below the true maximum. Nullopt: a symbol without a range, or overflow.
std::optional<int64_t> upper_bound(const DimTable&, Dim, const DimRanges&);

}  // namespace rlxc
