// Linear systems as a loop of simple operations.
#pragma once
#include "ir/builder.h"

namespace rlxc::compose {

// a [..., n, n], b [..., n, k] with equal leading sizes -> x [..., n, k] with a*x = b: Gauss-Jordan elimination with partial
// pivoting, n steps of O(n (n+k)) each. A singular matrix gives infinities or NaN.
ValueId solve(Builder&, ValueId a, ValueId b);
ValueId identity_matrix(Builder&, DType, Dim n);  // [n, n]

}  // namespace rlxc::compose
