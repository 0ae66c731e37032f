// Numbers as text: the same on every machine and in every locale.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>

namespace rlxc {

// The shortest decimal that reads back as the same value ("1", "0.1", "1e-05"). Every finite result is a JSON number and a C
// double literal up to a missing point; infinities and NaN give "inf", "-inf", "nan": callers that need a number check first.
std::string shortest(double);
std::string shortest(float);

// Writes the same to `out`, which has room for kNumberChars; returns the end.
inline constexpr int kNumberChars = 32;
char* write_shortest(char* out, double);
char* write_shortest(char* out, float);

template <class T>
bool is_finite(T v) {
  return std::isfinite(v);
}

std::string human_bytes(uint64_t);  // "14.3 MiB"; below 1024 "n B"

}  // namespace rlxc
