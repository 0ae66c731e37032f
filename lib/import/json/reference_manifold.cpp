// Layers of the reference vocabulary on symmetric positive definite matrices and their gradients: functions of the eigenvalues,
// and exponential, logarithm and transport under the affine-invariant metric (Pennec, Fillard, Ayache, A Riemannian Framework for
// Tensor Computing, 2006). Gradients of functions of a symmetric matrix use the Daleckii-Krein formula.
#include <algorithm>

#include "import/json/reference_matrix.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::concat, transform::Term;

// A function of eigenvalues and its derivative. Eigenvalues below `least` are clamped to it.
struct Spectral {
  Term (*f)(Term);
  Term (*slope)(Term);
  double least = 0;  // 0: no bound

  Term bounded(Term v) const { return least > 0 ? max(v, least) : v; }
  Term value(Term v) const { return f(bounded(v)); }
  Term derivative(Term v) const { return least > 0 ? select(v > least, slope(bounded(v)), 0.0) : slope(v); }
};
Term one_like(Term v) { return transform::make(OpKind::Expand, {v.number(1)}, DimsAttrs{v.dims(), false}); }
constexpr Spectral kLog{[](Term v) { return log(v); }, [](Term v) { return recip(v); }},
    kExp{[](Term v) { return exp(v); }, [](Term v) { return exp(v); }},
    kRoot{[](Term v) { return sqrt(v); }, [](Term v) { return rsqrt(v) * 0.5; }},
    kInverseRoot{[](Term v) { return rsqrt(v); }, [](Term v) { return rsqrt(v) / v * -0.5; }},
    kSelf{[](Term v) { return v; }, one_like};
Spectral above(Spectral s, double least) { return s.least = least, s; }

Term symmetric(Term x) { return (x + transposed(x)) * 0.5; }

// The eigendecomposition of a symmetric matrix [batch,n,n].
struct Decomposed {
  compose::Eigen e;

  explicit Decomposed(Term x) : e(compose::eigh(x)) {}
  Decomposed(Term values, Term vectors) : e{values, vectors} {}
  bool valid() const { return e.values.valid() && e.vectors.valid(); }
  Term of(const Spectral& s) const { return valid() ? restored(e.vectors, s.value(e.values)) : e.vectors.with({}); }

  // Daleckii-Krein: returns the gradient by the matrix, given the gradient g by f(matrix). Multiplies g in the eigenbasis by the
  // divided differences of f, or by its slope for nearly equal eigenvalues.
  Term back(const Spectral& s, Term g) const {
    if (!valid()) return g.with({});
    const auto d = e.values.dims();
    const auto column = [&](Term v) { return reshape(v, {d[0], d[1], Dim(1)}); };
    const auto row = [&](Term v) { return reshape(v, {d[0], Dim(1), d[1]}); };
    const Term v = e.values, f = s.value(v), slope = s.derivative(v), gap = column(v) - row(v);
    const double near = v.dtype() == DType::F64 ? 1e-6 : 1e-3;
    const Term equal = abs(gap) <= (abs(column(v)) + abs(row(v))) * near;
    const Term quotient = (column(f) - row(f)) / select(equal, 1.0, gap);
    const Term weight = select(equal, (column(slope) + row(slope)) * 0.5, quotient);
    const Term inner = matmul(matmul(e.vectors, symmetric(g), true), e.vectors) * weight;
    return matmul(matmul(e.vectors, inner), e.vectors, false, true);
  }
};

// Functions of one matrix.

// Packs f(matrix), the eigenvalues and the eigenvectors.
ValueId with_factors(Node& n, const Spectral& s) {
  const auto a = n.count(1, 1) ? reference_matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  const Decomposed x(a->x);
  return x.valid() ? a->whole(concat({flat_rows(x.of(s)), x.e.values, flat_rows(x.e.vectors)}, 1)).v : ValueId();
}
Spectral rectified(Node& n) { return above(kSelf, n.number("eps", 1e-4)); }
Spectral floored_log(Node& n) { return above(kLog, n.number("eps", 0)); }
template <Spectral (*kFunction)(Node&)>
ValueId layer(Node& n) {
  return with_factors(n, kFunction(n));
}

// Operands: the matrix, or its eigenvalues [n] and vectors, and the gradient of the result.
template <Spectral (*kFunction)(Node&)>
ValueId layer_backward(Node& n) {
  const bool factors = n.in.size() == 3;
  const auto g = n.count(2, 3) ? reference_matrices(n, factors ? 2 : 1, true, true) : std::nullopt;
  const auto x = g && !factors ? reference_matrices(n, 0, true, true) : std::nullopt;
  if (!g || (!x && !factors)) return {};
  const Dim rows = g->x.dims()[0];
  const auto shaped = [&](size_t i, std::vector<Dim> d) { return reshape(Term{&n.b, n.in[i]}, std::move(d)); };
  const Decomposed e = factors ? Decomposed(shaped(0, {rows, g->n}), shaped(1, {rows, g->n, g->n})) : Decomposed(x->x);
  return g->whole(e.back(kFunction(n), g->x)).v;
}

const Spectral* function_named(Node& n) {
  static constexpr std::pair<std::string_view, const Spectral*> kFunctions[] = {
      {"Logm", &kLog}, {"Expm", &kExp}, {"Sqrtm", &kRoot}, {"Invsqrtm", &kInverseRoot}};
  const std::string kind = n.word("kind");
  const auto row = std::ranges::find(kFunctions, kind, [](const auto& r) { return r.first; });
  if (row != std::end(kFunctions)) return row->second;
  return n.fail(Code::BadAttribute, "the function \"" + kind + "\" is unknown"), nullptr;
}
ValueId matrix_function(Node& n) {
  const Spectral* f = function_named(n);
  const auto a = f && n.count(1, 1) ? reference_matrices(n, 0, true, true) : std::nullopt;
  return a ? a->whole(Decomposed(a->x).of(*f)).v : ValueId();
}
ValueId matrix_function_backward(Node& n) {  // x, dy
  const Spectral* f = function_named(n);
  const auto a = f && n.count(2, 2) ? reference_matrices(n, 0, true, true) : std::nullopt;
  const auto g = a ? reference_matrices(n, 1, true, true) : std::nullopt;
  return g ? a->whole(Decomposed(a->x).back(*f, g->x)).v : ValueId();
}

// Tangent vectors at a point.

Term product(Term a, Term b, Term c) { return matmul(matmul(a, b), c); }

// A point with its square root and inverse square root.
struct Point {
  Decomposed e;
  Term root, inverse;

  explicit Point(Term p) : e(p), root(e.of(kRoot)), inverse(e.of(kInverseRoot)) {}
  Term moved(const Spectral& f, Term x) const { return product(root, Decomposed(product(inverse, x, inverse)).of(f), root); }
  Term back(Term by_root, Term by_inverse) const { return symmetric(e.back(kRoot, by_root) + e.back(kInverseRoot, by_inverse)); }
};

std::optional<std::vector<Matrices>> all_matrices(Node& n, size_t count) {
  std::vector<Matrices> out;
  if (!n.count(count, count)) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const auto a = reference_matrices(n, i, true, true);
    if (!a) return std::nullopt;
    out.push_back(*a);
  }
  return out;
}
// Stacks gradients [1,n,n] to [count,n,n].
ValueId stacked(Node& n, const std::vector<Term>& parts) { return reshape(concat(parts, 0), n.type.dims).v; }

// p^1/2 f(p^-1/2 x p^-1/2) p^1/2 for point p and x.
template <const Spectral& kFunction>
ValueId spd_map(Node& n) {
  const auto in = all_matrices(n, 2);
  if (!in) return {};
  const Matrices &p = (*in)[0], &x = (*in)[1];
  const Term y = Point(p.x).moved(kFunction, x.x);
  return p.outer.size() > x.outer.size() ? p.whole(y).v : x.whole(y).v;
}
template <const Spectral& kFunction>
ValueId spd_map_backward(Node& n) {  // p, x, dy
  const auto in = all_matrices(n, 3);
  if (!in) return {};
  const Term x = (*in)[1].x, g = symmetric((*in)[2].x);
  const Point p((*in)[0].x);
  const Decomposed inner(product(p.inverse, x, p.inverse));
  const Term gaf = product(g, p.root, inner.of(kFunction));
  const Term by_inner = inner.back(kFunction, product(p.root, g, p.root)), half = product(by_inner, p.inverse, x);
  return stacked(n, {p.back(gaf + transposed(gaf), half + transposed(half)), product(p.inverse, by_inner, p.inverse)});
}

// e v eᵀ with e = (to from^-1)^1/2 = a s w, where a = from^1/2, w = from^-1/2, s = (w to w)^1/2.
struct Transport {
  Point from;
  Decomposed inner;
  Term root, e;

  Transport(Term p, Term q)
      : from(p),
        inner(product(from.inverse, q, from.inverse)),
        root(inner.of(kRoot)),
        e(product(from.root, root, from.inverse)) {}
};
ValueId spd_transport(Node& n) {  // from, to, v
  const auto in = all_matrices(n, 3);
  if (!in) return {};
  const Term e = Transport((*in)[0].x, (*in)[1].x).e;
  return (*in)[2].whole(product(e, (*in)[2].x, transposed(e))).v;
}
ValueId spd_transport_backward(Node& n) {  // from, to, v, dy
  const auto in = all_matrices(n, 4);
  if (!in) return {};
  const Term q = (*in)[1].x, v = symmetric((*in)[2].x), g = symmetric((*in)[3].x);
  const Transport t((*in)[0].x, q);
  const Term by_e = product(g, t.e, v) * 2, a = t.from.root, w = t.from.inverse;
  const Term by_inner = t.inner.back(kRoot, product(a, by_e, w)), half = product(by_inner, w, q);
  const Term by_from = t.from.back(product(by_e, w, t.root), product(t.root, a, by_e) + half + transposed(half));
  return stacked(n, {by_from, product(w, by_inner, w), product(transposed(t.e), g, t.e)});
}

// Batches.

// The (weighted) Karcher mean of matrices [B,n,n], where the sum of tangent vectors is 0: gradient descent from the arithmetic
// mean.
template <bool kWeighted>
ValueId karcher_mean(Node& n) {
  const int64_t steps = n.integer("iters", 10);
  const auto a = n.count(kWeighted ? 2 : 1, kWeighted ? 2 : 1) ? reference_matrices(n, 0, true, true) : std::nullopt;
  if (!a) return {};
  if (a->outer.size() != 1 || steps < 1 || steps > 100)
    return n.fail(Code::BadShape, "needs matrices [batch,n,n] and 1 to 100 iterations"), ValueId();
  const Term weights = kWeighted ? reshape(Term{&n.b, n.in[1]}, {a->outer[0], Dim(1), Dim(1)}) : Term();
  const auto mean_of = [&](Term x) { return kWeighted ? sum(x * weights / sum(weights, {0}), {0}) : mean(x, {0}); };
  Term p = mean_of(a->x);
  for (int64_t i = 0; i < steps && p.valid(); ++i) p = Point(p).moved(kExp, mean_of(Point(p).moved(kLog, a->x)));
  return reshape(p, {a->m, a->n}).v;
}

// g^1/2 m^-1/2 x m^-1/2 g^1/2 for each x of a batch, with mean m and bias g.
struct BatchNorm {
  Decomposed bias;
  Term root, inverse;  // of g; of m

  BatchNorm(Node& n, Term m, Term g)
      : bias(g), root(bias.of(limited(n, kRoot))), inverse(Decomposed(m).of(limited(n, kInverseRoot))) {}
  static Spectral limited(Node& n, const Spectral& s) { return above(s, n.number("eps", 0)); }
};
ValueId spd_batch_norm(Node& n) {  // x, m, g
  const auto in = all_matrices(n, 3);
  if (!in) return {};
  const BatchNorm b(n, (*in)[1].x, (*in)[2].x);
  return (*in)[0].whole(product(b.root, product(b.inverse, (*in)[0].x, b.inverse), b.root)).v;
}
ValueId spd_batch_norm_backward_x(Node& n) {  // m, g, dy
  const auto in = all_matrices(n, 3);
  if (!in) return {};
  const BatchNorm b(n, (*in)[0].x, (*in)[1].x);
  return (*in)[2].whole(product(b.inverse, product(b.root, (*in)[2].x, b.root), b.inverse)).v;
}
ValueId spd_batch_norm_backward_bias(Node& n) {  // x, m, g, dy
  const auto in = all_matrices(n, 4);
  if (!in) return {};
  const BatchNorm b(n, (*in)[1].x, (*in)[2].x);
  const Term half = product((*in)[3].x, b.root, product(b.inverse, (*in)[0].x, b.inverse));
  return (*in)[2].whole(b.bias.back(BatchNorm::limited(n, kRoot), sum(half + transposed(half), {0}))).v;
}

// w x wᵀ. The dims determine which operand is w.
ValueId bi_map(Node& n) {
  if (!n.count(2, 2) || n.rank(0) < 2 || n.rank(1) < 2) return {};
  const auto fits = [&](size_t wide, size_t inner) {  // w [m,n] and x [n,n] give [m,m]
    const auto w = Term{&n.b, n.in[wide]}.dims(), x = Term{&n.b, n.in[inner]}.dims();
    const size_t k = w.size(), l = x.size();
    return x[l - 1] == x[l - 2] && w[k - 1] == x[l - 1] && n.type.rank() >= 2 && n.type.dims.back() == w[k - 2];
  };
  const bool first = fits(0, 1), second = fits(1, 0);
  if (!first && !second) return n.fail(Code::BadShape, "the sizes do not fit"), ValueId();
  const Term w{&n.b, n.in[first ? 0 : 1]}, x{&n.b, n.in[first ? 1 : 0]};  // w is first if both are square
  return matmul(matmul(w, x), w, false, true).v;
}

}  // namespace

std::span<const ReferenceRow> reference_manifold_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"BiMap", bi_map},
      {"ReEig", layer<rectified>},
      {"ReEigBackward", layer_backward<rectified>},
      {"LogEig", layer<floored_log>},
      {"LogEigBackward", layer_backward<floored_log>},
      {"SpdMatrixFnBatch", matrix_function},
      {"SpdMatrixFnBatchBackward", matrix_function_backward},
      {"SpdLogMap", spd_map<kLog>},
      {"SpdLogMapBackward", spd_map_backward<kLog>},
      {"SpdExpMap", spd_map<kExp>},
      {"SpdExpMapBackward", spd_map_backward<kExp>},
      {"SpdParallelTransport", spd_transport},
      {"SpdParallelTransportBackward", spd_transport_backward},
      {"SpdKarcherMean", karcher_mean<false>},
      {"SpdKarcherMeanWeighted", karcher_mean<true>},
      {"SpdBatchNorm", spd_batch_norm},
      {"SpdBatchNormBackwardX", spd_batch_norm_backward_x},
      {"SpdBatchNormBackwardG", spd_batch_norm_backward_bias},
  };
  return kRows;
}

}  // namespace rlxc::import_json
