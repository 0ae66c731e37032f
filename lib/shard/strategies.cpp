#include "shard/strategies.h"

#include <algorithm>
#include <map>
#include <set>

namespace rlxc::shard {
namespace {

constexpr size_t kMaxWalk = 64;  // nodes between two matmuls of an MLP

bool is_product(OpKind op) { return op == OpKind::MatMul || op == OpKind::GroupedMatMul; }

// With the padding that the dim lacks, if each device gets a row of it.
DimSharding padded(const Shardings& s, ValueId v, size_t dim, DimSharding split) {
  const Dim size = s.graph().dims(v)[dim];
  const int64_t parts = s.mesh().group_size(split.axes);
  if (size.is_static() && size.size() >= parts) split.padding = padding_of(size.size(), parts);
  return split;
}

class TensorSplitter {
 public:
  TensorSplitter(const Graph& g, Shardings& s, size_t axis, Diagnostics& d)
      : g_(g), s_(s), split_{{axis}, 1}, parts_(s.mesh().axes[axis].size), d_(d), weight_(g.value_capacity()) {
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r) weight_[g.result(n, r).raw] = made_of_weights(n);
  }

  bool run() {
    for (NodeId n : g_.nodes()) {
      if (g_.op(n) == OpKind::Attention) attention(n);
      if (is_product(g_.op(n))) mlp(n);
    }
    vocabulary();
    s_.propagate(d_);
    for (NodeId n : g_.nodes()) rows(n);
    if (splits_ > 0) return true;
    d_.error(Code::BadSharding, "--parallel tensor finds nothing to split into " + std::to_string(parts_) + " parts", {},
             "--shard NAME=AXIS:DIM splits values by name");
    return false;
  }

 private:
  bool made_of_weights(NodeId n) const {
    if (has_trait(g_.op(n), kLeaf)) return is_weight(g_.op(n));
    return !has_trait(g_.op(n), kImpure | kSequenceOp | kBody) && !g_.operands(n).empty() &&
           std::ranges::all_of(g_.operands(n), [&](ValueId v) { return !v.valid() || weight_[v.raw]; });
  }
  bool multiplies_weight(NodeId n) const {
    return is_product(g_.op(n)) && weight_[g_.operand(n, 1).raw] && !weight_[g_.operand(n, 0).raw];
  }
  // Splits a dim, which is padded if need be.
  bool split_padded(ValueId v, size_t dim) { return split(v, dim, padded(s_, v, dim, split_)); }
  bool split(ValueId v, size_t dim, const DimSharding& s) {
    const bool done = s_.split(v, dim, s);
    splits_ += done;
    return done;
  }

  void attention(NodeId n) {
    const Rule& rule = s_.rule(n);
    bool done = false;
    for (size_t d = 0; d < rule.results[0].size() && !rule.counted.empty(); ++d)
      for (const DimFactor& f : rule.results[0][d])
        if (const int64_t heads = rule.factors[f.factor].size; f.factor == rule.counted[0] && heads >= parts_)
          done =
              split(g_.result(n), d, split_dim(rule, f, g_.dims(g_.result(n))[d], {split_.axes, 1, padding_of(heads, parts_)}));
    if (!done)
      d_.warning(Code::ShardingConflict, "it has fewer heads than " + std::to_string(parts_) + " devices; it stays whole",
                 "node " + g_.label(n).quoted() + " (attention)");
  }

  // Splits the terms of a product of weights with an elementwise function of such products.
  void mlp(NodeId n) {
    if (!multiplies_weight(n) || (g_.op(n) == OpKind::MatMul && g_.attrs<MatMulAttrs>(n).trans_a)) return;
    const ValueId x = g_.operand(n, 0);
    if (g_.rank(x) < 2 || is_product(g_.op(g_.def(x))) || !comes_from_products(x)) return;
    split_padded(x, static_cast<size_t>(g_.rank(x)) - 1);
  }
  bool comes_from_products(ValueId x) const {
    std::vector<ValueId> work{x};
    for (size_t head = 0; head < work.size(); ++head) {
      if (work.size() > kMaxWalk) return false;
      const ValueId v = work[head];
      const NodeId n = g_.def(v);
      if (weight_[v.raw] || multiplies_weight(n)) continue;
      const bool cuts = g_.op(n) == OpKind::Narrow && g_.attrs<NarrowAttrs>(n).axis == g_.rank(v) - 1;
      if (!has_trait(g_.op(n), kElementwise) && !cuts) return false;
      for (ValueId o : g_.operands(n))
        if (o.valid() && std::ranges::find(work, o) == work.end()) work.push_back(o);
    }
    return true;
  }

  // Splits the rows of a product whose terms are split, and by propagation those of norms and sums after it: each device then
  // keeps its rows of the partial sums alone (Korthikanti et al. 2022).
  void rows(NodeId n) {
    if (!multiplies_weight(n) || g_.rank(g_.result(n)) < 3) return;
    const ValueId x = g_.operand(n, 0);
    const DimSharding& terms = s_.of(x).back();
    if (terms.axes == split_.axes && terms.blocks == 1)
      split(g_.result(n), static_cast<size_t>(g_.rank(g_.result(n))) - 2, split_);
  }

  // Splits the rows of the largest embedding table, and the columns of the product with as many.
  void vocabulary() {
    Dim words(0);
    for (NodeId n : g_.nodes())
      if (const ValueId table = embedding(n); table.valid() && g_.dims(table)[0].size() > words.size()) words = g_.dims(table)[0];
    if (words.size() < parts_) return;
    for (NodeId n : g_.nodes()) {
      if (const ValueId table = embedding(n); table.valid() && g_.dims(table)[0] == words) split_padded(table, 0);
      if (!multiplies_weight(n) || g_.op(n) != OpKind::MatMul) continue;
      const ValueId y = g_.result(n);
      if (g_.rank(y) > 1 && g_.dims(y).back() == words) split_padded(y, static_cast<size_t>(g_.rank(y)) - 1);
    }
  }
  // The table of an embedding: a matrix whose rows a Gather selects.
  ValueId embedding(NodeId n) const {
    if (g_.op(n) != OpKind::Gather || g_.attrs<AxisAttrs>(n).axis != 0) return {};
    const ValueId table = g_.operand(n, 0);
    const bool fits = g_.rank(table) == 2 && g_.type(table).is_static() && is_float(g_.dtype(table));
    return fits && is_weight(g_.op(g_.def(table))) && !weight_[g_.operand(n, 1).raw] ? table : ValueId();
  }

  const Graph& g_;
  Shardings& s_;
  const DimSharding split_;
  const int64_t parts_;
  Diagnostics& d_;
  std::vector<bool> weight_;  // by value: computed from weights alone
  size_t splits_ = 0;
};

// Whether the input is a state of a step of training, which has its next value as an output.
bool is_trained_state(const Graph& g, const std::set<std::string, std::less<>>& outputs, ValueId v) {
  return g.value_name(v).valid() && outputs.contains("next:" + std::string(g.module().bytes(g.value_name(v))));
}

// Splits the moments of a step of training, and keeps the parameters whole: each device updates its part of a parameter, and all
// get the parts of the others (stage 1 of ZeRO, Rajbhandari et al. 2020). A moment is a state "KIND:PARAMETER".
void split_moments(const Graph& g, Shardings& s, size_t axis) {
  std::set<std::string, std::less<>> outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i) outputs.emplace(g.module().bytes(g.output_name(i)));
  std::map<std::string_view, ValueId> states;
  for (NodeId n : g.inputs())
    if (is_trained_state(g, outputs, g.result(n))) states.emplace(g.module().bytes(g.value_name(g.result(n))), g.result(n));
  for (const auto& [name, v] : states) {
    const auto parameter = states.find(name.substr(name.find(':') + 1));
    if (parameter == states.end() || parameter->second == v || !std::ranges::equal(g.dims(v), g.dims(parameter->second)))
      continue;
    s.keep_whole(parameter->second);
    for (size_t d = 0; d < static_cast<size_t>(g.rank(v)); ++d)
      if (s.split(v, d, {{axis}, 1})) break;
  }
}

bool split_batch(const Graph& g, Shardings& s, size_t axis, Diagnostics& d) {
  std::optional<Dim> batch;
  std::set<std::string, std::less<>> outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i) outputs.emplace(g.module().bytes(g.output_name(i)));
  for (NodeId n : g.inputs()) {
    const ValueId v = g.result(n);
    if (g.type(v).kind != TypeKind::Tensor || g.rank(v) == 0 || g.use_count(v) == 0 || is_trained_state(g, outputs, v)) continue;
    if (!batch) batch = g.dims(v)[0];
    if (g.dims(v)[0] != *batch) continue;
    if (s.split(v, 0, padded(s, v, 0, {{axis}, 1})) || s.of(v)[0].split()) continue;
    d.error(Code::BadSharding,
            "the batch of input " + g.module().text(g.value_name(v)).quoted() + " " + rlxc::text(g.type(v), g.module().dims) +
                " does not divide into " + std::to_string(s.mesh().axes[axis].size) + " parts",
            "--parallel data", batch->is_static() ? "" : "a symbolic batch needs --bind NAME=SIZE");
    return false;
  }
  if (!batch) d.error(Code::BadSharding, "--parallel data finds no input with a batch");
  split_moments(g, s, axis);
  return batch.has_value();
}

// Splits the matrices of experts by expert.
bool split_experts(const Graph& g, Shardings& s, size_t axis, Diagnostics& d) {
  size_t splits = 0;
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::GroupedMatMul) splits += s.split(g.operand(n, 1), 0, padded(s, g.operand(n, 1), 0, {{axis}, 1}));
  if (splits == 0)
    d.error(Code::BadSharding,
            "--parallel expert finds no experts to split into " + std::to_string(s.mesh().axes[axis].size) + " parts", {},
            "--shard NAME=AXIS:DIM splits values by name");
  return splits > 0;
}

}  // namespace

bool apply_strategy(const Graph& g, const AxisStrategy& a, Shardings& s, Diagnostics& d) {
  if (a.strategy == "tensor") return TensorSplitter(g, s, a.axis, d).run();
  return a.strategy == "data" ? split_batch(g, s, a.axis, d) : split_experts(g, s, a.axis, d);
}

}  // namespace rlxc::shard
