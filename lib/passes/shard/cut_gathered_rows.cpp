// Rows that devices gather, work on and scatter again, such as those of an MLP under --parallel tensor, are whole on every
// device, beside its part of what lies between. Many rows are worked on in parts, where that takes little more time:
//   reduce_scatter(f(all_gather(x)))  ->  reduce_scatter(concat(f(rows of all_gather(x)), ..))
// A part of the result takes the place of the rows of which it was made (memory/liveness.h), so rows and result take the memory
// of one, and what lies between takes that of a part. The exchanges stay as they are. O(nodes).
#include <algorithm>
#include <map>

#include "passes/passes.h"
#include "passes/shard/pipeline.h"

namespace rlxc {
namespace {

constexpr size_t kMostBetween = 32;  // between gather and scatter
constexpr int64_t kLeastRows = 256;  // of a part: fewer use a weight too little
constexpr double kSlower = 1.05;     // how much longer the parts may take

struct RowsToCut {
  NodeId gather, scatter;
  size_t axis = 0;            // of the rows
  std::vector<NodeId> nodes;  // in execution order; the last makes the operand of `scatter`
  uint64_t rows_bytes = 0, between_bytes = 0;
  int64_t rows = 0;
};

uint64_t bytes_of(const Graph& g, ValueId v) { return byte_size(g.type(v)).value_or(0); }

// Whether the dims before the axis are 1, so that parts of the rows are whole blocks of bytes.
bool has_rows(const Graph& g, ValueId v, size_t axis) {
  const auto dims = g.dims(v);
  return axis + 1 < dims.size() && g.type(v).is_static() &&
         std::ranges::all_of(dims.first(axis), [](Dim d) { return d == Dim(1); });
}

// Whether a row of the result follows from the same row of the operands that have rows (`of_rows`), and of no others.
bool maps_rows(const Graph& g, NodeId n, const RowsToCut& region, const std::vector<bool>& of_rows) {
  if (g.result_count(n) != 1 || !has_rows(g, g.result(n), region.axis)) return false;
  const ValueId y = g.result(n);
  if (g.dims(y)[region.axis] != Dim(region.rows)) return false;
  const OpKind op = g.op(n);
  const bool product = op == OpKind::MatMul || op == OpKind::FusedMatMulBiasAct || op == OpKind::FusedMatMulSwiGLU;
  if (op == OpKind::MatMul && g.attrs<MatMulAttrs>(n).trans_a) return false;
  if (op == OpKind::FusedMatMulBiasAct && g.attrs<FusedMatMulAttrs>(n).trans_a) return false;
  const bool elementwise = has_trait(op, kElementwise) || op == OpKind::ElementwiseRegion || op == OpKind::FusedSwiGLU;
  if (!product && !elementwise) return false;
  if (product && region.axis + 2 != static_cast<size_t>(g.rank(y))) return false;
  for (size_t i = 0; i < g.operands(n).size(); ++i) {
    const ValueId v = g.operand(n, i);
    if (!v.valid()) continue;
    if (of_rows[v.raw]) {
      if (g.rank(v) != g.rank(y) || (product && i != 0 && i != 3)) return false;
      continue;
    }
    if (product && (i == 0 || (i == 1 && g.rank(v) != 2))) return false;
    const size_t below = static_cast<size_t>(g.rank(y)) - region.axis;  // dims from the axis on
    const auto rank = static_cast<size_t>(g.rank(v));
    if (!(product && i == 1) && rank >= below && g.dims(v)[rank - below] != Dim(1)) return false;
  }
  return true;
}

// Finds the nodes between an all_gather of rows and a reduce_scatter of as many rows. No other node may read the rows.
class Search {
 public:
  explicit Search(const Graph& g) : g_(g), position_(g.node_capacity()), of_rows_(g.value_capacity()) {
    size_t count = 0;
    for (NodeId n : g.nodes()) position_[n.raw] = count++;
    position_[g.terminator().raw] = count;
  }

  std::optional<RowsToCut> run(NodeId gather) {
    std::vector<ValueId> values{g_.result(gather)};
    auto region = find(gather, &values);
    for (ValueId v : values) of_rows_[v.raw] = false;
    return region;
  }

 private:
  std::optional<RowsToCut> find(NodeId gather, std::vector<ValueId>* values) {
    const auto& a = g_.attrs<CollectiveAttrs>(gather);
    const ValueId x = g_.result(gather);
    RowsToCut r{gather, {}, static_cast<size_t>(a.axis), {}, bytes_of(g_, x)};
    if (a.blocks != 1 || !has_rows(g_, x, r.axis)) return std::nullopt;
    r.rows = g_.dims(x)[r.axis].size();
    of_rows_[x.raw] = true;
    ValueId end;
    for (size_t head = 0; head < values->size(); ++head) {
      for (Graph::Use use : g_.uses((*values)[head])) {
        const NodeId n = use.user;
        if (g_.op(n) == OpKind::ReduceScatter) {
          if (r.scatter.valid() || g_.attrs<CollectiveAttrs>(n).axis != a.axis || g_.attrs<CollectiveAttrs>(n).blocks != 1)
            return std::nullopt;
          r.scatter = n;
        } else if (n == g_.terminator()) {
          return std::nullopt;
        } else if (std::ranges::find(r.nodes, n) == r.nodes.end()) {
          if (r.nodes.size() == kMostBetween || g_.result_count(n) != 1) return std::nullopt;
          r.nodes.push_back(n);
          values->push_back(g_.result(n));
          of_rows_[g_.result(n).raw] = true;
        }
      }
    }
    if (!r.scatter.valid() || r.nodes.empty()) return std::nullopt;
    std::ranges::sort(r.nodes, {}, [&](NodeId n) { return position_[n.raw]; });
    end = g_.operand(r.scatter, 0);
    if (g_.def(end) != r.nodes.back() || !g_.has_one_use(end) || bytes_of(g_, end) != r.rows_bytes) return std::nullopt;
    for (NodeId n : r.nodes) {
      if (!maps_rows(g_, n, r, of_rows_)) return std::nullopt;
      if (n != r.nodes.back()) r.between_bytes = std::max(r.between_bytes, bytes_of(g_, g_.result(n)));
    }
    return r;
  }

  const Graph& g_;
  std::vector<size_t> position_;
  std::vector<bool> of_rows_;
};

// As many parts as make what lies between a quarter of the rows; 1: none.
int64_t parts_of(const RowsToCut& r) {
  int64_t parts = 1;
  while (r.between_bytes / static_cast<uint64_t>(parts) > r.rows_bytes / 4 && r.rows % (2 * parts) == 0 &&
         r.rows / (2 * parts) >= kLeastRows)
    parts *= 2;
  return parts;
}

bool cut(Graph& g, const RowsToCut& r, int64_t parts, const PassContext& context) {
  const auto axis = static_cast<int64_t>(r.axis);
  const Dim length(r.rows / parts);
  Builder b(g, nullptr, r.scatter);
  std::vector<NodeId> made;
  std::vector<ValueId> results;
  double whole_ns = 0, parts_ns = 0;
  for (NodeId n : r.nodes) whole_ns += step_ns(g, n, context.target.machine);
  for (int64_t i = 0; i < parts; ++i) {
    std::map<ValueId, ValueId> part_of;
    const ValueId rows = b.narrow(g.result(r.gather), axis, Dim(i * length.size()), length);
    part_of[g.result(r.gather)] = rows;
    made.push_back(g.def(rows));
    for (NodeId n : r.nodes) {
      std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
      for (ValueId& v : operands)
        if (const auto it = v.valid() ? part_of.find(v) : part_of.end(); it != part_of.end()) v = it->second;
      b.set_node_name(g.module().symbol(g.label(n).bytes() + "." + std::to_string(i)));
      const NodeId copy = b.create_node(g.op(n), operands, g.module().attrs[g.attr_id(n)]);
      b.set_node_name({});
      if (!copy.valid()) break;
      made.push_back(copy);
      g.set_origin(copy, g.origin(n));
      part_of[g.result(n)] = g.result(copy);
      parts_ns += step_ns(g, copy, context.target.machine);
    }
    if (const auto it = part_of.find(g.result(r.nodes.back())); it != part_of.end()) results.push_back(it->second);
  }
  if (results.size() != static_cast<size_t>(parts) || parts_ns > kSlower * whole_ns) {
    for (size_t i = made.size(); i-- > 0;) g.erase(made[i]);
    return false;
  }
  const ValueId old = g.result(r.nodes.back()), joined = b.concat(results, axis);
  if (g.value_name(old).valid()) g.set_value_name(joined, g.value_name(old));
  g.set_operand(r.scatter, 0, joined);
  for (size_t i = r.nodes.size(); i-- > 0;) g.erase(r.nodes[i]);
  return true;
}

}  // namespace

PassResult cut_gathered_rows(Module& m, PassContext& context) {
  Graph& g = m.main();
  std::vector<RowsToCut> regions;
  Search search(g);
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::AllGather)
      if (auto r = search.run(n)) regions.push_back(std::move(*r));
  int64_t count = 0;
  for (const RowsToCut& r : regions)
    if (const int64_t parts = parts_of(r); parts > 1) count += cut(g, r, parts, context);
  return {count > 0, {{"gathers_cut", count}}};
}

}  // namespace rlxc
