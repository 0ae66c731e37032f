#include "kernel/math.h"

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

// x = n ln 2 + r, abs(r) <= ln 2 / 2, n >= -126 (results below 2^-126 are 0). Adding 1.5 * 2^23 rounds to an integer in the low
// bits of the sum. The low bits of n + 126 are the exponent of 2^(n-1).
Expr exp_of(Expr x) {
  constexpr double kShift = 12582912.0 + 126;
  Expr clamped = max(lit(x, -87.33654), min(lit(x, 89.0), x));  // the second operand, which preserves NaN
  Expr shifted = fma(clamped, splat(x, 1.44269504088896341), splat(x, kShift));
  Expr n = shifted - kShift;
  Expr r = fma(n, splat(x, 2.12194440e-4), fma(n, splat(x, -0.693359375), clamped));
  // Computes 2 e^r, because 2^128 is representable only as 2 * 2^127. Minimax polynomial, relative error 3e-9 before rounding.
  Expr p = polynomial(
      r, {2 * 1.3814540105e-3, 2 * 8.3687451956e-3, 2 * 4.1666839079e-2, 2 * 1.6666520398e-1, 2 * 4.9999993432e-1, 2, 2});
  return p * from_bits(bits(shifted) << 23);
}

// x = n + r, abs(r) <= 1/2, as above. Minimax polynomial of 2^r that is 1 at 0, relative error 9e-8 before rounding.
Expr exp2_of(Expr x) {
  constexpr double kShift = 12582912.0 + 126;
  Expr clamped = max(lit(x, -126.0), min(lit(x, 129.0), x)), shifted = clamped + kShift, r = clamped - (shifted - kShift);
  Expr p =
      polynomial(r, {2 * 1.3264727218e-3, 2 * 9.6715126396e-3, 2 * 5.5507337432e-2, 2 * 2.4022242085e-1, 2 * 6.931469776e-1, 2});
  return p * from_bits(bits(shifted) << 23);
}

// x = m 2^e with m in [sqrt(1/2), sqrt(2)).
Expr log_of(Expr x) {
  Expr tiny = x < lit(x, 1.17549435e-38);
  Expr y = select(tiny, x * 8388608.0, x);
  Expr e = (bits(y) - 0x3F3504F3) >> 23;
  Expr m = from_bits(bits(y) - (e << 23)) - 1.0;
  Expr exponent = cast_to(e, DType::F32) - select(tiny, splat(x, 23.0), splat(x, 0.0));
  Expr p = polynomial(m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
                          2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  Expr square = m * m;
  Expr r = fma(exponent, splat(x, -2.12194440e-4), p * m * square);
  r = fma(square, splat(x, -0.5), r) + m;
  r = fma(exponent, splat(x, 0.693359375), r);
  r = select(x == 0.0, splat(x, -kInf), select(x < 0.0, splat(x, std::numeric_limits<double>::quiet_NaN()), r));
  return select(x < lit(x, kInf), r, x);  // +inf and NaN
}

Expr tanh_of(Expr x) {
  Expr c = max(lit(x, -7.90531110763549805), min(lit(x, 7.90531110763549805), x)), x2 = c * c;
  Expr p = polynomial(x2, {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                           1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03});
  Expr q = polynomial(x2, {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
  return select(abs(x) < lit(x, 0.0004), x, c * p / q);
}

Expr erf_of(Expr x) {
  Expr c = max(lit(x, -4.0), min(lit(x, 4.0), x)), x2 = c * c;
  Expr p = polynomial(x2, {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
                           -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02});
  Expr q = polynomial(
      x2, {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02});
  return c * p / q;
}

Expr expm1_of(Expr x) {
  Expr p = polynomial(x, {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
  return select(abs(x) < lit(x, 0.5), fma(p * x, x, x), exp(x) - 1.0);
}

// Kahan's correction of the rounding of 1 + x.
Expr log1p_of(Expr x) {
  Expr u = x + 1.0;
  Expr corrected = log(u) * (x / (u - 1.0));
  return select(u == 1.0, x, select(abs(x) < lit(x, 16777216.0), corrected, log(u)));
}

// x = j pi/4 + r with j even and |r| <= pi/4. pi/4 is split into short constants, which makes the products with j exact.
Expr octant(Expr x, Expr* j) {
  Expr a = abs(x), n = floor(a * 1.27323954473516);
  n = select(floor(n * 0.5) * 2.0 == n, n, n + 1.0);
  *j = cast_to(n - floor(n * 0.125) * 8.0, DType::I32);
  return fma(n, splat(x, -3.77489497744594108e-8), fma(n, splat(x, -2.4187564849853515625e-4), fma(n, splat(x, -0.78515625), a)));
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

Expr sin_of(Expr x) {
  Expr j, r = octant(x, &j);
  Expr v = select(j == 2 || j == 6, cos_polynomial(r), sin_polynomial(r));
  return select((j >= 4) != (x < 0.0), -v, v);
}

Expr cos_of(Expr x) {
  Expr j, r = octant(x, &j);
  Expr v = select(j == 2 || j == 6, sin_polynomial(r), cos_polynomial(r));
  return select(j == 2 || j == 4, -v, v);
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

// a|^b, negative for negative a and odd b, NaN for negative a and non-integer b.
Expr pow_of(Expr a, Expr b) {
  Expr size = exp(b * log(abs(a)));
  Expr whole = floor(b) == b, odd = whole && floor(b * 0.5) != b * 0.5;
  Expr negative = select(whole, select(odd, -size, size), splat(a, std::numeric_limits<double>::quiet_NaN()));
  Expr zero = select(b < 0.0, splat(a, kInf), splat(a, 0.0));
  Expr r = select(a == 0.0, zero, select(a < 0.0, negative, size));
  return select(b == 0.0 || a == 1.0, splat(a, 1.0), r);
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
    case ExprOp::Pow:
    case ExprOp::IsNan:
    case ExprOp::IsInf: return true;
    default: return false;
  }
}

Kernel define(ExprOp op, Type t) {
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
    case ExprOp::Sin: r = sin_of(x); break;
    case ExprOp::Cos: r = cos_of(x); break;
    case ExprOp::Tan: r = sin(x) / cos(x); break;
    case ExprOp::Atan: r = atan_of(x); break;
    case ExprOp::Asin: r = asin_of(x); break;
    case ExprOp::Acos: r = acos_of(x); break;
    case ExprOp::Pow: r = pow_of(x, in[1]); break;
    case ExprOp::IsNan: r = (bits(x) & 0x7FFFFFFF) > 0x7F800000; break;
    default: r = (bits(x) & 0x7FFFFFFF) == 0x7F800000; break;
  }
  b.registers("result", r.type(), 1).set(r);
  Kernel k = b.finish();
  simplify(k);
  return k;
}

}  // namespace rlxc::kernel
