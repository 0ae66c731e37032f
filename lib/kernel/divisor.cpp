#include "kernel/divisor.h"

#include <cmath>

namespace rlxc::kernel {

// The nearest integers change between the floats below, at and above a half. Both ways to divide agree there unless a quotient
// lies within their error of the middle between two of these floats. Products of a middle and b have 49 bits and so are exact; if
// the float nearest to the product is far from it, so are all floats.
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
