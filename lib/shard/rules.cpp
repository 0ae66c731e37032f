#include "shard/rules.h"

#include <algorithm>

#include "ir/index_maps.h"

namespace rlxc::shard {
namespace {

// Whether the devices can exchange what windows of operand 0 reach beyond their own rows, and the node's attributes can leave out
// padding.
bool has_halo(const Graph& g, NodeId n, size_t dim, const Loop& loop) {
  const Dim rows = g.dims(g.operand(n, 0))[dim];
  if (!rows.is_static() || loop.size > rows.size()) return false;
  if (g.op(n) == OpKind::Conv) return true;
  if (g.op(n) != OpKind::Pool) return false;
  const auto& a = g.attrs<PoolAttrs>(n);
  const bool pads = a.pads_begin[dim - 2] != 0 || a.pads_end[dim - 2] != 0;
  const bool sums = a.op == ReduceOp::Sum || (a.op == ReduceOp::Mean && (!pads || a.count_include_pad));
  return !a.ceil_mode && (sums || (a.op == ReduceOp::Max && is_float(g.dtype(g.result(n)))));
}

// Rows of a dim for one of the factor.
int64_t rows_of_one(const Rule& rule, const DimFactor& f, Dim size) {
  return std::max<int64_t>(size.size() / (f.blocks * rule.factors[f.factor].size), 1);
}

}  // namespace

bool Factor::divides(int64_t parts, const DimSharding& s) const {
  if ((size + s.padding) % (parts * s.blocks) != 0 || (s.padding > 0 && s.blocks > 1)) return false;
  const int64_t rows = size / parts * stride;
  return kind != Kind::Window ||
         (s.blocks == 1 && s.padding == 0 && before <= rows && after <= rows && rows + before + after > 0);
}

const DimFactor* split_factor(const Rule& rule, const std::vector<DimFactor>& dim, Dim size, const DimSharding& s,
                              DimSharding* of_factor) {
  const DimFactor* best = nullptr;
  for (const DimFactor& f : dim)
    if (s.split() && s.blocks % f.blocks == 0 && (!best || f.blocks > best->blocks)) best = &f;
  if (!best || !size.is_static()) return nullptr;
  const int64_t rows = rows_of_one(rule, *best, size);
  if (s.padding % rows != 0 || (s.padding > 0 && best->blocks > 1)) return nullptr;
  *of_factor = {s.axes, s.blocks / best->blocks, s.padding / rows};
  return best;
}

DimSharding split_dim(const Rule& rule, const DimFactor& f, Dim size, const DimSharding& s) {
  return {s.axes, s.blocks * f.blocks, s.padding > 0 && size.is_static() ? s.padding * rows_of_one(rule, f, size) : 0};
}

Rule rule_of(const Graph& g, NodeId n) {
  const IndexMaps maps = index_maps(g, n);
  Rule rule;
  std::vector<bool> splits(maps.loops.size(), true);
  for (const Loop& l : maps.loops) {
    using From = Loop::Kind;
    const auto kind = l.kind == From::Parallel ? Factor::Kind::Map
                      : l.kind == From::Reduce ? Factor::Kind::Reduce
                                               : Factor::Kind::Lookup;
    rule.factors.push_back({l.size, kind, l.op});
  }
  const auto each = [](const AxisMaps& axes, auto f) {
    for (size_t d = 0; d < axes.size(); ++d)
      for (const LoopIndex& index : axes[d]) f(d, index);
  };
  const auto check = [&](ValueId v, const AxisMaps& axes, bool reads_windows) {
    each(axes, [&](size_t d, const LoopIndex& index) {
      const Loop& loop = maps.loops[index.loop];
      if (index.tiles(loop, g.dims(v)[d])) return;
      splits[index.loop] = splits[index.loop] && reads_windows && has_halo(g, n, d, loop);
      Factor& f = rule.factors[index.loop];
      f.kind = Factor::Kind::Window;
      f.stride = index.stride;
      f.before = index.before;
      f.after = index.reach - index.stride - index.before;
    });
  };
  for (size_t i = 0; i < maps.operands.size(); ++i) check(g.operand(n, i), maps.operands[i], i == 0);
  for (size_t r = 0; r < maps.results.size(); ++r) check(g.result(n, r), maps.results[r], false);
  const auto factors = [&](const std::vector<AxisMaps>& values, auto* out) {
    for (const AxisMaps& axes : values) {
      out->emplace_back(axes.size());
      each(axes, [&](size_t d, const LoopIndex& index) {
        if (splits[index.loop]) out->back()[d].push_back({index.loop, index.blocks});
      });
    }
  };
  factors(maps.operands, &rule.operands);
  factors(maps.results, &rule.results);
  for (size_t l : maps.counted) rule.counted.push_back(l);
  return rule;
}

}  // namespace rlxc::shard
