// Matrix factorisations [batch, m, n], composed as loops of IR ops. Sources: Golub and Van Loan, Matrix Computations, 4.2
// (Cholesky), 5.2 (Householder), 8.5 and 8.6 (Jacobi).
#pragma once
#include "ir/term.h"

namespace rlxc::compose {

using transform::Term;

// Returns lower triangular l with l*lᵀ = a. Reads the lower triangle of a. NaN if a is not positive definite.
Term cholesky(Term a);

// For a with m >= n: q [batch,m,n] with orthonormal columns and upper triangular r [batch,n,n]. Signs as in LAPACK.
struct QrFactors {
  Term q, r;
};
QrFactors qr(Term a);

// Ascending eigenvalues [batch,n], and eigenvectors as columns of `vectors`, of a symmetric a of static size.
struct Eigen {
  Term values, vectors;
};
Eigen eigh(Term a);

// For a of static size: u [batch,m,k], descending s [batch,k], v [batch,n,k] with a = u*diag(s)*vᵀ, k = min(m,n).
struct Singular {
  Term u, s, v;
};
Singular svd(Term a);

}  // namespace rlxc::compose
