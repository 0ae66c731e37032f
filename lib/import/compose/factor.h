// Factorisations of matrices [batch, m, n] as loops of simple operations.
// Sources: Golub and Van Loan, Matrix Computations, 4.2 (Cholesky), 5.2 (Householder), 8.5 and 8.6 (Jacobi).
#pragma once
#include "ir/term.h"

namespace rlxc::compose {

using transform::Term;

// The lower triangle l with l*lᵀ = a; of a the lower triangle is read. NaN where a is not positive definite.
Term cholesky(Term a);

// q [batch,m,n] with orthonormal columns and r [batch,n,n], upper, of a with m >= n. Signs as LAPACK has them.
struct QrFactors {
  Term q, r;
};
QrFactors qr(Term a);

// Eigenvalues [batch,n], rising, and eigenvectors, the columns of `vectors`, of a symmetric a of known size.
struct Eigen {
  Term values, vectors;
};
Eigen eigh(Term a);

// u [batch,m,k], s [batch,k], falling, v [batch,n,k] with a = u*diag(s)*vᵀ, k = min(m,n); sizes of a are known.
struct Singular {
  Term u, s, v;
};
Singular svd(Term a);

}  // namespace rlxc::compose
