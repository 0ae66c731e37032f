// Linear systems as a loop of simple operations.
#pragma once
#include <string>

#include "ir/builder.h"

namespace rlxc::compose {

// a [..., n, n], b [..., n, k] with equal leading sizes -> x [..., n, k] with a*x = b: Gauss-Jordan elimination with partial
// pivoting, n steps of O(n (n+k)) each. A singular matrix gives infinities or NaN. `name` is that of the loop's body.
ValueId solve(Builder&, ValueId a, ValueId b, const std::string& name);
ValueId identity_matrix(Builder&, DType, Dim n);  // [n, n]

}  // namespace rlxc::compose
