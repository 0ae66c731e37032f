#include "import/onnx/known.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "support/checked.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kExact = int64_t{1} << 52;  // larger integers are not tracked
constexpr int64_t kMaxWeight = 200;           // longer expressions are not tracked

Num integer(Dim d) { return {d, 1, 0, false}; }
Num real(double v) { return {Dim(0), 1, v, true}; }

// Returns the result if it is worth tracking: in range for its type, not too deep.
std::optional<Num> checked(DimTable& t, DType type, Num n) {
  if (n.is_real) {
    if (type == DType::F32) n.real = static_cast<float>(n.real);
    return std::isfinite(n.real) ? std::optional(n) : std::nullopt;
  }
  if (const auto v = t.constant_value(n.num)) {
    if (*v > kExact || *v < -kExact) return std::nullopt;
    if (type == DType::I32 && (*v > INT32_MAX || *v < INT32_MIN)) return std::nullopt;
    if (is_float(type) && n.den != 1 && std::has_single_bit(static_cast<uint64_t>(n.den)))
      return real(static_cast<double>(*v) / static_cast<double>(n.den));
  } else if (t.weight(n.num) > kMaxWeight) {
    return std::nullopt;
  }
  return n;
}

// Returns a real as a fraction with a power-of-two denominator, the common form of scales.
std::optional<Num> fraction(DimTable& t, const Num& n) {
  if (!n.is_real) return n;
  for (int64_t den = 1; den <= 1 << 12; den *= 2) {
    const double v = n.real * static_cast<double>(den);
    if (std::abs(v) < 1e9 && v == std::floor(v)) return Num{t.constant(static_cast<int64_t>(v)), den, 0, false};
  }
  return std::nullopt;
}

struct Pair {
  Num a, b;
};
std::optional<Pair> fractions(DimTable& t, const Num& a, const Num& b) {
  const auto x = fraction(t, a), y = fraction(t, b);
  if (!x || !y || x->den > 1 << 20 || y->den > 1 << 20) return std::nullopt;
  return Pair{*x, *y};
}

Num reduced(DimTable& t, Dim num, int64_t den) {
  for (int64_t p = 2; p <= 64 && den > 1; ++p)
    while (den % p == 0 && t.divides(Dim(p), num)) {
      num = t.floor_div(num, Dim(p));
      den /= p;
    }
  return {num, den, 0, false};
}

}  // namespace

bool can_be_known(DType t) {
  return t == DType::I64 || t == DType::I32 || t == DType::Bool || t == DType::F32 || t == DType::F64;
}

std::optional<Known> known_from(const TensorData& d, DimTable& t) {
  if (!can_be_known(d.dtype) || d.dims.size() > kMaxKnownRank || d.elements() > kMaxKnownElements) return std::nullopt;
  if (d.elements() > 0 && d.bytes.empty()) return std::nullopt;
  Known k;
  k.dtype = d.dtype;
  k.shape = d.dims;
  for (int64_t i = 0; i < d.elements(); ++i) {
    if (is_float(d.dtype)) {
      k.v.push_back(real(element_as_double(d, i)));
    } else {
      k.v.push_back(integer(t.constant(element_as_int(d, i))));  // INT64_MAX ("to the end") saturates
    }
  }
  return k;
}

std::optional<Num> num_add(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return checked(t, type, real(a.real + b.real));
  const auto p = fractions(t, a, b);
  if (!p) return std::nullopt;
  return checked(t, type, reduced(t, t.add(t.mul(p->a.num, Dim(p->b.den)), t.mul(p->b.num, Dim(p->a.den))), p->a.den * p->b.den));
}

std::optional<Num> num_sub(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return checked(t, type, real(a.real - b.real));
  const auto p = fractions(t, a, b);
  if (!p) return std::nullopt;
  return checked(t, type, reduced(t, t.sub(t.mul(p->a.num, Dim(p->b.den)), t.mul(p->b.num, Dim(p->a.den))), p->a.den * p->b.den));
}

std::optional<Num> num_mul(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return checked(t, type, real(a.real * b.real));
  const auto p = fractions(t, a, b);
  if (!p) return std::nullopt;
  return checked(t, type, reduced(t, t.mul(p->a.num, p->b.num), p->a.den * p->b.den));
}

std::optional<Num> num_div(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return b.real == 0 ? std::nullopt : checked(t, type, real(a.real / b.real));
  const auto p = fractions(t, a, b);
  if (!p) return std::nullopt;
  const auto x = t.constant_value(p->a.num), y = t.constant_value(p->b.num);
  if (y && *y == 0) return std::nullopt;
  if (is_integer(type)) {  // truncates toward zero
    if (x && y) return checked(t, type, integer(t.constant(*x / *y)));
    const bool rounds_down = t.at_least(p->a.num, 0) || t.divides(p->b.num, p->a.num);
    if (!rounds_down || !t.at_least(p->b.num, 1)) return std::nullopt;
    return checked(t, type, integer(t.floor_div(p->a.num, p->b.num)));
  }
  if (y) {
    const int64_t sign = *y < 0 ? -1 : 1;
    const auto den = checked_mul(p->a.den, *y * sign);
    if (!den || *den > kExact) return std::nullopt;
    return checked(t, type, reduced(t, t.mul(t.mul(p->a.num, Dim(p->b.den)), t.constant(sign)), *den));
  }
  if (t.divides(p->b.num, p->a.num))
    return checked(t, type, reduced(t, t.mul(t.floor_div(p->a.num, p->b.num), Dim(p->b.den)), p->a.den));
  return std::nullopt;
}

std::optional<Num> num_mod(DimTable& t, DType type, const Num& a, const Num& b) {
  if (!is_integer(type)) return std::nullopt;
  if (const auto y = t.constant_value(b.num); y && *y == 0) return std::nullopt;
  return checked(t, type, integer(t.mod(a.num, b.num)));
}

std::optional<Num> num_min(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return real(std::min(a.real, b.real));
  if (a.is_real || b.is_real || a.den != b.den) return std::nullopt;
  return checked(t, type, {t.min(a.num, b.num), a.den, 0, false});
}

std::optional<Num> num_max(DimTable& t, DType type, const Num& a, const Num& b) {
  if (a.is_real && b.is_real) return real(std::max(a.real, b.real));
  if (a.is_real || b.is_real || a.den != b.den) return std::nullopt;
  return checked(t, type, {t.max(a.num, b.num), a.den, 0, false});
}

std::optional<Num> num_floor(DimTable& t, DType type, const Num& a) {
  if (a.is_real) return real(std::floor(a.real));
  return a.den == 1 ? a : checked(t, type, integer(t.floor_div(a.num, Dim(a.den))));
}

std::optional<Num> num_ceil(DimTable& t, DType type, const Num& a) {
  if (a.is_real) return real(std::ceil(a.real));
  return a.den == 1 ? a : checked(t, type, integer(t.ceil_div(a.num, Dim(a.den))));
}

std::optional<Num> num_cast(DimTable& t, DType from, DType to, const Num& a) {
  if (to == DType::Bool) {
    if (a.is_real) return integer(Dim(a.real != 0));
    if (const auto v = t.constant_value(a.num)) return integer(Dim(*v != 0));
    return t.known_ne(a.num, Dim(0)) ? std::optional(integer(Dim(1))) : std::nullopt;
  }
  if (is_float(to)) {
    if (const auto v = t.constant_value(a.num); v && !a.is_real && a.den == 1 && !is_float(from))
      return checked(t, to, real(static_cast<double>(*v)));
    return checked(t, to, a);
  }
  if (!is_float(from)) return checked(t, to, a);
  if (a.is_real) {
    if (!(std::abs(a.real) <= static_cast<double>(kExact))) return std::nullopt;
    return checked(t, to, integer(t.constant(static_cast<int64_t>(a.real))));
  }
  if (a.den == 1) return checked(t, to, a);
  if (!t.at_least(a.num, 0)) return std::nullopt;
  return checked(t, to, integer(t.floor_div(a.num, Dim(a.den))));
}

std::optional<bool> num_equal(DimTable& t, const Num& a, const Num& b) {
  if (a.is_real != b.is_real || a.den != b.den) return std::nullopt;
  if (a.is_real) return a.real == b.real;
  if (t.equal(a.num, b.num)) return true;
  const auto negative = [&](const Num& n) { return t.constant_value(n.num).value_or(0) < 0; };
  if ((a.is_size && negative(b)) || (b.is_size && negative(a))) return false;
  return t.known_ne(a.num, b.num) ? std::optional(false) : std::nullopt;
}

std::optional<bool> num_less(DimTable& t, const Num& a, const Num& b) {
  if (a.is_real != b.is_real || a.den != b.den) return std::nullopt;
  if (a.is_real) return a.real < b.real;
  if (t.at_least(t.sub(b.num, a.num), 1)) return true;
  return t.at_least(t.sub(a.num, b.num), 0) ? std::optional(false) : std::nullopt;
}

std::optional<Known> combine(DimTable& t, const Known& a, const Known& b, NumOp op) {
  const size_t rank = std::max(a.shape.size(), b.shape.size());
  Known out;
  out.dtype = a.dtype;
  out.shape.resize(rank);
  int64_t count = 1;
  const auto size = [&](const Known& k, size_t i) {
    return i + k.shape.size() < rank ? int64_t{1} : k.shape[i + k.shape.size() - rank];
  };
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = size(a, i), y = size(b, i);
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out.shape[i] = x == 1 ? y : x;
    count *= out.shape[i];
    if (count > kMaxKnownElements) return std::nullopt;
  }
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, ia = 0, ib = 0, stride_a = 1, stride_b = 1;
    for (size_t i = rank; i-- > 0;) {
      const int64_t at = rest % out.shape[i];
      rest /= out.shape[i];
      if (size(a, i) != 1) ia += at * stride_a;
      if (size(b, i) != 1) ib += at * stride_b;
      stride_a *= size(a, i);
      stride_b *= size(b, i);
    }
    const auto r = op(t, a.dtype, a.v[static_cast<size_t>(ia)], b.v[static_cast<size_t>(ib)]);
    if (!r) return std::nullopt;
    out.v.push_back(*r);
  }
  return out;
}

}  // namespace rlxc::onnx_import
