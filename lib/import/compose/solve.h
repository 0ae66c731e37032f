// Linear systems, composed as a loop of IR ops.
#pragma once
#include "ir/builder.h"

namespace rlxc::compose {

// Solves a*x = b for a [..., n, n], b [..., n, k] with equal leading dims: Gauss-Jordan elimination with partial pivoting, n
// steps of O(n (n+k)) each. A singular matrix yields infinities or NaN.
ValueId solve(Builder&, ValueId a, ValueId b);
ValueId identity_matrix(Builder&, DType, Dim n);  // [n, n]

}  // namespace rlxc::compose
