// Division by one number, as two multiplications. a / b is fma(a, high, a * rest), where high + rest is 1/b but for a relative
// error of 2^-44, both parts are above 0, and high is the float below the nearest one to 1/b. The result is a / b or a float
// beside it. Where quotients are rounded to integers, few divisors make a difference, and it is known which (rounds_alike).
#pragma once

namespace rlxc::kernel {

// Returns whether fma(a, high, a * rest) and a / b, as floats, round to the same integer for all a whose quotient is less than
// `most` in magnitude, half to even. Both are infinite or NaN for the same a, and above `most` - 1 for the same others. False for
// divisors that are not above 0, or whose reciprocals or parts may leave the normal range. O(most).
bool rounds_alike(float b, int most);

}  // namespace rlxc::kernel
