// A hash for numbers that differ in few bits.
#pragma once
#include <cstdint>

namespace rlxc::plan {

// The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace rlxc::plan
