#include "passes/fuse/join_rows.h"

#include <algorithm>

namespace rlxc::fuse {
namespace {

constexpr int kMostDepth = 64;

bool has_rows(const Graph& g, ValueId v) {
  return g.rank(v) > 0 && std::ranges::all_of(g.dims(v), [](Dim d) { return d.is_static() && d.size() > 0; });
}

// Whether the values differ in their number of rows at most.
bool same_rows(const Graph& g, ValueId a, ValueId b) {
  const auto x = g.dims(a), y = g.dims(b);
  return g.dtype(a) == g.dtype(b) && x.size() == y.size() && std::ranges::equal(x.subspan(1), y.subspan(1));
}

}  // namespace

bool JoinRows::is_alike(const std::vector<ValueId>& parts) const {
  const NodeId first = g_.def(parts[0]);
  return std::ranges::all_of(parts, [&](ValueId v) {
    const NodeId n = g_.def(v);
    return has_rows(g_, v) && same_rows(g_, parts[0], v) && g_.op(n) == g_.op(first) && g_.result_count(n) == 1 &&
           g_.operands(n).size() == g_.operands(first).size() &&
           (g_.op(n) == OpKind::Reshape || g_.attr_id(n) == g_.attr_id(first));
  });
}

ValueId JoinRows::join(const std::vector<ValueId>& parts, int depth) {
  if (const auto known = joined_.find(parts); known != joined_.end()) return known->second;
  ValueId y;
  if (depth < kMostDepth && is_alike(parts)) y = computed(parts, depth + 1);
  if (!y.valid()) y = b_.concat(parts, 0);
  return joined_[parts] = y;
}

ValueId JoinRows::computed(const std::vector<ValueId>& parts, int depth) {
  const NodeId first = g_.def(parts[0]);
  const OpKind op = g_.op(first);
  const bool elementwise = has_trait(op, kElementwise);
  const bool keeps_rows = op == OpKind::Reshape || op == OpKind::BitCast ||
                          (op == OpKind::Narrow && g_.attrs<NarrowAttrs>(first).axis != 0) ||
                          (op == OpKind::Concat && g_.attrs<AxisAttrs>(first).axis != 0);
  if (!elementwise && !keeps_rows) return {};
  // The operands, of which those that all parts share are broadcast over the rows.
  std::vector<std::vector<ValueId>> operands(g_.operands(first).size());
  for (size_t i = 0; i < operands.size(); ++i) {
    for (ValueId v : parts) operands[i].push_back(g_.operand(g_.def(v), i));
    const ValueId x = operands[i][0];
    if (!x.valid()) return {};
    const bool same = std::ranges::all_of(operands[i], [&](ValueId v) { return v == x; });
    const int rank = g_.rank(parts[0]);
    if (elementwise && same && (g_.rank(x) < rank || g_.dims(x)[0] == Dim(1))) {
      operands[i].resize(1);
      continue;
    }
    for (size_t p = 0; p < parts.size(); ++p) {
      const ValueId v = operands[i][p];
      if (!v.valid() || !has_rows(g_, v) || !same_rows(g_, x, v)) return {};
      if (op != OpKind::Reshape && (g_.rank(v) != rank || g_.dims(v)[0] != g_.dims(parts[p])[0])) return {};
    }
  }
  std::vector<ValueId> all;
  for (const auto& of_parts : operands) all.push_back(of_parts.size() == 1 ? of_parts[0] : join(of_parts, depth));
  if (op != OpKind::Reshape) return b_.create(op, all, Attrs(g_.module().attrs[g_.attr_id(first)]));
  std::vector<Dim> dims(g_.dims(parts[0]).begin(), g_.dims(parts[0]).end());
  int64_t rows = 0;
  for (ValueId v : parts) rows += g_.dims(v)[0].size();
  dims[0] = Dim(rows);
  return b_.reshape(all[0], dims);
}

}  // namespace rlxc::fuse
