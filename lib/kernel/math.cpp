#include "kernel/math.h"

#include <cstdint>
#include <limits>

#include "kernel/builder.h"
#include "kernel/simplify.h"

namespace rlxc::kernel {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Expr splat(Expr x, double v) { return broadcast(lit(x, v), x.lanes()); }
Expr bits(Expr x) { return bitcast_to(x, DType::I32); }
Expr from_bits(Expr i) { return bitcast_to(i, DType::F32); }

// Horner's rule, highest coefficient first.
template <size_t N>
Expr polynomial(Expr x, const double (&c)[N]) {
  Expr p = splat(x, c[0]);
  for (size_t i = 1; i < N; ++i) p = fma(p, x, splat(x, c[i]));
  return p;
}

Expr sign_of(Expr x, Expr magnitude) { return select(bits(x) < 0, -magnitude, magnitude); }
Expr nan_of(Expr x) { return splat(x, std::numeric_limits<double>::quiet_NaN()); }

// e^(x/2), which is a normal number where e^x is not. x = 2 n ln 2 + r, abs(r) <= ln 2. Adding 1.5 * 2^23 rounds to an integer in
// the low bits of the sum. The low bits of n + 127 are the exponent of 2^n. Minimax polynomial of e^(r/2), relative error 3e-9
// before rounding.
Expr half_exp(Expr x) {
  constexpr double kShift = 12582912.0 + 127;
  Expr clamped = max(lit(x, -104.0), min(lit(x, 90.0), x));  // the second operand, which preserves NaN
  Expr shifted = fma(clamped, splat(x, 0.72134752044448170), splat(x, kShift));
  Expr n = shifted - kShift;
  Expr r = fma(n, splat(x, 2 * 2.12194440e-4), fma(n, splat(x, 2 * -0.693359375), clamped));
  Expr p = polynomial(r, {2.1584646801085614e-5, 2.6152880626840606e-4, 2.6042754985562888e-3, 2.0833148673164800e-2,
                          1.2499998333368800e-1, 0.5, 1});
  return p * from_bits(bits(shifted) << 23);
}

Expr exp_of(Expr x) {
  Expr half = half_exp(x);
  return half * half;
}

// x = n + r, abs(r) <= 1/2, and twice 2^r, because 2^128 is representable only as 2 * 2^127. Results below 2^-125.5 are 0: a
// softmax has no use for them. Minimax polynomial that is 1 at 0, relative error 9e-8 before rounding.
Expr exp2_of(Expr x) {
  constexpr double kShift = 12582912.0 + 126;
  Expr clamped = max(lit(x, -126.0), min(lit(x, 129.0), x)), shifted = clamped + kShift, r = clamped - (shifted - kShift);
  Expr p =
      polynomial(r, {2 * 1.3264727218e-3, 2 * 9.6715126396e-3, 2 * 5.5507337432e-2, 2 * 2.4022242085e-1, 2 * 6.931469776e-1, 2});
  return p * from_bits(bits(shifted) << 23);
}

// log((1 + f) 2^e), with 1 + f in [sqrt(1/2), sqrt(2)).
Expr log_of_parts(Expr f, Expr e) {
  Expr p = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                          2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Expr square = f * f;
  Expr r = fma(e, splat(f, -2.12194440e-4), p * f * square);
  r = fma(square, splat(f, -0.5), r) + f;
  return fma(e, splat(f, 0.693359375), r);
}

Expr exponent_of(Expr x) { return (bits(x) - 0x3F3504F3) >> 23; }  // of the power of two that divides x in [sqrt(1/2), sqrt(2))

// The same for x = (1 + f) 2^e > 0.
struct Parts {
  Expr f, e;
};
Parts parts_of(Expr x) {
  Expr tiny = x < lit(x, 1.17549435e-38);
  Expr y = select(tiny, x * 8388608.0, x);
  Expr e = exponent_of(y);
  return {from_bits(bits(y) - (e << 23)) - 1.0, cast_to(e, DType::F32) - select(tiny, splat(x, 23.0), splat(x, 0.0))};
}

Expr log_of(Expr x) {
  const Parts parts = parts_of(x);
  Expr r = log_of_parts(parts.f, parts.e);
  r = select(x == 0.0, splat(x, -kInf), select(x < 0.0, nan_of(x), r));
  return select(x < lit(x, kInf), r, x);  // +inf and NaN
}

// 2^-e divides x, too, and x 2^-e + (2^-e - 1) is rounded once.
Expr log1p_of(Expr x) {
  Expr u = x + 1.0, e = exponent_of(u);
  Expr scale = from_bits(lit(e, 0x3F800000) - (e << 23));
  Expr f = select(x < lit(x, 16777216.0), fma(x, scale, scale - 1.0), from_bits(bits(u) - (e << 23)) - 1.0);
  Expr r = log_of_parts(f, cast_to(e, DType::F32));
  r = select(u == 0.0, splat(x, -kInf), select(u < 0.0, nan_of(x), r));
  return select(u == 1.0 || !(x < lit(x, kInf)), x, r);
}

// x p / q within [-1, 1], where callers bound the arguments of p and q.
Expr bounded(Expr x, Expr p, Expr q) { return max(lit(x, -1.0), min(lit(x, 1.0), x * p / q)); }

// Rational minimax approximations, relative error 2e-8 before rounding.
Expr tanh_of(Expr x) {
  Expr x2 = min(lit(x, 81.36), x * x);
  Expr p = polynomial(x2, {1.338423143256094e-8, 2.0635778241264948e-5, 3.497454973251634e-3, 1.3382684996117983e-1, 1});
  Expr q = polynomial(x2, {7.790224405450572e-7, 3.288512932749658e-4, 2.5884350660552263e-2, 4.671600624444646e-1, 1});
  return bounded(x, p, q);
}

Expr erf_of(Expr x) {
  Expr x2 = min(lit(x, 15.6), x * x);
  Expr p = polynomial(x2, {2.029468357490652e-6, 2.8407167607585843e-4, 3.783817932977998e-3, 5.280116544819304e-2,
                           1.909917935107467e-1, 1.1283791670955126});
  Expr q = polynomial(
      x2, {3.783610685189667e-5, 1.164670897602545e-3, 1.5006808853575125e-2, 1.1432819558819611e-1, 5.025949695733368e-1, 1});
  return bounded(x, p, q);
}

// x = n ln 2 + r. 2^n (e^r - 1) + (2^n - 1), of which half is computed.
Expr expm1_of(Expr x) {
  constexpr double kShift = 12582912.0 + 126;
  Expr clamped = max(lit(x, -25.0), min(lit(x, 89.0), x));
  Expr shifted = fma(clamped, splat(x, 1.44269504088896341), splat(x, kShift));
  Expr n = shifted - kShift, half = from_bits(bits(shifted) << 23);
  Expr r = fma(n, splat(x, 2.12194440e-4), fma(n, splat(x, -0.693359375), clamped));
  Expr p = polynomial(
      r, {1.3882484751229973e-3, 8.366713322499301e-3, 4.1667206065706196e-2, 1.6666542189419126e-1, 4.9999998121734224e-1});
  Expr v = fma(half, fma(p * r, r, r), half - 0.5);
  return select(abs(x) < lit(x, 5.9604645e-8), x, v + v);
}

// e^a / 2 and e^-a / 2 for a >= 0.
Expr sinh_of(Expr x) {
  Expr x2 = x * x, half = half_exp(abs(x));
  Expr p = polynomial(x2, {2.0372194244789920e-4, 8.3302837206154870e-3, 1.6666716022249840e-1});
  Expr large = fma(half * 0.5, half, -(0.5 / (half * half)));
  return select(abs(x) < lit(x, 1.0), fma(p * x2, x, x), sign_of(x, large));
}

Expr cosh_of(Expr x) {
  Expr half = half_exp(abs(x));
  return fma(half * 0.5, half, 0.5 / (half * half));
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))); log(2 a) for large a.
Expr asinh_of(Expr x) {
  Expr a = abs(x), square = a * a, large = a > lit(x, 33554432.0);
  Expr near = a + square / (1.0 + sqrt(square + 1.0));
  Expr r = log1p_of(select(large, a, near)) + select(large, splat(x, 0.6931471805599453), splat(x, 0.0));
  return select(x == 0.0, x, sign_of(x, r));
}

Expr acosh_of(Expr x) {
  Expr t = x - 1.0, large = x > lit(x, 33554432.0);
  Expr r = log1p_of(select(large, x, t + sqrt(t * (t + 2.0)))) + select(large, splat(x, 0.6931471805599453), splat(x, 0.0));
  return select(x < 1.0, nan_of(x), r);
}

Expr atanh_of(Expr x) {
  Expr a = abs(x), r = log1p_of((a + a) / (1.0 - a)) * 0.5;
  return select(a < lit(x, 1.1754944e-38), x, select(a > 1.0, nan_of(x), sign_of(x, r)));
}

// The high 32 bits of the product of a u32 and one of 24 bits.
Expr high_product(Expr a, Expr b) {
  Expr al = a & 0xFFFF, ah = a >> 16, bl = b & 0xFFFF, bh = b >> 16;
  Expr t = ah * bl + (al * bl >> 16), u = al * bh + (t & 0xFFFF);
  return ah * bh + (t >> 16) + (u >> 16);
}

// Payne and Hanek, for a >= 8192: a = m 2^(e-23) with an integer m of 24 bits. The bits of 2/pi above the window contribute
// multiples of 4, those below it less than 2^-62. The high words of m times the window are a 2/pi modulo 4.
Expr far_angle(Expr a, Expr* q) {
  constexpr int64_t kTwoOverPi[] = {0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};
  const auto word = [&](uint64_t v) { return broadcast(constant_int(a.kernel, DType::U32, static_cast<int64_t>(v)), a.lanes()); };
  Expr u = bitcast_to(a, DType::U32), place = (u >> 23) - 120, shift = place & 31, first = place >> 5;
  Expr m = (u & 0x7FFFFF) | 0x800000;
  Expr words[4], window[3];
  for (size_t k = 0; k < 4; ++k) {
    words[k] = word(static_cast<uint64_t>(kTwoOverPi[k + 4]));
    for (size_t i = 4; i-- > 0;)
      words[k] = select(first == static_cast<int64_t>(i), word(static_cast<uint64_t>(kTwoOverPi[k + i])), words[k]);
  }
  for (size_t k = 0; k < 3; ++k) window[k] = (words[k] << shift) | (words[k + 1] >> 1 >> (lit(shift, 31) - shift));
  Expr product = window[1] * m, low = product + high_product(window[2], m);
  Expr carry = select(low < product, word(1), word(0));
  Expr high = window[0] * m + high_product(window[1], m) + carry;
  Expr quadrant = (high + 0x20000000) >> 30;
  Expr rest = high - (quadrant << 30), negative = rest >= 0x80000000;
  Expr high_size = select(negative, ~rest + select(low == 0, word(1), word(0)), rest), low_size = select(negative, 0 - low, low);
  Expr r = fma(cast_to(low_size, DType::F32), splat(a, 0x1p-62), cast_to(high_size, DType::F32) * 0x1p-30) * 1.5707963267948966;
  *q = bitcast_to(quadrant, DType::I32);
  return select(a < lit(a, kInf), select(negative, -r, r), nan_of(a));
}

// |x| = q pi/2 + r modulo 2 pi, with q in 0..3 and |r| <= pi/4. pi/2 is split into short constants, which makes the products with
// whole numbers and all sums but the last exact.
Expr angle_of(Expr x, Periods periods, Expr* q) {
  constexpr double kShift = 12582912.0;
  Expr a = abs(x), shifted = fma(a, splat(x, 0.63661977236758134), splat(x, kShift)), n = shifted - kShift;
  Expr r = fma(n, splat(x, -2 * 2.4187564849853515625e-4), fma(n, splat(x, 2 * -0.78515625), a));
  r = fma(n, splat(x, -6.077100506506192e-11), fma(n, splat(x, -7.543712854385376e-08), r));
  *q = bits(shifted) & 3;
  if (periods == Periods::Near) return r;
  Expr far_q, far = far_angle(a, &far_q), is_far = a > lit(x, kNearPeriods);
  *q = select(is_far, far_q, *q);
  return select(is_far, far, r);
}

Expr sin_polynomial(Expr r) {
  Expr s = r * r;
  return fma(polynomial(s, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1}) * s, r, r);
}

Expr cos_polynomial(Expr r) {
  Expr s = r * r;
  return fma(polynomial(s, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2}) * s, s,
             fma(s, splat(r, -0.5), splat(r, 1.0)));
}

// v with its sign inverted in the quadrants whose number has the bit 2.
Expr in_quadrant(Expr v, Expr q) { return from_bits(bits(v) ^ ((q & 2) << 30)); }

Expr sin_of(Expr x, Periods periods) {
  Expr q, r = angle_of(x, periods, &q);
  Expr v = in_quadrant(select((q & 1) == 1, cos_polynomial(r), sin_polynomial(r)), q);
  return from_bits(bits(v) ^ (bits(x) & INT32_MIN));
}

Expr cos_of(Expr x, Periods periods) {
  Expr q, r = angle_of(x, periods, &q);
  return in_quadrant(select((q & 1) == 1, sin_polynomial(r), cos_polynomial(r)), q + 1);
}

// Cephes: of 1 / x above tan(3 pi / 8), of (x - 1) / (x + 1) above tan(pi / 8).
Expr atan_of(Expr x) {
  Expr a = abs(x);
  Expr large = a > lit(x, 2.414213562373095), middle = a > lit(x, 0.4142135623730950);
  Expr y = select(large, -1.0 / a, select(middle, (a - 1.0) / (a + 1.0), a)), z = y * y;
  Expr base = select(large, splat(x, 1.5707963267948966), select(middle, splat(x, 0.7853981633974483), splat(x, 0.0)));
  Expr p = polynomial(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1});
  Expr r = base + fma(p * z, y, y);
  return select(x < 0.0, -r, select(x == 0.0, x, r));
}

// Cephes, for abs(x) <= 0.5, z = x * x.
Expr asin_polynomial(Expr x, Expr z) {
  Expr p = polynomial(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  return fma(p * z, x, x);
}

// asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)) above 0.5.
Expr asin_of(Expr x) {
  Expr a = abs(x), large = a > lit(x, 0.5);
  Expr z = select(large, (1.0 - a) * 0.5, a * a);
  Expr p = asin_polynomial(select(large, sqrt(z), a), z);
  Expr r = select(large, fma(p, splat(x, -2.0), splat(x, 1.5707963267948966)), p);
  return select(x < 0.0, -r, select(x == 0.0, x, r));
}

// acos(a) = 2 asin(sqrt((1 - a) / 2)) above 0.5, which keeps the digits of small results.
Expr acos_of(Expr x) {
  Expr a = abs(x), large = a > lit(x, 0.5);
  Expr z = select(large, (1.0 - a) * 0.5, a * a);
  Expr p = asin_polynomial(select(large, sqrt(z), x), z);
  Expr twice = p + p;
  return select(large, select(x < 0.0, 3.141592653589793 - twice, twice), 1.5707963267948966 - p);
}

// |a|^b = e^(b log |a|), with the logarithm and the product as sums of a high and a low part. Halves of mantissas make products
// exact, because a language may round fma twice.
Expr high_half(Expr x) { return from_bits(bits(x) & -4096); }

struct TwoSum {
  Expr high, low;
};
TwoSum sum_of(Expr large, Expr small) {  // |large| >= |small|, or large = 0
  Expr s = large + small;
  return {s, small - (s - large)};
}

Expr pow_of(Expr a, Expr b) {
  Expr size = abs(a);
  const auto [f, e] = parts_of(size);
  Expr fh = high_half(f);
  const TwoSum near = sum_of(f, fh * fh * -0.5);
  Expr p = polynomial(f, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                          2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  const TwoSum whole_part = sum_of(e * 0.693359375, near.high);
  Expr low = fma((f - fh) * (f + fh), splat(a, -0.5), p * f * (f * f)) + near.low;
  const TwoSum log = sum_of(whole_part.high, whole_part.low + fma(e, splat(a, -2.12194440e-4), low));
  Expr y = max(lit(b, -4294967296.0), min(lit(b, 4294967296.0), b)), yh = high_half(y), lh = high_half(log.high);
  Expr product = y * log.high;
  Expr error = (yh * lh - product) + yh * (log.high - lh) + (y - yh) * lh + (y - yh) * (log.high - lh);
  Expr rest = select(abs(product) < lit(a, 110.0), fma(y, log.low, error), splat(a, 0.0));
  Expr half = half_exp(product), power = half * fma(half, rest, half);

  Expr zero = splat(a, 0.0), infinity = splat(a, kInf);
  power = select(size == 0.0, select(b < 0.0, infinity, zero), power);
  power = select(size == infinity, select(b < 0.0, zero, infinity), power);
  Expr whole = floor(b) == b, odd = whole && floor(b * 0.5) != b * 0.5;
  Expr r = select(odd && bits(a) < 0, -power, power);
  r = select((a < 0.0 && size < infinity && !whole) || isnan(a) || isnan(b), nan_of(a), r);
  return select(b == 0.0 || a == 1.0, splat(a, 1.0), r);
}

// The quotient of the smaller by the larger, both scaled into the range where languages divide precisely.
Expr atan2_of(Expr y, Expr x) {
  Expr ax = abs(x), ay = abs(y), steep = ay > ax, large = select(steep, ay, ax), small = select(steep, ax, ay);
  Expr scale =
      select(large > lit(x, 0x1p100), splat(x, 0x1p-40), select(large < lit(x, 0x1p-100), splat(x, 0x1p40), splat(x, 1.0)));
  Expr ratio = select(ax == ay, select(ax == 0.0, splat(x, 0.0), splat(x, 1.0)), small * scale / (large * scale));
  Expr r = atan_of(ratio);
  r = select(steep, 1.5707963267948966 - r, r);
  r = sign_of(y, select(bits(x) < 0, 3.141592653589793 - r, r));
  return select(isnan(x) || isnan(y), nan_of(x), r);
}

}  // namespace

bool has_definition(ExprOp op) {
  switch (op) {
    case ExprOp::Exp:
    case ExprOp::Exp2:
    case ExprOp::Log:
    case ExprOp::Tanh:
    case ExprOp::Erf:
    case ExprOp::Expm1:
    case ExprOp::Log1p:
    case ExprOp::Sin:
    case ExprOp::Cos:
    case ExprOp::Tan:
    case ExprOp::Atan:
    case ExprOp::Asin:
    case ExprOp::Acos:
    case ExprOp::Sinh:
    case ExprOp::Cosh:
    case ExprOp::Asinh:
    case ExprOp::Acosh:
    case ExprOp::Atanh:
    case ExprOp::Pow:
    case ExprOp::Atan2:
    case ExprOp::IsNan:
    case ExprOp::IsInf: return true;
    default: return false;
  }
}

Kernel define(ExprOp op, Type t, Periods periods) {
  Builder b(std::string(name(op)));
  std::vector<Expr> in;
  for (int n = 0; n < operand_count(op); ++n) in.push_back(b.parameter(n == 0 ? "x" : "y", t));
  Expr x = in[0], r;
  switch (op) {
    case ExprOp::Exp: r = exp_of(x); break;
    case ExprOp::Exp2: r = exp2_of(x); break;
    case ExprOp::Log: r = log_of(x); break;
    case ExprOp::Tanh: r = tanh_of(x); break;
    case ExprOp::Erf: r = erf_of(x); break;
    case ExprOp::Expm1: r = expm1_of(x); break;
    case ExprOp::Log1p: r = log1p_of(x); break;
    case ExprOp::Sin: r = sin_of(x, periods); break;
    case ExprOp::Cos: r = cos_of(x, periods); break;
    case ExprOp::Tan: r = sin_of(x, periods) / cos_of(x, periods); break;
    case ExprOp::Atan: r = atan_of(x); break;
    case ExprOp::Asin: r = asin_of(x); break;
    case ExprOp::Acos: r = acos_of(x); break;
    case ExprOp::Sinh: r = sinh_of(x); break;
    case ExprOp::Cosh: r = cosh_of(x); break;
    case ExprOp::Asinh: r = asinh_of(x); break;
    case ExprOp::Acosh: r = acosh_of(x); break;
    case ExprOp::Atanh: r = atanh_of(x); break;
    case ExprOp::Pow: r = pow_of(x, in[1]); break;
    case ExprOp::Atan2: r = atan2_of(x, in[1]); break;
    case ExprOp::IsNan: r = (bits(x) & 0x7FFFFFFF) > 0x7F800000; break;
    default: r = (bits(x) & 0x7FFFFFFF) == 0x7F800000; break;
  }
  b.registers("result", r.type(), 1).set(r);
  Kernel k = b.finish();
  simplify(k);
  return k;
}

}  // namespace rlxc::kernel
