// Slopes of operations that choose or combine elements, for both directions of differentiation.
#pragma once
#include "ir/term.h"

namespace rlxc::transform {

// A scatter passes `data` of each element of x on, and `updates` of each update. Of several updates of one element: of largest
// ones each an even share, of factors the product of the others; one that replaces counts as the last. The node is a
// ScatterElements or ScatterNd with the result y.
struct ScatterSlopes {
  Term data, updates;
};
ScatterSlopes scatter_slopes(OpKind, const ScatterAttrs&, Term x, Term index, Term updates, Term y);
// What lies at the places of a scatter.
Term gathered(OpKind scatter, const ScatterAttrs&, Term x, Term index);

// The determinants without row i and column j of square matrices [.., n, n], with their signs: the slope of the determinant by
// element (i, j). Invalid unless n is known and at most 16. O(n^5) a matrix.
Term cofactors(Term x);

// The transform that is the transpose of a linear Fft: of dy, which has the sizes of its result, by the operand of sizes dx.
Term fft_transposed(const FftAttrs&, Term dy, const std::vector<Dim>& dx);

}  // namespace rlxc::transform
