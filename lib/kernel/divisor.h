// Division of floats by two multiplications: fma(a, high, a * rest). The parts are positive. high is the float below the one
// nearest to 1/b, and high + rest is 1/b with a relative error of at most 2^-44. The result is a / b or an adjacent float.
#pragma once

namespace rlxc::kernel {

// Returns whether both ways to divide by b round to the same integers, half to even, up to `most` in magnitude. Larger quotients
// stay larger, and infinities and NaN stay what they are. Few divisors fail. Divisors that are not positive or outside of
// 2^-90..2^90 fail. O(most).
bool rounds_alike(float b, int most);

}  // namespace rlxc::kernel
