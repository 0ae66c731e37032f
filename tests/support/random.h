// Portable random inputs for tests. std::uniform_real_distribution and similar differ between standard libraries.
#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace rlxc::test {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed = 1) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return bits() % n; }                         // slightly uneven for huge n
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double normal() {  // mean 0, variance 1 (Box and Muller 1958)
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  int64_t integer(int64_t low, int64_t high) {  // both ends included; slightly uneven for huge ranges
    const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
    return static_cast<int64_t>(static_cast<uint64_t>(low) + (span == 0 ? bits() : bits() % span));
  }
  bool chance(double probability) { return uniform() < probability; }

  std::vector<float> uniform_floats(size_t n, double low = -1, double high = 1) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(uniform(low, high));
    return v;
  }
  std::vector<float> normal_floats(size_t n, double deviation = 1) {
    std::vector<float> v(n);
    for (float& x : v) x = static_cast<float>(deviation * normal());
    return v;
  }

 private:
  uint64_t state_;
};

}  // namespace rlxc::test
