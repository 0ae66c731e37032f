#include "import/compose/factor.h"

#include "import/compose/repeat.h"
#include "import/compose/solve.h"

namespace rlxc::compose {
namespace {

using transform::count_up, transform::make;

Term pick(Term x, Term i, int64_t axis) { return make(OpKind::Gather, {x, i}, AxisAttrs{axis}); }
Term column(Term v) { return reshape(v, {v.dims()[0], v.dims()[1], Dim(1)}); }
Term row(Term v) { return reshape(v, {v.dims()[0], Dim(1), v.dims()[1]}); }
Term identity(Term like, Dim n) { return like.with(identity_matrix(*like.b, like.dtype(), n)); }
Term eye(Term like, Dim batch, Dim n) { return expand(identity(like, n), {batch, n, n}); }

// Jacobi rotations. The pairs of a round rotate simultaneously. In each round of a sweep every index has another partner.

constexpr int64_t kSweeps = 12;  // convergence is quadratic: six suffice for f32, ten for f64
struct Rounds {
  int64_t count = 0;
  std::vector<int64_t> partner;  // [count, n]; an index without a partner has itself
};
Rounds tournament(int64_t n) {
  const int64_t players = n + n % 2;
  Rounds r;
  r.count = std::max<int64_t>(players - 1, 1);
  for (int64_t round = 0; round < r.count; ++round)
    for (int64_t i = 0; i < n; ++i) {
      // Circle method: player players-1 is fixed, the others meet if their numbers add up to the round.
      int64_t j = i == players - 1 ? (round % 2 ? (round + players - 1) / 2 : round / 2)
                                   : ((round - i) % (players - 1) + players - 1) % (players - 1);
      if (j == i) j = players - 1;
      r.partner.push_back(n == 1 || j >= n ? i : j);
    }
  return r;
}

// Returns the rotations of a round: [[c, s], [-s, c]] per pair, which zero the inner products `off` of the pairs; `own` has the
// squared norms. `pairs` [n,n] is 1 for partners. `first` is 1 for the lower index of a pair, -1 for the other.
Term rotation(Term own, Term other, Term off, Term pairs, Term first, Term alone) {
  const Term theta = (other - own) / (select(transform::equal(off, 0.0), 1.0, off) * 2);
  const Term side = select(transform::equal(theta, 0.0), first + theta, sign(theta));
  const Term turned = side / (abs(theta) + sqrt(square(theta) + 1));
  const Term t = select(transform::equal(off, 0.0), 0.0, select(alone, 0.0, turned)), c = rsqrt(square(t) + 1);
  return identity(own, own.dims()[1]) * row(c) + pairs * column(c * t);
}

// One-sided Jacobi: rotates the columns of w until the pairs are orthogonal under `products`. products(w, v) returns squared
// norms and inner products with the partner. v accumulates the rotations.
template <class Products, class Apply>
std::vector<Term> jacobi(Term start, int64_t n, Products products, Apply apply) {
  const Dim batch = start.dims()[0];
  const Rounds rounds = tournament(n);
  Builder& b = *start.b;
  return repeat(
      b, "jacobi", Dim(rounds.count * kSweeps), {start, eye(start, batch, Dim(n))}, [&](Term i, const std::vector<Term>& x) {
        Builder& in = *i.b;
        const Term table = i.with(in.constant(make_data(DType::I64, {rounds.count, n}, rounds.partner)));
        const Term partner = pick(table, make(OpKind::Mod, {i, i.number(static_cast<double>(rounds.count))}), 0);
        const Term index = count_up(in, Dim(n));
        const Term alone = transform::equal(partner, index);
        const Term pairs = x[0].with(in.cast(transform::equal(reshape(partner, {Dim(n), Dim(1)}), index).v, x[0].dtype()));
        const Term first = select(index < partner, x[0].number(1), x[0].number(-1));
        const auto [own, off] = products(x[0], pairs);
        const Term j = rotation(own, pick(own, partner, 1), off, pairs, first, alone);
        return std::vector{apply(x[0], j), matmul(x[1], j)};
      });
}

// Sorts the columns of `vectors` by `values`.
void sort(Term* values, std::vector<Term*> vectors, bool largest) {
  const Dim n = values->dims()[1];
  const NodeId made = values->b->create_node(OpKind::TopK, std::array{values->v}, TopKAttrs{n, 1, largest, true});
  if (!made.valid()) return *values = values->with({}), void();
  const Term order = row(values->with(values->b->graph().result(made, 1)));
  *values = values->with(values->b->graph().result(made));
  for (Term* v : vectors) *v = make(OpKind::GatherElements, {*v, expand(order, v->dims())}, AxisAttrs{2});
}

}  // namespace

Term cholesky(Term a) {
  const Dim n = a.dims()[1];
  const auto out =
      repeat(*a.b, "cholesky", n, {a, transform::zeros(*a.b, a.dtype(), a.dims())}, [&](Term i, const std::vector<Term>& x) {
        const Term index = count_up(*i.b, n), below = pick(x[0], i, 2);
        const Term l = select(index >= i, below / sqrt(pick(row(below), i, 2)), 0.0);
        return std::vector{x[0] - column(l) * row(l), select(transform::equal(index, i), column(l), x[1])};
      });
  return out.empty() ? a.with({}) : out[1];
}

QrFactors qr(Term a) {
  const Dim batch = a.dims()[0], m = a.dims()[1], n = a.dims()[2];
  const auto out = repeat(*a.b, "householder", n, {a, eye(a, batch, m)}, [&](Term i, const std::vector<Term>& x) {
    const Term index = count_up(*i.b, m), whole = pick(x[0], i, 2);
    const Term tail = select(index > i, whole, 0.0), rest = sum(square(tail), {1}), head = pick(row(whole), i, 2);
    const Term size = sqrt(rest + square(reshape(head, {batch, Dim(1)})));
    const Term side = select(reshape(head, {batch, Dim(1)}) < 0, size.number(-1), size.number(1));
    const Term v = select(transform::equal(index, i), reshape(head, {batch, Dim(1)}) + side * size, tail);
    const Term scale = select(transform::equal(rest, 0.0), 0.0, 2 / sum(square(v), {1}));
    const Term w = column(v * scale);
    return std::vector{x[0] - matmul(w, matmul(row(v), x[0])), x[1] - matmul(matmul(x[1], w), row(v))};
  });
  if (out.empty()) return {a.with({}), a.with({})};
  return {narrow(out[1], 2, Dim(0), n), make(OpKind::Trilu, {narrow(out[0], 1, Dim(0), n)}, TriluAttrs{true, 0})};
}

Eigen eigh(Term a) {
  const Dim n = a.dims()[2];
  const auto diagonal = [n](Term x) { return sum(x * identity(x, n), {2}, false); };
  const auto out = jacobi(
      a, n.size(), [&](Term x, Term pairs) { return std::pair(diagonal(x), sum(x * pairs, {2}, false)); },
      [](Term x, Term j) { return matmul(j, matmul(x, j), true); });
  if (out.empty()) return {a.with({}), a.with({})};
  Eigen e{diagonal(out[0]), out[1]};
  sort(&e.values, {&e.vectors}, false);
  return e;
}

Singular svd(Term a) {
  const std::vector<Dim> d = a.dims();
  if (d[1].size() < d[2].size()) {
    const Singular other = svd(transpose(a, {0, 2, 1}));
    return {other.v, other.s, other.u};
  }
  const auto out = jacobi(
      a, d[2].size(),
      [](Term w, Term pairs) {
        return std::pair(sum(square(w), {1}, false), sum(w * matmul(w, pairs, false, true), {1}, false));
      },
      [](Term w, Term j) { return matmul(w, j); });
  if (out.empty()) return {a.with({}), a.with({}), a.with({})};
  Singular r{out[0], sqrt(sum(square(out[0]), {1}, false)), out[1]};
  r.u = r.u / row(select(transform::equal(r.s, 0.0), 1.0, r.s));
  sort(&r.s, {&r.u, &r.v}, true);
  return r;
}

}  // namespace rlxc::compose
