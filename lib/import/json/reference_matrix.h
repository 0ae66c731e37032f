// Matrix operands of the reference vocabulary, and functions of symmetric matrices through their eigenvalues.
#pragma once
#include "import/compose/factor.h"
#include "import/json/reference_rows.h"

namespace rlxc::import_json {

// An operand [.., m, n] reshaped to [batch, m, n].
struct Matrices {
  transform::Term x;
  std::vector<Dim> outer;
  Dim m, n;

  // Reshapes [batch, dims..] to [.., dims..].
  transform::Term whole(transform::Term y) const {
    auto d = outer;
    const auto own = y.dims();
    d.insert(d.end(), own.begin() + (own.empty() ? 0 : 1), own.end());
    return reshape(y, std::move(d));
  }
};
// Returns nullopt with an error if the operand does not fit. `known`: dims of a matrix must be constant, 1 to 1024.
std::optional<Matrices> reference_matrices(ReferenceNode&, size_t operand, bool square, bool known);

inline transform::Term transposed(transform::Term x) { return transpose(x, {0, 2, 1}); }
inline transform::Term flat_rows(transform::Term x) {
  const auto d = x.dims();
  return x.valid() ? reshape(x, {d[0], x.b->dims().product(std::span(d).subspan(1))}) : x;
}

// Returns vectors * diag(values) * vectorsᵀ for [batch,n,n] and [batch,n].
inline transform::Term restored(transform::Term vectors, transform::Term values) {
  if (!vectors.valid() || !values.valid()) return vectors.with({});
  return matmul(vectors * reshape(values, {values.dims()[0], Dim(1), values.dims()[1]}), vectors, false, true);
}

}  // namespace rlxc::import_json
