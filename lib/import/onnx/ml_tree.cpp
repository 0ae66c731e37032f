// Tree ensembles as tensor arithmetic. All trees descend one level per step: each row has a current node per tree, and the node
// tables are gathered. Leaves link to themselves.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "import/onnx/handlers.h"
#include "import/onnx/ml.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr size_t kMaxWeights = size_t{1} << 28;
// In the order of TreeEnsemble-5's numbers, followed by set membership.
constexpr std::array<std::pair<std::string_view, OpKind>, 6> kModes = {{{"BRANCH_LEQ", OpKind::Le},
                                                                        {"BRANCH_LT", OpKind::Lt},
                                                                        {"BRANCH_GTE", OpKind::Ge},
                                                                        {"BRANCH_GT", OpKind::Gt},
                                                                        {"BRANCH_EQ", OpKind::Eq},
                                                                        {"BRANCH_NEQ", OpKind::Ne}}};
constexpr size_t kEqual = 4, kMember = 6;

enum class Aggregate { Average, Sum, Min, Max };

struct Trees {
  DType type = DType::F32;  // comparison type
  std::vector<int64_t> roots, yes, no, feature;
  std::vector<size_t> mode;  // index into kModes
  std::vector<double> threshold;
  std::vector<bool> nan_is_yes;
  int64_t targets = 1;
  struct Vote {
    int64_t node, target;
    double weight;
  };
  std::vector<Vote> votes;

  int64_t add(bool nan_yes = false) {
    const auto i = static_cast<int64_t>(yes.size());
    yes.push_back(i), no.push_back(i), feature.push_back(0), mode.push_back(0), threshold.push_back(0);
    nan_is_yes.push_back(nan_yes);
    return i;
  }
  bool leaf(size_t i) const { return yes[i] == static_cast<int64_t>(i) && no[i] == static_cast<int64_t>(i); }
};

// Returns the number of levels below the roots; nullopt for a cycle. Topological: a node is visited after all of its parents.
std::optional<size_t> depth_of(const Trees& t) {
  const size_t n = t.yes.size();
  std::vector<size_t> waiting(n, 0), depth(n, 0), ready;
  size_t deepest = 0, done = 0;
  for (size_t i = 0; i < n; ++i)
    if (!t.leaf(i)) ++waiting[static_cast<size_t>(t.yes[i])], ++waiting[static_cast<size_t>(t.no[i])];
  for (size_t i = 0; i < n; ++i)
    if (waiting[i] == 0) ready.push_back(i);
  while (!ready.empty()) {
    const size_t i = ready.back();
    ready.pop_back();
    ++done;
    deepest = std::max(deepest, depth[i]);
    if (t.leaf(i)) continue;
    for (int64_t child : {t.yes[i], t.no[i]}) {
      const auto c = static_cast<size_t>(child);
      depth[c] = std::max(depth[c], depth[i] + 1);
      if (--waiting[c] == 0) ready.push_back(c);
    }
  }
  return done == n ? std::optional(deepest) : std::nullopt;
}

// Returns the leaf of each tree for each row: i64 [rows, trees].
ValueId walk(Op& op, const Trees& t, ValueId x, size_t depth) {
  Builder& b = op.b;
  const Dim rows = op.graph().dims(x)[0], trees(static_cast<int64_t>(t.roots.size()));
  const auto look = [&](ValueId table, ValueId at) { return b.create(OpKind::Gather, {table, at}, AxisAttrs{0}); };
  const auto flags = [&](auto holds) {
    std::vector<uint8_t> v(t.yes.size());
    for (size_t i = 0; i < v.size(); ++i) v[i] = holds(i);
    return b.constant(make_data(DType::Bool, {static_cast<int64_t>(v.size())}, v));
  };
  std::map<size_t, ValueId> modes;  // by comparison in use, the nodes that use it
  for (size_t i = 0; i < t.mode.size(); ++i)
    if (!t.leaf(i)) modes.emplace(t.mode[i], ValueId());
  if (modes.size() > 1)
    for (auto& [mode, table] : modes) table = flags([&, m = mode](size_t i) { return t.mode[i] == m; });
  const bool any_nan = std::ranges::find(t.nan_is_yes, true) != t.nan_is_yes.end();
  const ValueId nan_table = any_nan ? flags([&](size_t i) { return t.nan_is_yes[i]; }) : ValueId();
  const ValueId yes = b.ints(t.yes), no = b.ints(t.no), feature = b.ints(t.feature), cut = real_vector(op, t.type, t.threshold);
  ValueId at = b.expand(b.reshape(b.ints(t.roots), {Dim(1), trees}), {rows, trees});
  for (size_t level = 0; level < depth; ++level) {
    const ValueId v = b.create(OpKind::GatherElements, {x, look(feature, at)}, AxisAttrs{1}), c = look(cut, at);
    ValueId holds;
    for (const auto& [mode, table] : modes) {
      ValueId one = b.create(kModes[mode].second, {v, c});
      if (table.valid()) one = b.create(OpKind::And, {one, look(table, at)});
      holds = holds.valid() ? b.create(OpKind::Or, {holds, one}) : one;
    }
    if (any_nan) holds = b.create(OpKind::Or, {holds, b.create(OpKind::And, {b.unary(OpKind::IsNan, v), look(nan_table, at)})});
    at = b.create(OpKind::Where, {holds, look(yes, at), look(no, at)});
  }
  return at;
}

// Returns the aggregated votes per target: [rows, targets]. Without votes, the minimum and maximum are the limits of the type.
ValueId scores(Op& op, const Trees& t, Aggregate how) {
  const auto depth = depth_of(t);
  const size_t n = t.yes.size();
  if (!depth) return op.fail(Code::BadAttribute, "the trees have a cycle"), ValueId();
  if (*depth > 1024) return op.unsupported("trees deeper than 1024"), ValueId();
  if (n > kMaxWeights / static_cast<size_t>(t.targets)) return op.unsupported("that many nodes and targets"), ValueId();
  const double limit = t.type == DType::F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  const double nothing = how == Aggregate::Min ? limit : how == Aggregate::Max ? -limit : 0;
  std::vector<double> weights(n * static_cast<size_t>(t.targets), nothing);
  for (const Trees::Vote& v : t.votes) {
    double& w = weights[static_cast<size_t>(v.node * t.targets + v.target)];
    if (how == Aggregate::Min) w = std::min(w, v.weight);
    else if (how == Aggregate::Max) w = std::max(w, v.weight);
    else w += v.weight;
  }
  Builder& b = op.b;
  const ValueId x = as_rows(op, t.type);
  if (!x.valid()) return {};
  const ValueId table = b.reshape(real_vector(op, t.type, weights), {Dim(static_cast<int64_t>(n)), Dim(t.targets)});
  static constexpr ReduceOp kReduce[] = {ReduceOp::Mean, ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max};
  return b.reduce(kReduce[static_cast<size_t>(how)], b.create(OpKind::Gather, {table, walk(op, t, x, *depth)}, AxisAttrs{0}), {1},
                  false);
}

std::optional<Aggregate> aggregate_named(Op& op) {
  static constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  size_t i = 0;
  if (!op.choose("aggregate_function", op.s("aggregate_function", "SUM"), kNames, &i)) return std::nullopt;
  return static_cast<Aggregate>(i);
}

// Reads numbers from floats or from a tensor of doubles.
std::vector<double> reals(Op& op, const std::string& name) {
  if (op.has_attr(name)) return op.floats(name);
  std::vector<double> out;
  if (const auto t = op.tensor_attribute(name + "_as_tensor"))
    for (int64_t i = 0; i < t->elements(); ++i) out.push_back(element_as_double(*t, i));
  return out;
}

// Reads the format of TreeEnsembleRegressor ("target") and TreeEnsembleClassifier ("class"): node lists with tree and node ids,
// including leaves.
std::optional<Trees> listed_trees(Op& op, const std::string& votes, int64_t targets) {
  const auto tree = op.ints("nodes_treeids"), node = op.ints("nodes_nodeids"), feature = op.ints("nodes_featureids"),
             yes = op.ints("nodes_truenodeids"), no = op.ints("nodes_falsenodeids"),
             nan = op.ints("nodes_missing_value_tracks_true");
  const auto value = reals(op, "nodes_values");
  const auto mode = op.strings("nodes_modes");
  const auto vote_tree = op.ints(votes + "_treeids"), vote_node = op.ints(votes + "_nodeids"), vote_for = op.ints(votes + "_ids");
  const auto weight = reals(op, votes + "_weights");
  const size_t n = node.size();
  const auto bad = [&](std::string message) { return op.fail(Code::BadAttribute, std::move(message)), std::nullopt; };
  if (n == 0 || tree.size() != n || feature.size() != n || yes.size() != n || no.size() != n || value.size() != n ||
      mode.size() != n || (!nan.empty() && nan.size() != n) || vote_node.size() != vote_tree.size() ||
      vote_for.size() != vote_tree.size() || weight.size() != vote_tree.size())
    return bad("the lists of nodes have different lengths");
  if (targets < 1 || targets > 1 << 16) return bad("the number of results is out of range");
  Trees t;
  t.targets = targets;
  if (op.dtype(0) == DType::F64) t.type = DType::F64;
  std::map<std::pair<int64_t, int64_t>, int64_t> index;
  for (size_t i = 0; i < n; ++i) {
    if (!index.emplace(std::pair{tree[i], node[i]}, t.add(!nan.empty() && nan[i] != 0)).second)
      return bad("a node is listed twice");
    if (i == 0 || tree[i - 1] != tree[i]) t.roots.push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < n; ++i) {
    if (mode[i] == "LEAF") continue;
    const auto kind = std::ranges::find(kModes, mode[i], [](const auto& m) { return m.first; });
    if (kind == kModes.end()) return bad("node mode " + quote(mode[i]) + " is unknown");
    const auto a = index.find({tree[i], yes[i]}), b = index.find({tree[i], no[i]});
    if (a == index.end() || b == index.end() || feature[i] < 0)
      return bad("node " + std::to_string(node[i]) + " of tree " + std::to_string(tree[i]) + " leads nowhere");
    t.yes[i] = a->second, t.no[i] = b->second, t.feature[i] = feature[i], t.threshold[i] = value[i];
    t.mode[i] = static_cast<size_t>(kind - kModes.begin());
  }
  for (size_t i = 0; i < vote_for.size(); ++i) {
    const auto at = index.find({vote_tree[i], vote_node[i]});
    if (at == index.end() || vote_for[i] < 0 || vote_for[i] >= targets) return bad("a weight refers to no leaf or to no result");
    t.votes.push_back({at->second, vote_for[i], weight[i]});
  }
  return t;
}

ValueId with_base(Op& op, ValueId y) {
  const auto base = reals(op, "base_values");
  return base.empty() || !y.valid() ? y : op.b.add(y, real_vector(op, op.graph().dtype(y), base));
}

}  // namespace

void tree_ensemble_regressor(Op& op) {
  const auto how = aggregate_named(op);
  const auto trees = how ? listed_trees(op, "target", op.i("n_targets", 1)) : std::nullopt;
  if (trees) op.set(0, post_transform(op, op.b.cast(with_base(op, scores(op, *trees, *how)), DType::F32)));
}

// With two labels and votes for the first one only, the votes are the score s of the second label (as in onnxruntime): the scores
// are 1-s and s if no weight is negative (s is a probability then), else -s and s.
void tree_ensemble_classifier(Op& op) {
  const size_t labels = class_count(op);
  const auto votes = op.ints("class_ids");
  const bool binary = labels == 2 && !votes.empty() && std::ranges::count(votes, 0) == std::ssize(votes);
  auto trees = listed_trees(op, "class", static_cast<int64_t>(labels));
  if (!trees) return;
  const auto base = reals(op, "base_values");
  if (binary) {
    trees->targets = 1;
    if (base.size() > 1) return (void)op.unsupported("several base values for votes of one class");
  }
  ValueId y = op.b.cast(with_base(op, scores(op, *trees, Aggregate::Sum)), DType::F32);
  if (binary) {
    const bool probability = std::ranges::all_of(trees->votes, [](const Trees::Vote& v) { return v.weight >= 0; }) &&
                             op.s("post_transform", "NONE") == "NONE";
    const ValueId other = probability ? op.b.sub(op.b.scalar(DType::F32, 1), y) : op.b.unary(OpKind::Neg, y);
    y = op.b.concat(std::array{other, y}, 1);
  }
  op.set(0, class_labels(op, first_largest(op, y)));
  op.set(1, post_transform(op, y));
}

// TreeEnsemble-5: separate lists of inner nodes and leaves, linked by index. A set membership node becomes a chain of
// comparisons.
void tree_ensemble(Op& op) {
  const auto feature = op.ints("nodes_featureids"), yes = op.ints("nodes_truenodeids"), no = op.ints("nodes_falsenodeids"),
             yes_leaf = op.ints("nodes_trueleafs"), no_leaf = op.ints("nodes_falseleafs"),
             leaf_target = op.ints("leaf_targetids"), roots = op.ints("tree_roots"),
             nan = op.ints("nodes_missing_value_tracks_true");
  const auto splits = op.tensor_attribute("nodes_splits"), modes = op.tensor_attribute("nodes_modes"),
             weights = op.tensor_attribute("leaf_weights"), members = op.tensor_attribute("membership_values");
  const auto bad = [&](std::string message) { return (void)op.fail(Code::BadAttribute, std::move(message)); };
  if (op.failed()) return;
  const size_t n = feature.size(), leaves = leaf_target.size();
  if (!splits || !modes || !weights || yes.size() != n || no.size() != n || yes_leaf.size() != n || no_leaf.size() != n ||
      static_cast<size_t>(splits->elements()) != n || static_cast<size_t>(modes->elements()) != n ||
      (!nan.empty() && nan.size() != n) || leaves == 0 || static_cast<size_t>(weights->elements()) != leaves)
    return bad("the lists of nodes or leaves have different lengths");
  const int64_t how = op.i("aggregate_function", 1), transform = op.i("post_transform", 0);
  static constexpr std::string_view kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  if (how < 0 || how > 3) return bad("aggregate_function must be 0 to 3");
  if (transform < 0 || transform >= std::ssize(kTransforms)) return bad("post_transform must be 0 to 4");
  Trees t;
  t.targets = op.i("n_targets", 1);
  if (t.targets < 1 || t.targets > 1 << 16) return bad("n_targets is out of range");
  if (op.dtype(0) == DType::F64) t.type = DType::F64;
  for (size_t i = 0; i < n; ++i) t.add(!nan.empty() && nan[i] != 0);
  for (size_t i = 0; i < leaves; ++i) {
    if (leaf_target[i] < 0 || leaf_target[i] >= t.targets) return bad("a leaf votes for no result");
    t.votes.push_back({t.add(), leaf_target[i], element_as_double(*weights, static_cast<int64_t>(i))});
  }
  const auto child = [&](int64_t at, int64_t is_leaf) {
    const bool fits = at >= 0 && at < static_cast<int64_t>(is_leaf ? leaves : n);
    return !fits ? int64_t{-1} : is_leaf ? static_cast<int64_t>(n) + at : at;
  };
  int64_t member = 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t a = child(yes[i], yes_leaf[i]), b = child(no[i], no_leaf[i]),
                  mode = element_as_int(*modes, static_cast<int64_t>(i));
    if (a < 0 || b < 0 || feature[i] < 0) return bad("node " + std::to_string(i) + " leads nowhere");
    if (mode < 0 || mode > static_cast<int64_t>(kMember)) return bad("node mode " + std::to_string(mode) + " is unknown");
    auto at = i;
    const auto set = [&](size_t kind, double threshold) {
      t.feature[at] = feature[i], t.mode[at] = kind, t.threshold[at] = threshold, t.yes[at] = a, t.no[at] = b;
    };
    if (static_cast<size_t>(mode) < kMember) {
      set(static_cast<size_t>(mode), element_as_double(*splits, static_cast<int64_t>(i)));
      continue;
    }
    bool first = true;
    for (;; ++member) {  // set members in node order, each set terminated by NaN
      if (!members || member >= members->elements()) return bad("the members of a set have no end");
      const double v = element_as_double(*members, member);
      if (std::isnan(v)) break;
      if (!first) {
        const int64_t next = t.add();
        t.no[at] = next;
        at = static_cast<size_t>(next);
      }
      set(kEqual, v);
      first = false;
    }
    ++member;
    if (first) return bad("a set is empty");
  }
  for (int64_t r : roots) {
    if (r < 0 || r >= static_cast<int64_t>(n)) return bad("a root is no node");
    t.roots.push_back(r);
  }
  if (t.roots.empty()) return bad("there are no trees");
  const ValueId y = post_transform(op, scores(op, t, static_cast<Aggregate>(how)), kTransforms[transform]);
  op.set(0, y.valid() ? op.b.cast(y, op.dtype(0)) : y);
}

}  // namespace rlxc::onnx_import
