#include "passes/recognise/expert_rows.h"

#include <algorithm>

#include "passes/match.h"

namespace rlxc {

using namespace match;

namespace {
constexpr size_t kMostNodes = 64;  // limit on nodes of one expert
}

ExpertRows::ExpertRows(Graph& g, NodeId root, const Routing& r, std::vector<Dim> rows_of)
    : g_(g), b_(g, nullptr, root), experts_(r.experts), rows_of_(std::move(rows_of)) {
  const auto d = g.dims(r.who);
  tokens_ = d[0], k_ = d[1], rows_ = b_.dims().mul(tokens_, k_);
  expert_ = b_.reshape(r.who, {rows_});
  if (g_.dtype(expert_) != DType::I32) expert_ = b_.cast(expert_, DType::I64);
}

ValueId ExpertRows::of(const Family& f) {
  if (const auto it = made_.find(f); it != made_.end()) return it->second;
  if (made_.size() >= kMostNodes) return {};
  return made_[f] = build(f);
}

std::optional<Dim> ExpertRows::width(const Family& f, size_t e) const {
  const auto d = g_.dims(f[e]);
  if (batched()) return d.size() == 3 && d[0] == Dim(experts_) ? std::optional(d[2]) : std::nullopt;
  if (d.size() == 1 && d[0] == rows_of_[e] && !d[0].is_static()) return Dim(1);
  DimTable& dims = g_.module().dims;
  const bool rows = d.size() >= 2 && dims.equal(dims.product(d.first(d.size() - 1)), rows_of_[e]);
  return rows ? std::optional(d.back()) : std::nullopt;
}

std::optional<Dim> ExpertRows::width(const Family& f) const {
  const auto first = width(f, 0);
  for (size_t e = 1; e < f.size(); ++e)
    if (width(f, e) != first) return std::nullopt;
  return first;
}

ValueId ExpertRows::repeated(ValueId v) {
  const Dim width = g_.dims(v).back();
  const ValueId token = b_.reshape(v, {tokens_, Dim(1), width});
  return b_.reshape(b_.expand(token, {tokens_, k_, width}), {rows_, width});
}

ValueId ExpertRows::summed(ValueId y, ValueId like) {
  const ValueId parts = b_.reshape(y, {tokens_, k_, g_.dims(y).back()});
  return b_.reshape(b_.reduce(ReduceOp::Sum, parts, {1}, false), {g_.dims(like).begin(), g_.dims(like).end()});
}

// Weights of all experts, stacked to [experts, sizes...].
ValueId ExpertRows::stacked(const Family& f, const std::vector<Dim>& sizes) {
  std::vector<Dim> all{Dim(experts_)};
  all.insert(all.end(), sizes.begin(), sizes.end());
  if (batched()) return num_elements(g_.type(f[0])) ? b_.reshape(f[0], all) : ValueId();
  all[0] = Dim(1);
  std::vector<ValueId> parts;
  for (ValueId v : f) parts.push_back(b_.reshape(v, all));
  return b_.concat(parts, 0);
}

bool ExpertRows::are_weights(const Family& f) const {
  return std::ranges::all_of(f, [&](ValueId v) { return is_weight(g_, v) && same_type(g_, v, f[0]); });
}

bool ExpertRows::per_expert(ValueId weight) const {
  const auto d = g_.dims(weight);
  if (batched()) return d.size() == 3 && d[0] == Dim(experts_) && d[1] == Dim(1);
  return d.size() == 1 || (d.size() == 2 && d[0] == Dim(1));
}

// An operand of an elementwise op: a scalar for all experts, a vector per expert, or rows.
ValueId ExpertRows::operand(const Family& f) {
  if (scalar(g_, f[0]) && std::ranges::all_of(f, [&](ValueId v) { return scalar(g_, v) == scalar(g_, f[0]); }))
    return b_.scalar(g_.dtype(f[0]), *scalar(g_, f[0]));
  if (!are_weights(f)) return of(f);
  if (!per_expert(f[0])) return {};
  return b_.create(OpKind::Gather, {stacked(f, {g_.dims(f[0]).back()}), expert_}, AxisAttrs{0});
}

ValueId ExpertRows::matmul(NodeId n, const Family& x, const Family& w) {
  const auto& a = g_.attrs<MatMulAttrs>(n);
  const auto d = g_.dims(w[0]);
  if (a.trans_a || !are_weights(w) || (batched() ? d.size() != 3 || d[0] != Dim(experts_) : d.size() != 2)) return {};
  const ValueId rows = of(x), all = stacked(w, {d[d.size() - 2], d.back()});
  const ValueId y = b_.create(OpKind::GroupedMatMul, {rows, all, expert_}, MatMulAttrs{false, a.trans_b});
  if (y.valid()) made.push_back(g_.def(y));
  return y;
}

// A slice of the columns.
ValueId ExpertRows::part(NodeId n, const Family& x) {
  Attrs attrs = g_.module().attrs[g_.attr_id(n)];
  int64_t& axis = g_.op(n) == OpKind::Narrow ? std::get<NarrowAttrs>(attrs).axis : std::get<SliceAttrs>(attrs).axis;
  if (axis + 1 != g_.rank(x[0])) return {};
  axis = 1;
  const ValueId rows = of(x);
  return rows.valid() ? b_.create(g_.op(n), {rows}, std::move(attrs)) : ValueId();
}

ValueId ExpertRows::build(const Family& f) {
  if (const ValueId v = leaf(f); v.valid() && !is_weight(g_, v)) return v;
  const NodeId n = g_.def(f[0]);
  const auto wide = width(f);
  const bool moves = g_.op(n) == OpKind::Reshape;
  if (!wide) return {};
  for (ValueId v : f) {
    const NodeId o = g_.def(v);
    if (g_.op(o) != g_.op(n) || (!moves && g_.attr_id(o) != g_.attr_id(n)) || g_.dtype(v) != g_.dtype(f[0]) ||
        g_.operands(o).size() != g_.operands(n).size())
      return {};
    dense.push_back(o);
  }
  const auto operands = [&](size_t i) {
    Family all;
    for (ValueId v : f) all.push_back(g_.operand(g_.def(v), i));
    return all;
  };
  if (moves) return width(operands(0)) == wide ? of(operands(0)) : ValueId();
  if (g_.op(n) == OpKind::MatMul) return matmul(n, operands(0), operands(1));
  if (g_.op(n) == OpKind::Narrow || g_.op(n) == OpKind::Slice) return part(n, operands(0));
  if (!has_trait(g_.op(n), kElementwise)) return {};
  std::vector<ValueId> in;
  for (size_t i = 0; i < g_.operands(n).size(); ++i) {
    in.push_back(operand(operands(i)));
    if (!in.back().valid()) return {};
  }
  const ValueId y = b_.create(g_.op(n), in, g_.module().attrs[g_.attr_id(n)]);
  return y.valid() && g_.rank(y) == 2 && g_.dims(y)[1] == *wide ? y : ValueId();
}

}  // namespace rlxc
