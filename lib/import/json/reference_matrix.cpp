// Linear algebra of the reference vocabulary: factorisations, and functions of symmetric matrices by their eigenvalues.
#include <algorithm>
#include <array>

#include "import/compose/factor.h"
#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::make, transform::Term;
constexpr int64_t kLargest = 1 << 10;  // of matrices whose sizes must be known

// An operand [.., m, n] as [batch, m, n].
struct Matrices {
  Term x;
  std::vector<Dim> outer;
  Dim m, n;

  // [batch, sizes..] as [.., sizes..].
  Term whole(Term y) const {
    auto d = outer;
    const auto own = y.dims();
    d.insert(d.end(), own.begin() + (own.empty() ? 0 : 1), own.end());
    return reshape(y, std::move(d));
  }
};
std::optional<Matrices> matrices(Node& n, size_t operand, bool square, bool known) {
  const Term x{&n.b, n.in[operand]};
  auto d = x.dims();
  if (d.size() < 2 || (square && !n.b.dims().equal(d[d.size() - 1], d[d.size() - 2])))
    return n.fail(Code::BadShape, square ? "needs square matrices" : "needs matrices"), std::nullopt;
  Matrices a{{}, {d.begin(), d.end() - 2}, d[d.size() - 2], d.back()};
  if (known && (!a.m.is_static() || !a.n.is_static() || a.m.size() > kLargest || a.n.size() > kLargest || a.m.size() < 1 ||
                a.n.size() < 1))
    return n.fail(Code::UnsupportedAttribute, "needs matrices of known sizes from 1 to " + std::to_string(kLargest)),
           std::nullopt;
  a.x = reshape(x, {n.b.dims().product(a.outer), a.m, a.n});
  return a;
}

Term transposed(Term x) { return transpose(x, {0, 2, 1}); }
Term flat(Term x) {
  const auto d = x.dims();
  return x.valid() ? reshape(x, {d[0], x.b->dims().product(std::span(d).subspan(1))}) : x;
}
Term join(const std::vector<Term>& parts) {
  std::vector<ValueId> values;
  for (const Term& t : parts) {
    if (!t.valid()) return t;
    values.push_back(t.v);
  }
  return parts[0].with(parts[0].b->concat(values, 1));
}

ValueId cholesky(Node& n) {
  const auto a = n.count(1, 1) ? matrices(n, 0, true, false) : std::nullopt;
  return a ? a->whole(compose::cholesky(a->x)).v : ValueId();
}

ValueId qr(Node& n) {
  const auto a = n.count(1, 1) ? matrices(n, 0, false, true) : std::nullopt;
  if (!a) return {};
  if (a->m.size() < a->n.size()) return n.fail(Code::BadShape, "needs at least as many rows as columns"), ValueId();
  const auto f = compose::qr(a->x);
  const std::string part = n.word("part");
  if (part != "Q" && part != "R") return n.fail(Code::BadAttribute, "\"part\" must be Q or R"), ValueId();
  return a->whole(part == "Q" ? f.q : f.r).v;
}
ValueId svd(Node& n) {
  const auto a = n.count(1, 1) ? matrices(n, 0, false, true) : std::nullopt;
  if (!a) return {};
  const auto f = compose::svd(a->x);
  const std::string part = n.word("part");
  if (part != "U" && part != "S" && part != "Vt") return n.fail(Code::BadAttribute, "\"part\" must be U, S or Vt"), ValueId();
  return a->whole(part == "U" ? f.u : part == "S" ? f.s : transposed(f.v)).v;
}

// ---- Functions of symmetric matrices: of their eigenvalues.

Term restored(const Term& vectors, const Term& values) {
  return matmul(vectors * reshape(values, {values.dims()[0], Dim(1), values.dims()[1]}), vectors, false, true);
}
template <class F>
Term function_of(Term x, F f) {
  const auto e = compose::eigh(x);
  return e.vectors.valid() && e.values.valid() ? restored(e.vectors, f(e.values)) : x.with({});
}
Term log_of(Term x) {
  return function_of(x, [](Term v) { return log(v); });
}
Term exp_of(Term x) {
  return function_of(x, [](Term v) { return exp(v); });
}

ValueId eigh(Node& n) {  // the values, then the vectors row by row
  const auto a = n.count(1, 1) ? matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  const auto e = compose::eigh(a->x);
  return e.vectors.valid() ? a->whole(join({e.values, flat(e.vectors)})).v : ValueId();
}

// f of the matrix, the values that went into it and the vectors, one after another.
template <class F>
ValueId with_factors(Node& n, F f) {
  const auto a = n.count(1, 1) ? matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  const auto e = compose::eigh(a->x);
  if (!e.vectors.valid() || !e.values.valid()) return {};
  return a->whole(join({flat(restored(e.vectors, f(e.values))), e.values, flat(e.vectors)})).v;
}
ValueId re_eig(Node& n) {
  const double least = n.number("eps", 1e-4);
  return with_factors(n, [&](Term v) { return max(v, least); });
}
ValueId log_eig(Node& n) {
  return with_factors(n, [](Term v) { return log(v); });
}

ValueId matrix_function(Node& n) {
  struct Row {
    std::string_view name;
    Term (*f)(Term);
  };
  static constexpr Row kFunctions[] = {{"Logm", [](Term v) { return log(v); }},
                                       {"Expm", [](Term v) { return exp(v); }},
                                       {"Sqrtm", [](Term v) { return sqrt(v); }},
                                       {"Invsqrtm", [](Term v) { return rsqrt(v); }}};
  const auto row = std::ranges::find(kFunctions, n.word("kind"), &Row::name);
  if (row == std::end(kFunctions)) return n.fail(Code::BadAttribute, "\"kind\" is unknown"), ValueId();
  const auto a = n.count(1, 1) ? matrices(n, 0, true, true) : std::nullopt;
  return a ? a->whole(function_of(a->x, row->f)).v : ValueId();
}

// p^1/2 f(p^-1/2 x p^-1/2) p^1/2: tangent vectors at p, and back.
template <Term (*kFunction)(Term)>
Term at_point(Term p, Term x) {
  const auto e = compose::eigh(p);
  if (!e.vectors.valid() || !e.values.valid()) return p.with({});
  const Term root = restored(e.vectors, sqrt(e.values)), inverse = restored(e.vectors, rsqrt(e.values));
  return matmul(matmul(root, kFunction(matmul(matmul(inverse, x), inverse))), root);
}
template <Term (*kFunction)(Term)>
ValueId spd_map(Node& n) {  // the point, then what is mapped
  if (!n.count(2, 2)) return {};
  const auto p = matrices(n, 0, true, true), x = matrices(n, 1, true, true);
  if (!p || !x) return {};
  const Term y = at_point<kFunction>(p->x, x->x);
  return p->outer.size() > x->outer.size() ? p->whole(y).v : x->whole(y).v;
}

// The mean of matrices [B,n,n] that makes the (weighted) sum of their tangent vectors 0: steps of gradient descent from the
// arithmetic mean (Pennec, Fillard, Ayache, A Riemannian Framework for Tensor Computing, 2006).
template <bool kWeighted>
ValueId karcher_mean(Node& n) {
  const int64_t steps = n.integer("iters", 10);
  const auto a = n.count(kWeighted ? 2 : 1, kWeighted ? 2 : 1) ? matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  if (a->outer.size() != 1 || steps < 1 || steps > 100)
    return n.fail(Code::BadShape, "needs matrices [batch,n,n] and 1 to 100 iterations"), ValueId();
  const Term weights = kWeighted ? reshape(Term{&n.b, n.in[1]}, {a->outer[0], Dim(1), Dim(1)}) : Term();
  const auto mean_of = [&](Term x) { return kWeighted ? sum(x * weights / sum(weights, {0}), {0}) : mean(x, {0}); };
  Term p = mean_of(a->x);
  for (int64_t i = 0; i < steps && p.valid(); ++i) p = at_point<exp_of>(p, mean_of(at_point<log_of>(p, a->x)));
  return reshape(p, {a->m, a->n}).v;
}

// w x wᵀ; which operand is w, their sizes must say.
ValueId bi_map(Node& n) {
  if (!n.count(2, 2) || n.rank(0) < 2 || n.rank(1) < 2) return {};
  const auto fits = [&](size_t wide, size_t inner) {  // w [m,n] and x [n,n] give [m,m]
    const auto w = Term{&n.b, n.in[wide]}.dims(), x = Term{&n.b, n.in[inner]}.dims();
    const size_t k = w.size(), l = x.size();
    return x[l - 1] == x[l - 2] && w[k - 1] == x[l - 1] && n.type.rank() >= 2 && n.type.dims.back() == w[k - 2];
  };
  const bool first = fits(0, 1), second = fits(1, 0);
  if (first == second)
    return n.fail(Code::BadShape, first ? "which operand is w is ambiguous: both are square" : "the sizes do not fit"), ValueId();
  const Term w{&n.b, n.in[first ? 0 : 1]}, x{&n.b, n.in[first ? 1 : 0]};
  return matmul(matmul(w, x), w, false, true).v;
}

}  // namespace

std::span<const ReferenceRow> reference_matrix_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"Cholesky", cholesky},
      {"Qr", qr},
      {"Svd", svd},
      {"Eigh", eigh},
      {"EighBatch", eigh},
      {"BiMap", bi_map},
      {"ReEig", re_eig},
      {"LogEig", log_eig},
      {"SpdMatrixFnBatch", matrix_function},
      {"SpdLogMap", spd_map<log_of>},
      {"SpdExpMap", spd_map<exp_of>},
      {"SpdKarcherMean", karcher_mean<false>},
      {"SpdKarcherMeanWeighted", karcher_mean<true>},
  };
  return kRows;
}

}  // namespace rlxc::import_json
