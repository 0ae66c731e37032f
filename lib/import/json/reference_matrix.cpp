// Linear algebra of the reference vocabulary: factorisations.
#include "import/json/reference_matrix.h"

#include <algorithm>
#include <array>

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::concat, transform::make, transform::Term;
constexpr int64_t kLargest = 1 << 10;  // largest matrix of constant dims

ValueId cholesky(Node& n) {
  const auto a = n.count(1, 1) ? reference_matrices(n, 0, true, false) : std::nullopt;
  return a ? a->whole(compose::cholesky(a->x)).v : ValueId();
}

ValueId qr(Node& n) {
  const auto a = n.count(1, 1) ? reference_matrices(n, 0, false, true) : std::nullopt;
  if (!a) return {};
  if (a->m.size() < a->n.size()) {
    n.fail(Code::BadShape, "needs at least as many rows as columns");
    return ValueId();
  }
  const auto f = compose::qr(a->x);
  const std::string part = n.word("part");
  if (part != "Q" && part != "R") {
    n.fail(Code::BadAttribute, "\"part\" must be Q or R");
    return ValueId();
  }
  return a->whole(part == "Q" ? f.q : f.r).v;
}
ValueId svd(Node& n) {
  const auto a = n.count(1, 1) ? reference_matrices(n, 0, false, true) : std::nullopt;
  if (!a) return {};
  const auto f = compose::svd(a->x);
  const std::string part = n.word("part");
  if (part != "U" && part != "S" && part != "Vt") {
    n.fail(Code::BadAttribute, "\"part\" must be U, S or Vt");
    return ValueId();
  }
  return a->whole(part == "U" ? f.u : part == "S" ? f.s : transposed(f.v)).v;
}

ValueId eigh(Node& n) {  // returns the eigenvalues, then the eigenvectors row by row
  const auto a = n.count(1, 1) ? reference_matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  const auto e = compose::eigh(a->x);
  return e.vectors.valid() ? a->whole(concat({e.values, flat_rows(e.vectors)}, 1)).v : ValueId();
}

// Gradient of eigh with packed eigenvalues and vectors. Pairs of equal eigenvalues contribute nothing.
ValueId eigh_backward(Node& n) {  // eigh's result, and the gradients by it
  if (!n.count(2, 2) || n.rank(0) < 1 || n.type.rank() < 2) {
    n.fail(Code::BadShape, "needs packed eigenvalues");
    return ValueId();
  }
  const Dim size = n.type.dims.back(), rows = n.b.dims().product(std::span(n.type.dims).first(n.type.dims.size() - 2));
  const auto unpacked = [&](size_t i) {
    const Term all = reshape(Term{&n.b, n.in[i]}, {rows, n.b.dims().add(size, n.b.dims().mul(size, size))});
    const Term vectors = reshape(narrow(all, 1, size, n.b.dims().mul(size, size)), {rows, size, size});
    return std::pair(narrow(all, 1, Dim(0), size), vectors);
  };
  const auto [values, vectors] = unpacked(0);
  const auto [values_bar, vectors_bar] = unpacked(1);
  const Term gap = reshape(values, {rows, Dim(1), size}) - reshape(values, {rows, size, Dim(1)});
  const Term same = transform::equal(gap, 0.0), turn = matmul(vectors, vectors_bar, true);
  const Term inner = select(same, 0.0, turn / select(same, 1.0, gap));
  const Term whole = matmul(matmul(vectors, inner), vectors, false, true);
  return reshape((whole + transposed(whole)) * 0.5 + restored(vectors, values_bar), n.type.dims).v;
}

}  // namespace

std::optional<Matrices> reference_matrices(ReferenceNode& n, size_t operand, bool square, bool known) {
  const Term x{&n.b, n.in[operand]};
  auto d = x.dims();
  if (d.size() < 2 || (square && !n.b.dims().equal(d[d.size() - 1], d[d.size() - 2]))) {
    n.fail(Code::BadShape, square ? "needs square matrices" : "needs matrices");
    return std::nullopt;
  }
  Matrices a{{}, {d.begin(), d.end() - 2}, d[d.size() - 2], d.back()};
  if (known && (!a.m.is_static() || !a.n.is_static() || a.m.size() > kLargest || a.n.size() > kLargest || a.m.size() < 1 ||
                a.n.size() < 1)) {
    n.fail(Code::UnsupportedAttribute, "needs matrices of static shape from 1 to " + std::to_string(kLargest));
    return std::nullopt;
  }
  a.x = reshape(x, {n.b.dims().product(a.outer), a.m, a.n});
  return a;
}

std::span<const ReferenceRow> reference_matrix_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"Cholesky", cholesky},
      {"Qr", qr},
      {"Svd", svd},
      {"Eigh", eigh},
      {"EighBatch", eigh},
      {"EighBackward", eigh_backward},
      {"EighBatchBackward", eigh_backward},
  };
  return kRows;
}

}  // namespace rlxc::import_json
