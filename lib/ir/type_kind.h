// Names of the kinds of types, as JSON has them.
#pragma once
#include <string_view>

#include "ir/type.h"

namespace rlxc {

constexpr std::string_view name(TypeKind k) {
  constexpr std::string_view kNames[] = {"tensor", "sequence", "optional", "map"};
  return kNames[static_cast<size_t>(k)];
}

}  // namespace rlxc
