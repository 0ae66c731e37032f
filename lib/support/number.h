// Numbers as text, independent of machine and locale.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

namespace rlxc {

// The shortest decimal that reads back as the same value ("1", "0.1", "1e-05"). Finite results are valid JSON numbers, and C
// double literals up to a missing point. Infinities and NaN give "inf", "-inf", "nan".
std::string shortest(double);
std::string shortest(float);

// Writes the same to `out`, which has space for kNumberChars, and returns the end.
inline constexpr int kNumberChars = 32;
char* write_shortest(char* out, double);
char* write_shortest(char* out, float);

template <class T>
bool is_finite(T v) {
  return std::isfinite(v);
}

std::string human_bytes(uint64_t);  // "14.3 MiB"; below 1024 "n B"

}  // namespace rlxc
