// Typed 32-bit ids: indices of one vector that cannot be mixed up with those of another.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace rlxc {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = 0xFFFFFFFFu;
  uint32_t raw = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint64_t index) : raw(static_cast<uint32_t>(index)) {}
  constexpr bool valid() const { return raw != kNone; }
  constexpr explicit operator bool() const { return valid(); }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace rlxc

template <class Tag>
struct std::hash<rlxc::Id<Tag>> {
  size_t operator()(rlxc::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.raw); }
};
