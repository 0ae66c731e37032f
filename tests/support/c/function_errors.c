/* Largest errors of a function of f32, in units in the last place (ulp) of the exact result, against 128-bit floats.

   function_errors NAME FLOOR < data: n floats x, n floats y (zeros for functions of one operand), n floats of results. Prints the
   largest error where operands and the exact result are normal numbers, the operand there, the largest error elsewhere, the operand
   there, and the number of results that should be NaN, infinite or a signed zero and are not, with an operand. Below FLOOR (times
   |x| with a suffix x) an ulp is that of FLOOR. Needs libquadmath. */
#include <math.h>
#include <quadmath.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __float128 real;

static real softplus(real x) { return fmaxq(x, 0) + log1pq(expq(-fabsq(x))); }
static real elu(real x) { return x < 0 ? expm1q(x) : x; }

static real exact(const char* f, real x, real y) {
#define IS(name) if (strcmp(f, name) == 0) return
  IS("exp") expq(x);
  IS("expm1") expm1q(x);
  IS("log") logq(x);
  IS("log1p") log1pq(x);
  IS("sqrt") sqrtq(x);
  IS("rsqrt") 1 / sqrtq(x);
  IS("recip") 1 / x;
  IS("sin") sinq(x);
  IS("cos") cosq(x);
  IS("tan") tanq(x);
  IS("asin") asinq(x);
  IS("acos") acosq(x);
  IS("atan") atanq(x);
  IS("sinh") sinhq(x);
  IS("cosh") coshq(x);
  IS("tanh") tanhq(x);
  IS("asinh") asinhq(x);
  IS("acosh") acoshq(x);
  IS("atanh") atanhq(x);
  IS("erf") erfq(x);
  IS("sigmoid") 1 / (1 + expq(-x));
  IS("softplus") softplus(x);
  IS("log_sigmoid") -softplus(-x);
  IS("softsign") x / (1 + fabsq(x));
  IS("silu") x / (1 + expq(-x));
  IS("mish") x * tanhq(softplus(x));
  IS("gelu") x * erfcq(-x * M_SQRT1_2q) / 2;
  IS("elu") elu(x);
  IS("relu") x > 0 || x != x ? x : 0;
  IS("clamp") x < -1 ? -1 : x > 1 ? 1 : x;
  IS("round") rintq(x);
  IS("floor") floorq(x);
  IS("ceil") ceilq(x);
  IS("pow") powq(x, y);
  IS("atan2") atan2q(x, y);
  IS("div") x / y;
  IS("fmod") fmodq(x, y);
  IS("max") x != x || y != y ? x + y : x > y ? x : y;
  IS("min") x != x || y != y ? x + y : x < y ? x : y;
  fprintf(stderr, "function_errors: no function %s\n", f);
  exit(2);
}

static int denormal(float x) { return x != 0 && __builtin_fabsf(x) < 0x1p-126f; }

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  char* suffix;
  const double floor = strtod(argv[2], &suffix);
  float* data = NULL;
  size_t count = 0, room = 0, got;
  do {
    room += 1 << 20;
    data = realloc(data, room * sizeof *data);
    count += got = fread(data + count, sizeof *data, room - count, stdin);
  } while (got > 0);
  const size_t n = count / 3;
  double worst[2] = {0, 0};
  float at[2] = {0, 0}, bad_at = 0;
  size_t bad = 0;
  for (size_t i = 0; i < n; ++i) {
    const float x = data[i], y = data[n + i], result = data[2 * n + i];
    const real want = exact(argv[1], x, y);
    const float nearest = (float)want;
    const int small = fabsq(want) < 0x1p-126 || denormal(x) || denormal(y);
    if (want != want || want == 0 || want - want != 0 || result - result != 0) {
      // A zero has its sign, but for the larger and smaller of two operands. A result beyond the largest float may be infinite.
      const int zero = result == 0 && (!signbitq(want) == !__builtin_signbit(result) || argv[1][0] == 'm');
      const int right = want != want ? result != result : want == 0 ? zero : result == nearest;
      if (!right && !small && bad++ == 0) bad_at = x;
      if (!right && small && want != 0 && worst[1] < 1) worst[1] = INFINITY, at[1] = x;
      continue;
    }
    real scale = suffix[0] == 'x' ? floor * fabsq((real)x) : floor;
    if (scale < fabsq(want)) scale = fabsq(want);
    int e;
    frexpq(scale, &e);
    const double error = (double)(fabsq(result - want) / ldexpq(1, e - 24 < -149 ? -149 : e - 24));
    if (error > worst[small]) worst[small] = error, at[small] = x;
  }
  printf("%.3g %.9g %.3g %.9g %zu %.9g\n", worst[0], at[0], worst[1], at[1], bad, bad_at);
  return 0;
}
