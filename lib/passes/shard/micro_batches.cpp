#include <algorithm>

#include "ir/builder.h"
#include "passes/copy_graph.h"
#include "passes/shard/pipeline.h"
#include "shard/partition.h"
#include "shard/strategies.h"

namespace rlxc {
namespace {

// A part of the batch is the program of a device of a mesh along which the batch is split.
constexpr std::string_view kAxis = "rlxc_micro_batch";
constexpr int64_t kPartsOfStage = 4;  // more parts gain less than a fifth

// Whether the node cuts the batch, or joins its parts.
bool cuts(const Graph& g, NodeId n) {
  return has_trait(g.op(n), kCollective) && g.attrs<CollectiveAttrs>(n).mesh.starts_with(kAxis);
}

std::optional<Dim> batch_of(const Graph& g) {
  for (NodeId n : g.inputs())
    if (const ValueId v = g.result(n); g.type(v).kind == TypeKind::Tensor && g.rank(v) > 0 && g.use_count(v) > 0)
      return g.dims(v)[0];
  return std::nullopt;
}

class Instances {
 public:
  Instances(Graph& g, const Graph& part, int64_t parts, std::vector<ValueId> leaves)
      : g_(g), part_(part), parts_(parts), map_(std::move(leaves)), joined_(part.value_capacity()), b_(g) {}

  void make() {
    for (int64_t i = 0; i < parts_; ++i)
      for (NodeId n : part_.nodes())
        if (!has_trait(part_.op(n), kLeaf)) copy(n, i);
    for (uint32_t i = 0; i < part_.outputs().size(); ++i) {
      const ValueId v = part_.outputs()[i];
      g_.set_operand(g_.terminator(), i, joined_[v.raw].empty() ? map_[v.raw] : join(v));
    }
  }

 private:
  void copy(NodeId n, int64_t i) {
    const ValueId result = part_.result(n);
    if (cuts(part_, n) && part_.op(n) == OpKind::DeviceSlice) {
      map_[result.raw] = slice(n, i);
      return;
    }
    if (cuts(part_, n)) return joined_[result.raw].push_back(map_[part_.operand(n, 0).raw]);
    std::vector<ValueId> operands;
    std::vector<TypeId> types;
    for (ValueId v : part_.operands(n)) operands.push_back(v.valid() ? map_[v.raw] : v);
    for (size_t r = 0; r < part_.result_count(n); ++r) types.push_back(part_.type_id(part_.result(n, r)));
    const NodeId made = g_.make_node(part_.op(n), operands, part_.attr_id(n), types);
    g_.set_node_name(made, g_.module().symbol(part_.label(n).bytes() + "." + std::to_string(i)));
    g_.set_origin(made, part_.origin(n));
    for (size_t r = 0; r < types.size(); ++r) map_[part_.result(n, r).raw] = g_.result(made, r);
  }

  // The dims with the axis of blocks as two.
  std::vector<Dim> in_blocks(std::span<const Dim> dims, const CollectiveAttrs& a) {
    std::vector<Dim> out(dims.begin(), dims.end());
    const auto at = static_cast<size_t>(a.axis);
    out[at] = b_.dims().floor_div(out[at], Dim(a.blocks));
    out.insert(out.begin() + a.axis, Dim(a.blocks));
    return out;
  }
  static std::vector<Dim> copy_of(std::span<const Dim> dims) { return {dims.begin(), dims.end()}; }

  ValueId slice(NodeId n, int64_t i) {
    const auto& a = part_.attrs<CollectiveAttrs>(n);
    const ValueId from = map_[part_.operand(n, 0).raw];
    const int64_t length = part_.dims(part_.result(n))[static_cast<size_t>(a.axis)].size() / a.blocks;
    const ValueId blocks = b_.reshape(from, in_blocks(copy_of(g_.dims(from)), a));
    return b_.reshape(b_.narrow(blocks, a.axis + 1, Dim(i * length), Dim(length)), copy_of(part_.dims(part_.result(n))));
  }

  ValueId join(ValueId v) {
    const auto& a = part_.attrs<CollectiveAttrs>(part_.def(v));
    std::vector<ValueId> all;
    for (ValueId each : joined_[v.raw]) all.push_back(b_.reshape(each, in_blocks(copy_of(g_.dims(each)), a)));
    return b_.reshape(b_.concat(all, a.axis + 1), copy_of(part_.dims(v)));
  }

  Graph& g_;
  const Graph& part_;
  const int64_t parts_;
  std::vector<ValueId> map_;                  // of the part that is made, by value of `part`
  std::vector<std::vector<ValueId>> joined_;  // by value of `part`: those of all parts
  Builder b_;
};

// Whether a node needs rows of several parts.
bool combines(const Graph& part) {
  for (NodeId n : part.nodes()) {
    if (!cuts(part, n) || part.op(n) == OpKind::DeviceSlice) continue;
    const auto uses = part.uses(part.result(n));
    const bool joins = part.op(n) == OpKind::AllGather &&
                       std::all_of(uses.begin(), uses.end(), [&](Graph::Use u) { return u.user == part.terminator(); });
    if (!joins) return true;
  }
  return false;
}

// One part of several.
struct BatchPart {
  Graph* graph;
  std::vector<ValueId> leaves;  // of the whole, by value of the part
};

// Nullopt if nodes combine rows of several parts.
std::optional<BatchPart> make_part(Graph& g, int64_t parts) {
  std::vector<NodeId> made;
  BatchPart part{&copy_graph(g, "part", &made), {}};
  Graph& p = *part.graph;
  Mesh mesh;
  mesh.axes.push_back({std::string(kAxis), parts});
  shard::Shardings s(p, mesh);
  Diagnostics d;
  if (!shard::apply_strategy(p, {"data", 0}, s, d)) return p.clear(), std::nullopt;
  std::vector<ValueId> leaves(p.value_capacity());
  for (size_t i = 0; i < g.inputs().size(); ++i) leaves[p.result(p.inputs()[i]).raw] = g.result(g.inputs()[i]);
  size_t at = 0;
  for (NodeId n : g.nodes()) {
    if (g.op(n) == OpKind::Input) continue;
    if (has_trait(g.op(n), kLeaf)) leaves[p.result(made[at]).raw] = g.result(n);
    ++at;
  }
  s.propagate(d);
  shard::partition(p, s);
  if (combines(p)) return p.clear(), std::nullopt;
  leaves.resize(p.value_capacity());
  part.leaves = std::move(leaves);
  return part;
}

// Parts follow each other at the pace of the busiest stage.
double predicted_ns(const Graph& part, int64_t parts, const PassContext& context) {
  const RunClock clock = predicted_run(part, context);
  const RunClock::Stage& busiest = clock.busiest();
  return clock.end_ns() + static_cast<double>(parts - 1) * (busiest.compute_ns + busiest.exchange_ns);
}

}  // namespace

bool cut_batch(Graph& g, int64_t stages, const PassContext& context) {
  const auto batch = batch_of(g);
  if (!batch || !batch->is_static() || batch->size() < 2) return false;
  for (NodeId n : g.nodes())
    if (has_trait(g.op(n), kBody | kImpure) || cuts(g, n)) return false;
  int64_t best = 1;
  double least = predicted_run(g, context).end_ns();
  for (int64_t parts = 2; parts <= std::min(kPartsOfStage * stages, batch->size()); ++parts) {
    if (batch->size() % parts != 0) continue;
    const auto part = make_part(g, parts);
    if (!part) return false;
    if (const double ns = predicted_ns(*part->graph, parts, context); ns < least) best = parts, least = ns;
    part->graph->clear();
  }
  if (best == 1) return false;
  BatchPart part = *make_part(g, best);
  // Constants that the partition made.
  for (NodeId n : part.graph->nodes())
    if (const ValueId v = part.graph->result(n); has_trait(part.graph->op(n), kLeaf) && !part.leaves[v.raw].valid())
      part.leaves[v.raw] =
          g.result(g.make_node(part.graph->op(n), {}, part.graph->attr_id(n), std::vector{part.graph->type_id(v)}));
  Instances(g, *part.graph, best, std::move(part.leaves)).make();
  part.graph->clear();
  return true;
}

}  // namespace rlxc
