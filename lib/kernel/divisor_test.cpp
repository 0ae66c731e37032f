#include "kernel/divisor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

using namespace rlxc::kernel;

namespace {

// As kernels compute it.
float quotient(float a, float b) {
  const float high = 1.0F / b * 0x1.fffffep-1F, rest = std::fma(-b, high, 1.0F) * high;
  return std::fma(a, high, a * rest);
}

}  // namespace

TEST_CASE("quotients by products round as divisions, beside each half, at infinities and for NaN") {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-20, 20);
  int allowed = 0, wrong = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const float b = trial < 40   ? std::ldexp(1.0F, trial - 20)
                    : trial < 60 ? 0.05F * static_cast<float>(trial - 39)
                                 : std::exp2(exponent(random));
    if (!rounds_alike(b, 256)) continue;
    ++allowed;
    for (int i = 0; i <= 256; ++i)
      for (float sign : {1.0F, -1.0F}) {
        float a = sign * (static_cast<float>(i) + 0.5F) * b;
        for (int step = 0; step < 5; ++step) a = std::nextafter(a, 0.0F);
        for (int step = 0; step < 10; ++step, a = std::nextafter(a, sign * INFINITY))
          wrong += std::nearbyint(quotient(a, b)) != std::nearbyint(a / b);
      }
    for (float a : {INFINITY, -INFINITY, 3e38F * std::min(b, 1.0F), 0.0F, -0.0F}) {
      wrong += std::signbit(quotient(a, b)) != std::signbit(a / b);
      wrong += std::isinf(quotient(a, b)) != std::isinf(a / b);
    }
    wrong += !std::isnan(quotient(NAN, b));
  }
  CHECK(wrong == 0);
  CHECK(allowed > 290);
}

TEST_CASE("divisors are refused that are not positive and normal, or for which a product may round otherwise") {
  for (float b : {0.0F, -0.0F, -1.0F, INFINITY, NAN, 1e-45F, 1e-30F, 1e30F}) CHECK_FALSE(rounds_alike(b, 256));
  int refused = 0;
  for (uint32_t i = 0; i < 20000; ++i) refused += !rounds_alike(1.0F + static_cast<float>(i) * 0x1p-23F, 256);
  CHECK(refused > 0);
  CHECK(refused < 200);
}
