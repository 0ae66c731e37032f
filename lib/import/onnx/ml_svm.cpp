// Support vector machines as matmuls. Multi-class probabilities come from pairwise ones by the iteration of Wu, Lin and Weng
// (2004), as in libsvm.
#include <algorithm>
#include <array>
#include <cmath>

#include "import/onnx/handlers.h"
#include "import/onnx/ml.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr DType kReal = DType::F32;
constexpr int64_t kMaxClasses = 64;  // for probabilities: the steps of an iteration are unrolled

ValueId matrix(Op& op, const std::vector<double>& values, int64_t rows) {
  return op.b.reshape(real_vector(op, kReal, values), {Dim(rows), Dim(static_cast<int64_t>(values.size()) / rows)});
}

// Returns the kernel function of each row of x and each vector: [rows, vectors].
ValueId kernel(Op& op, ValueId x, ValueId vectors) {
  Builder& b = op.b;
  if (!x.valid() || !vectors.valid()) return {};
  const auto real = [&](double v) { return b.scalar(kReal, v); };
  auto p = op.floats("kernel_params");
  p.resize(3);
  const std::string_view name = op.s("kernel_type", "LINEAR");
  const Dim rows = op.graph().dims(x)[0], features = op.graph().dims(x)[1], n = op.graph().dims(vectors)[0];
  if (name == "RBF") {
    const ValueId d = b.sub(b.reshape(x, {rows, Dim(1), features}), b.reshape(vectors, {Dim(1), n, features}));
    return b.unary(OpKind::Exp, b.mul(b.reduce(ReduceOp::Sum, b.mul(d, d), {2}, false), real(-p[0])));
  }
  const ValueId dot = b.matmul(x, vectors, false, true);
  if (name == "LINEAR") return dot;
  const ValueId shifted = b.add(b.mul(dot, real(p[0])), real(p[1]));
  if (name == "POLY") return b.create(OpKind::Pow, {shifted, real(std::trunc(p[2]))});
  if (name == "SIGMOID") return b.unary(OpKind::Tanh, shifted);
  return op.fail(Code::BadAttribute, "kernel_type " + quote(name) + " is unknown"), ValueId();
}

// One iteration for probabilities p [rows,k] of the quadratic form q [rows,k,k]. Converged rows are unchanged.
std::array<ValueId, 2> improved(Builder& b, ValueId p, ValueId q, Dim rows, int64_t k) {
  const auto real = [&](double v) { return b.scalar(kReal, v); };
  const ValueId column = b.reshape(p, {rows, Dim(k), Dim(1)});
  ValueId qp = b.reshape(b.matmul(q, column), {rows, Dim(k)});
  ValueId pqp = b.reduce(ReduceOp::Sum, b.mul(p, qp), {1}, true);
  const ValueId error = b.reduce(ReduceOp::Max, b.unary(OpKind::Abs, b.sub(qp, pqp)), {1}, true);
  const ValueId going = b.create(OpKind::Ge, {error, real(0.005 / static_cast<double>(k))});
  ValueId next = p;
  for (int64_t t = 0; t < k; ++t) {
    const ValueId row = b.reshape(b.narrow(q, 1, Dim(t), Dim(1)), {rows, Dim(k)}), diagonal = b.narrow(row, 1, Dim(t), Dim(1)),
                  at = b.narrow(qp, 1, Dim(t), Dim(1));
    const ValueId step = b.div(b.sub(pqp, at), diagonal), scale = b.add(step, real(1));
    std::vector<double> one(static_cast<size_t>(k), 0);
    one[static_cast<size_t>(t)] = 1;
    std::vector<float> unit(one.begin(), one.end());
    next = b.div(b.add(next, b.mul(step, b.constant(make_data(kReal, {1, k}, unit)))), scale);
    pqp = b.div(b.add(pqp, b.mul(step, b.add(b.mul(step, diagonal), b.mul(at, real(2))))), b.mul(scale, scale));
    qp = b.div(b.add(qp, b.mul(step, row)), scale);
  }
  return {b.create(OpKind::Where, {going, next, p}), going};
}

// Returns the probabilities of k classes from pairwise ones, r [rows, k, k] with r[i][j] = P(i | i or j).
ValueId coupled(Op& op, ValueId r, Dim rows, int64_t k) {
  Builder& b = op.b;
  std::vector<float> eye(static_cast<size_t>(k * k), 0);
  for (int64_t i = 0; i < k; ++i) eye[static_cast<size_t>(i * k + i)] = 1;
  // q[t][t] = sum of r[j][t]^2 over j != t, q[t][j] = -r[j][t] r[t][j]; r has a zero diagonal.
  const ValueId flipped = b.transpose(r, {0, 2, 1});
  const ValueId squares = b.reduce(ReduceOp::Sum, b.mul(flipped, flipped), {2}, true);
  const ValueId q = b.sub(b.mul(b.constant(make_data(kReal, {1, k, k}, eye)), squares), b.mul(r, flipped));
  const ValueId start = b.expand(b.scalar(kReal, 1.0 / static_cast<double>(k)), {rows, Dim(k)});
  if (!q.valid() || !start.valid()) return {};
  Graph& g = op.im.module().graph(op.im.module().make_graph(std::string(op.node().name) + ".step"));
  Builder body(g, &op.im.pending());
  body.input("i", tensor_type(DType::I64, {}));
  body.input("go", tensor_type(DType::Bool, {}));
  const ValueId p = body.input("p", op.graph().type(start)), q_in = body.input("q", op.graph().type(q));
  const auto [next, going] = improved(body, p, q_in, rows, k);
  if (!next.valid()) return {};
  g.set_outputs(
      std::array{body.cast(body.reduce(ReduceOp::Max, body.cast(going, DType::I32), {0, 1}, false), DType::Bool), next});
  const std::array operands{b.scalar(DType::I64, static_cast<double>(std::max<int64_t>(100, k))), ValueId(), start, q};
  const NodeId n = b.create_node(OpKind::Loop, operands, LoopAttrs{1}, std::array{g.id()});
  return n.valid() ? op.graph().result(n) : ValueId();
}

struct Pairs {
  int64_t classes;
  std::vector<double> weights;  // [vectors, pairs]
  std::vector<std::pair<int64_t, int64_t>> list;
};

// Each pair of classes i < j is separated by the vectors of both: class i uses coefficients [j-1] of its vectors, class j
// coefficients [i].
std::optional<Pairs> pairs_of(Op& op, const std::vector<int64_t>& per_class, int64_t vectors) {
  const auto coefficients = op.floats("coefficients");
  Pairs p{static_cast<int64_t>(per_class.size()), {}, {}};
  if (p.classes > 4096 || static_cast<int64_t>(coefficients.size()) != (p.classes - 1) * vectors)
    return op.fail(Code::BadAttribute, "the coefficients do not fit the support vectors and classes"), std::nullopt;
  for (int64_t i = 0; i < p.classes; ++i)
    for (int64_t j = i + 1; j < p.classes; ++j) p.list.emplace_back(i, j);
  int64_t v = 0;
  for (int64_t c = 0; c < p.classes; ++c)
    for (int64_t k = 0; k < per_class[static_cast<size_t>(c)]; ++k, ++v)
      for (const auto& [i, j] : p.list) {
        const int64_t row = c == i ? j - 1 : c == j ? i : -1;
        p.weights.push_back(row < 0 ? 0 : coefficients[static_cast<size_t>(row * vectors + v)]);
      }
  return p;
}

// Returns one-hot rows: the first or second class of each pair.
ValueId members(Op& op, const Pairs& p, bool first) {
  std::vector<double> m;
  for (const auto& [i, j] : p.list)
    for (int64_t c = 0; c < p.classes; ++c) m.push_back(c == (first ? i : j));
  return matrix(op, m, static_cast<int64_t>(p.list.size()));
}

ValueId probabilities(Op& op, ValueId scores, const Pairs& p) {
  Builder& b = op.b;
  const auto slope = op.floats("prob_a"), offset = op.floats("prob_b");
  if (slope.size() != p.list.size() || offset.size() != p.list.size())
    return op.fail(Code::BadAttribute, "prob_a and prob_b need an entry for each pair of classes"), ValueId();
  if (p.classes > kMaxClasses || !scores.valid()) return op.unsupported("probabilities of that many classes"), ValueId();
  const ValueId z = b.add(b.mul(scores, real_vector(op, kReal, slope)), real_vector(op, kReal, offset));
  const ValueId first = b.create(OpKind::Clamp, {b.unary(OpKind::Sigmoid, b.unary(OpKind::Neg, z))}, ClampAttrs{1e-7, 1 - 1e-7}),
                second = b.sub(b.scalar(kReal, 1), first);
  // r[i][j] and r[j][i] of each pair, placed by products with 0/1 matrices.
  std::vector<double> upper(p.list.size() * static_cast<size_t>(p.classes * p.classes), 0), lower = upper;
  for (size_t e = 0; e < p.list.size(); ++e) {
    const auto [i, j] = p.list[e];
    upper[e * static_cast<size_t>(p.classes * p.classes) + static_cast<size_t>(i * p.classes + j)] = 1;
    lower[e * static_cast<size_t>(p.classes * p.classes) + static_cast<size_t>(j * p.classes + i)] = 1;
  }
  const auto pairs = static_cast<int64_t>(p.list.size());
  const Dim rows = op.graph().dims(scores)[0];
  const ValueId r = b.add(b.matmul(first, matrix(op, upper, pairs)), b.matmul(second, matrix(op, lower, pairs)));
  return coupled(op, b.reshape(r, {rows, Dim(p.classes), Dim(p.classes)}), rows, p.classes);
}

// Returns the offsets of the sums; zeros if absent.
std::vector<double> rho_of(Op& op, size_t n) {
  auto rho = op.floats("rho");
  if (rho.empty()) rho.resize(n);
  return rho;
}

}  // namespace

void svm_regressor(Op& op) {
  const auto coefficients = op.floats("coefficients"), vectors = op.floats("support_vectors");
  const auto rho = rho_of(op, 1);
  const int64_t n = op.i("n_supports", 0);
  if (coefficients.empty() || n < 0 ||
      (n > 0 && (static_cast<int64_t>(coefficients.size()) != n || vectors.size() % static_cast<size_t>(n) != 0)))
    return (void)op.fail(Code::BadAttribute, "coefficients, support vectors and rho do not fit each other");
  const ValueId x = as_rows(op);
  const ValueId w = matrix(op, coefficients, 1);
  ValueId y = n > 0 ? op.b.matmul(kernel(op, x, matrix(op, vectors, n)), w, false, true) : op.b.matmul(x, w, false, true);
  y = op.b.add(y, op.b.scalar(kReal, rho[0]));
  if (op.i("one_class", 0) != 0)
    y = op.b.create(OpKind::Where,
                    {op.b.create(OpKind::Gt, {y, op.b.scalar(kReal, 0)}), op.b.scalar(kReal, 1), op.b.scalar(kReal, -1)});
  op.set(0, post_transform(op, y));
}

void svm_classifier(Op& op) {
  const auto per_class = op.ints("vectors_per_class");
  const auto vectors = op.floats("support_vectors");
  const auto labels = static_cast<int64_t>(class_count(op));
  int64_t n = 0;
  for (int64_t k : per_class) n = k < 0 || k > 1 << 24 ? int64_t{1} << 40 : n + k;
  if (labels < 2 || n >= int64_t{1} << 40)
    return (void)op.fail(Code::BadAttribute, "labels or vectors_per_class are missing or out of range");
  Builder& b = op.b;
  const ValueId x = as_rows(op);
  if (n == 0) {  // one linear score per class
    const auto coefficients = op.floats("coefficients");
    if (coefficients.empty() || coefficients.size() % static_cast<size_t>(labels) != 0)
      return (void)op.fail(Code::BadAttribute, "the coefficients do not fit the labels");
    const ValueId scores = b.add(b.matmul(x, matrix(op, coefficients, labels), false, true), b.scalar(kReal, rho_of(op, 1)[0]));
    op.set(0, class_labels(op, first_largest(op, scores)));
    return op.set(1, post_transform(op, scores));
  }
  if (static_cast<int64_t>(per_class.size()) != labels || vectors.empty() || vectors.size() % static_cast<size_t>(n) != 0)
    return (void)op.fail(Code::BadAttribute, "the support vectors do not fit the classes");
  const auto pairs = pairs_of(op, per_class, n);
  if (!pairs) return;
  const auto rho = rho_of(op, pairs->list.size());
  if (rho.size() != pairs->list.size()) return (void)op.fail(Code::BadAttribute, "rho needs an entry for each pair of classes");
  ValueId scores = b.matmul(kernel(op, x, matrix(op, vectors, n)), matrix(op, pairs->weights, n));
  scores = b.add(scores, real_vector(op, kReal, rho));
  const ValueId wins = b.cast(b.create(OpKind::Gt, {scores, b.scalar(kReal, 0)}), kReal);
  const ValueId votes =
      b.add(b.matmul(wins, members(op, *pairs, true)), b.matmul(b.sub(b.scalar(kReal, 1), wins), members(op, *pairs, false)));
  op.set(0, class_labels(op, first_largest(op, votes)));
  if (op.has_attr("prob_a")) scores = probabilities(op, scores, *pairs);
  else if (labels == 2) scores = b.concat(std::array{b.unary(OpKind::Neg, scores), scores}, 1);
  op.set(1, post_transform(op, scores));
}

}  // namespace rlxc::onnx_import
