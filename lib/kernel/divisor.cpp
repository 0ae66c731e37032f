#include "kernel/divisor.h"

#include <cmath>
#include <initializer_list>

namespace rlxc::kernel {

// The nearest integer changes at the floats beside a half. Both ways to divide give the same float unless the exact quotient lies
// within their error of a midpoint of two floats. A midpoint times b has 49 bits, so a double holds it exactly. If the float
// nearest to this product is not within the error, no float is.
bool rounds_alike(float b, int most) {
  constexpr double kError = 0x1p-43, kLargest = 0x1p+90;
  if (!(b > 1 / kLargest && b < kLargest)) return false;
  for (int i = 0; i <= most; ++i) {
    const float half = static_cast<float>(i) + 0.5F;
    for (const float neighbour : {std::nextafter(half, 0.0F), std::nextafter(half, INFINITY)}) {
      const double product = (double{half} + double{neighbour}) / 2 * double{b};
      if (std::fabs(static_cast<float>(product) - product) <= kError * product) return false;
    }
  }
  return true;
}

}  // namespace rlxc::kernel
