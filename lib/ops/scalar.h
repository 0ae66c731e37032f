// Scalar types for the definitions in elementwise.h: double, complex and wrapping integers, with functions named as for kernel
// expressions. No undefined behaviour: integers wrap, x/0 and x%0 are 0, / and % truncate toward zero.
#pragma once
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support/saturate.h"

namespace rlxc::ops {

template <class T>
struct Wrap {
  using U = std::make_unsigned_t<T>;
  T v = 0;

  constexpr Wrap() = default;
  template <class N>
  requires std::is_integral_v<N>
  constexpr Wrap(N n) : v(static_cast<T>(n)) {}  // NOLINT: literals convert

  friend constexpr Wrap operator+(Wrap a, Wrap b) { return static_cast<T>(U(a.v) + U(b.v)); }
  friend constexpr Wrap operator-(Wrap a, Wrap b) { return static_cast<T>(U(a.v) - U(b.v)); }
  friend constexpr Wrap operator*(Wrap a, Wrap b) { return static_cast<T>(U(a.v) * U(b.v)); }
  friend constexpr Wrap operator/(Wrap a, Wrap b) {
    if (b.v == 0) return 0;
    if (std::is_signed_v<T> && b.v == static_cast<T>(-1)) return -a;
    return a.v / b.v;
  }
  friend constexpr Wrap operator%(Wrap a, Wrap b) {
    if (b.v == 0 || (std::is_signed_v<T> && b.v == static_cast<T>(-1))) return 0;
    return a.v % b.v;
  }
  friend constexpr Wrap operator&(Wrap a, Wrap b) { return static_cast<T>(a.v & b.v); }
  friend constexpr Wrap operator|(Wrap a, Wrap b) { return static_cast<T>(a.v | b.v); }
  friend constexpr Wrap operator^(Wrap a, Wrap b) { return static_cast<T>(a.v ^ b.v); }
  friend constexpr Wrap operator<<(Wrap a, Wrap b) { return static_cast<T>(U(a.v) << (b.v & 63)); }
  friend constexpr Wrap operator>>(Wrap a, Wrap b) { return static_cast<T>(a.v >> (b.v & 63)); }
  friend constexpr Wrap operator-(Wrap a) { return static_cast<T>(U(0) - U(a.v)); }
  friend constexpr Wrap operator~(Wrap a) { return static_cast<T>(~a.v); }
  friend constexpr Wrap operator!(Wrap a) { return a.v == 0; }
  friend constexpr bool operator==(Wrap a, Wrap b) { return a.v == b.v; }
  friend constexpr bool operator<(Wrap a, Wrap b) { return a.v < b.v; }
  friend constexpr bool operator<=(Wrap a, Wrap b) { return a.v <= b.v; }
  friend constexpr bool operator>(Wrap a, Wrap b) { return a.v > b.v; }
  friend constexpr bool operator>=(Wrap a, Wrap b) { return a.v >= b.v; }
  constexpr Wrap& operator+=(Wrap b) { return *this = *this + b; }
  constexpr Wrap& operator*=(Wrap b) { return *this = *this * b; }
};
using Int = Wrap<int64_t>;
using UInt = Wrap<uint64_t>;
using Complex = std::complex<double>;

template <class V>
concept Scalar = std::is_same_v<V, double> || std::is_same_v<V, Int> || std::is_same_v<V, UInt>;

using std::acos, std::acosh, std::asin, std::asinh, std::atan, std::atan2, std::atanh, std::ceil, std::cos, std::cosh, std::erf,
    std::exp, std::expm1, std::floor, std::fma, std::fmod, std::isinf, std::isnan, std::log, std::log1p, std::pow, std::sin,
    std::sinh, std::sqrt, std::tan, std::tanh;

inline double round_even(double x) { return std::nearbyint(x); }  // default rounding mode
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double abs(double x) { return std::fabs(x); }
template <class T>
Wrap<T> abs(Wrap<T> x) {
  return x < 0 ? -x : x;
}
template <class T>
Wrap<T> fmod(Wrap<T> a, Wrap<T> b) {
  return a % b;
}

// `value` in the type of the first argument. Integers truncate and saturate; NaN becomes 0.
inline double lit(double, double value) { return value; }
inline Complex lit(Complex, double value) { return value; }
template <class T>
Wrap<T> lit(Wrap<T>, double value) {
  return saturating_cast<T>(value);
}

template <Scalar V>
V select(bool c, V a, std::type_identity_t<V> b) {
  return c ? a : b;
}
template <Scalar V>
V select(bool c, int a, V b) {
  return c ? V(a) : b;
}

// NaN if either operand is NaN.
template <Scalar V>
V max(V a, std::type_identity_t<V> b) {
  if constexpr (std::is_same_v<V, double>) return a > b || a != a ? a : b;
  else return a > b ? a : b;
}
template <Scalar V>
V min(V a, std::type_identity_t<V> b) {
  if constexpr (std::is_same_v<V, double>) return a < b || a != a ? a : b;
  else return a < b ? a : b;
}

// A negative exponent gives 0 unless the base is 1 or -1.
template <class T>
Wrap<T> pow(Wrap<T> base, Wrap<T> exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == Wrap<T>(-1) ? ((exponent & 1) == 0 ? Wrap<T>(1) : base) : Wrap<T>(0);
  Wrap<T> result = 1;
  for (auto e = static_cast<uint64_t>(exponent.v); e != 0; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return result;
}

}  // namespace rlxc::ops
