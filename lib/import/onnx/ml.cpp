// Numeric operators of ai.onnx.ml: classical models as tensor arithmetic.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

ValueId vector_of(Op& op, const std::vector<double>& values) {
  std::vector<float> data(values.begin(), values.end());
  return op.im.materialise(op.im.constant(make_data(DType::F32, {static_cast<int64_t>(data.size())}, data)));
}

ValueId as_rows(Op& op) {  // f32 [rows, features]
  const ValueId x = op.b.cast(op.in(0), DType::F32);
  return op.rank(0) == 1 ? op.b.reshape(x, {Dim(1), op.sizes(0)[0]}) : x;
}

// The transform that classifiers and regressors apply to their scores [rows, n].
ValueId post_transform(Op& op, ValueId scores) {
  const std::string_view name = op.s("post_transform", "NONE");
  if (name == "NONE") return scores;
  if (name == "LOGISTIC") return op.b.unary(OpKind::Sigmoid, scores);
  if (name == "SOFTMAX") return op.b.create(OpKind::Softmax, {scores}, AxisAttrs{1});
  op.unsupported("post_transform " + std::string(name));
  return {};
}

// x [rows, features] times coefficients [n, features] plus intercepts [n].
ValueId linear(Op& op, const std::vector<double>& coefficients, int64_t n) {
  const auto intercepts = op.floats("intercepts");
  if (n < 1 || coefficients.empty() || static_cast<int64_t>(coefficients.size()) % n != 0)
    return op.fail(Code::BadAttribute, "the coefficients do not fit the number of results"), ValueId();
  const ValueId w = op.b.reshape(vector_of(op, coefficients), {Dim(n), Dim(static_cast<int64_t>(coefficients.size()) / n)});
  const ValueId y = op.b.matmul(as_rows(op), w, false, true);
  return intercepts.empty() ? y : op.b.add(y, vector_of(op, intercepts));
}

}  // namespace

void array_feature_extractor(Op& op) {
  if (op.rank(0) < 1) return (void)op.fail(Code::BadShape, "needs an axis: " + op.show(0));
  const ValueId index = op.b.reshape(op.in(1), {op.dims().product(op.sizes(1))});
  ValueId y = op.b.create(OpKind::Gather, {op.in(0), index}, AxisAttrs{op.rank(0) - 1});
  if (op.rank(0) == 1 && y.valid()) y = op.b.reshape(y, {Dim(1), op.dims().product(op.sizes(1))});
  op.set(0, y);
}

void binarizer(Op& op) {
  const DType t = op.dtype(0);
  op.set(0, op.b.cast(op.b.create(OpKind::Gt, {op.in(0), op.b.scalar(t, op.f("threshold", 0))}), t));
}

void scaler(Op& op) {  // (x - offset) * scale
  ValueId x = op.b.cast(op.in(0), DType::F32);
  if (const auto offset = op.floats("offset"); !offset.empty()) x = op.b.sub(x, vector_of(op, offset));
  if (const auto scale = op.floats("scale"); !scale.empty()) x = op.b.mul(x, vector_of(op, scale));
  op.set(0, x);
}

void normalizer(Op& op) {
  const ValueId x = op.b.cast(op.in(0), DType::F32);
  const std::string_view norm = op.s("norm", "MAX");
  const int64_t axis = op.rank(0) - 1;
  if (axis < 0) return (void)op.fail(Code::BadShape, "needs an axis: " + op.show(0));
  if (norm != "MAX" && norm != "L1" && norm != "L2") return (void)op.fail(Code::BadAttribute, "norm must be MAX, L1 or L2");
  const ValueId size = op.b.reduce(norm == "MAX" ? ReduceOp::Max : norm == "L1" ? ReduceOp::L1 : ReduceOp::L2, x, {axis}, true);
  const ValueId zero = op.b.scalar(DType::F32, 0);
  op.set(0, op.b.create(OpKind::Where, {op.b.create(OpKind::Eq, {size, zero}), x, op.b.div(x, size)}));
}

void linear_regressor(Op& op) { op.set(0, post_transform(op, linear(op, op.floats("coefficients"), op.i("targets", 1)))); }

// Scores of every class and the label of the largest (integer labels).
void linear_classifier(Op& op) {
  const auto labels = op.ints("classlabels_ints");
  if (labels.empty()) return (void)op.unsupported("labels that are strings");
  const auto coefficients = op.floats("coefficients");
  const size_t intercepts = std::max<size_t>(op.floats("intercepts").size(), 1);
  if (labels.size() < 2 || (intercepts != labels.size() && !(labels.size() == 2 && intercepts == 1)))
    return (void)op.fail(Code::BadAttribute, "labels and intercepts do not fit each other");
  ValueId scores = linear(op, coefficients, static_cast<int64_t>(intercepts));
  if (intercepts == 1) scores = op.b.concat(std::array{op.b.unary(OpKind::Neg, scores), scores}, 1);
  const ValueId best = op.b.create(OpKind::ArgReduce, {scores}, ArgAttrs{1, true, false, false});
  op.set(0, op.b.create(OpKind::Gather, {op.b.ints(labels), best}, AxisAttrs{0}));
  op.set(1, post_transform(op, scores));
}

void imputer(Op& op) {
  const DType t = op.dtype(0);
  const bool floats = is_float(t);
  ValueId missing, fill;
  if (floats) {
    const double replaced = op.f("replaced_value_float", 0);
    missing = std::isnan(replaced) ? op.b.unary(OpKind::IsNan, op.in(0))
                                   : op.b.create(OpKind::Eq, {op.in(0), op.b.scalar(t, replaced)});
    fill = op.b.cast(vector_of(op, op.floats("imputed_value_floats")), t);
  } else {
    missing = op.b.create(OpKind::Eq, {op.in(0), op.b.scalar(t, static_cast<double>(op.i("replaced_value_int64", 0)))});
    fill = op.b.cast(op.b.ints(op.ints("imputed_value_int64s")), t);
  }
  op.set(0, op.b.create(OpKind::Where, {missing, fill, op.in(0)}));
}

void feature_vectorizer(Op& op) {
  std::vector<ValueId> parts;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i) || op.rank(i) < 1 || op.rank(i) > 2)
      return (void)op.fail(Code::BadShape, "input " + std::to_string(i) + " needs one or two axes");
    ValueId v = op.b.cast(op.in(i), DType::F32);
    if (op.rank(i) == 1) v = op.b.reshape(v, {Dim(1), op.sizes(i)[0]});
    parts.push_back(v);
  }
  op.set(0, op.b.concat(parts, 1));
}

// All trees walk down one level a step: each row holds a node per tree, and the tables of the nodes are gathered. Leaves lead to
// themselves.
void tree_ensemble(Op& op) {
  const auto tree = op.ints("nodes_treeids"), node = op.ints("nodes_nodeids"), feature = op.ints("nodes_featureids"),
             yes = op.ints("nodes_truenodeids"), no = op.ints("nodes_falsenodeids");
  const auto value = op.floats("nodes_values");
  const auto* modes = op.node().attribute("nodes_modes");
  const auto target_tree = op.ints("target_treeids"), target_node = op.ints("target_nodeids"), target = op.ints("target_ids");
  const auto weight = op.floats("target_weights"), base = op.floats("base_values");
  const int64_t targets = op.i("n_targets", 1);
  const std::string_view aggregate = op.s("aggregate_function", "SUM");
  const size_t n = node.size();
  const auto mode = modes ? modes->strings() : std::vector<std::string_view>();
  if (n == 0 || tree.size() != n || feature.size() != n || yes.size() != n || no.size() != n || value.size() != n ||
      mode.size() != n || targets < 1 || targets > 1 << 16 || target_node.size() != target_tree.size() ||
      target.size() != target_tree.size() || weight.size() != target_tree.size())
    return (void)op.fail(Code::BadAttribute, "the lists of nodes have different lengths");
  if (aggregate != "SUM" && aggregate != "AVERAGE") return (void)op.unsupported("aggregate_function " + std::string(aggregate));
  std::map<std::pair<int64_t, int64_t>, int64_t> index;
  std::vector<int64_t> roots, left(n), right(n), features(n);
  for (size_t i = 0; i < n; ++i) {
    if (!index.emplace(std::pair{tree[i], node[i]}, static_cast<int64_t>(i)).second)
      return (void)op.fail(Code::BadAttribute, "a node is listed twice");
    if (roots.empty() || tree[static_cast<size_t>(roots.back())] != tree[i]) roots.push_back(static_cast<int64_t>(i));
  }
  std::vector<float> thresholds(n), weights(n * static_cast<size_t>(targets), 0);
  std::string_view rule;
  for (size_t i = 0; i < n; ++i) {
    left[i] = right[i] = static_cast<int64_t>(i);
    if (mode[i] == "LEAF") continue;
    if (!rule.empty() && mode[i] != rule) return (void)op.unsupported("trees with several modes of comparison");
    rule = mode[i];
    const auto a = index.find({tree[i], yes[i]}), b = index.find({tree[i], no[i]});
    if (a == index.end() || b == index.end() || feature[i] < 0)
      return (void)op.fail(Code::BadAttribute,
                           "node " + std::to_string(node[i]) + " of tree " + std::to_string(tree[i]) + " leads nowhere");
    left[i] = a->second, right[i] = b->second, features[i] = feature[i], thresholds[i] = static_cast<float>(value[i]);
  }
  for (size_t i = 0; i < target.size(); ++i) {
    const auto at = index.find({target_tree[i], target_node[i]});
    if (at == index.end() || target[i] < 0 || target[i] >= targets)
      return (void)op.fail(Code::BadAttribute, "a target refers to no leaf");
    weights[static_cast<size_t>(at->second * targets + target[i])] += static_cast<float>(weight[i]);
  }
  // Depth: levels until no root's tree moves any more; a cycle would never end.
  std::vector<int64_t> level = roots;
  size_t depth = 0;
  for (bool moved = true; moved; ++depth) {
    if (depth > 1024) return (void)op.fail(Code::BadAttribute, "the trees have a cycle, or are deeper than 1024");
    moved = false;
    std::vector<int64_t> next;
    for (int64_t i : level)
      if (left[static_cast<size_t>(i)] != i)
        next.push_back(left[static_cast<size_t>(i)]), next.push_back(right[static_cast<size_t>(i)]), moved = true;
    if (next.size() > n) return (void)op.fail(Code::BadAttribute, "a node has several parents");
    level = std::move(next);
  }
  Builder& b = op.b;
  const ValueId x = as_rows(op);
  if (!x.valid()) return;
  const std::map<std::string_view, OpKind> kinds{{"BRANCH_LEQ", OpKind::Le}, {"BRANCH_LT", OpKind::Lt},
                                                 {"BRANCH_GTE", OpKind::Ge}, {"BRANCH_GT", OpKind::Gt},
                                                 {"BRANCH_EQ", OpKind::Eq},  {"BRANCH_NEQ", OpKind::Ne}};
  const auto compare = rule.empty() ? kinds.begin() : kinds.find(rule);
  if (compare == kinds.end()) return (void)op.unsupported("node mode " + quote(rule));
  const Dim rows = op.graph().dims(x)[0], trees(static_cast<int64_t>(roots.size()));
  const ValueId lefts = b.ints(left), rights = b.ints(right), chosen = b.ints(features);
  const ValueId cut = b.reshape(vector_of(op, {thresholds.begin(), thresholds.end()}), {Dim(static_cast<int64_t>(n))});
  const auto look = [&](ValueId table, ValueId at) { return b.create(OpKind::Gather, {table, at}, AxisAttrs{0}); };
  ValueId at = b.expand(b.reshape(b.ints(roots), {Dim(1), trees}), {rows, trees});
  for (size_t i = 0; i + 1 < depth; ++i) {
    const ValueId v = b.create(OpKind::GatherElements, {x, look(chosen, at)}, AxisAttrs{1});
    at = b.create(OpKind::Where, {b.create(compare->second, {v, look(cut, at)}), look(lefts, at), look(rights, at)});
  }
  const ValueId table = b.reshape(vector_of(op, {weights.begin(), weights.end()}), {Dim(static_cast<int64_t>(n)), Dim(targets)});
  ValueId y = b.reduce(aggregate == "SUM" ? ReduceOp::Sum : ReduceOp::Mean, look(table, at), {1}, false);
  if (!base.empty()) y = b.add(y, vector_of(op, base));
  op.set(0, post_transform(op, y));
}

}  // namespace rlxc::onnx_import
