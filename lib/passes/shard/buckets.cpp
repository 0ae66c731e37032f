#include "passes/shard/buckets.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ir/builder.h"
#include "ir/mesh.h"

namespace rlxc {
namespace {

struct Bucket {
  std::vector<NodeId> nodes;  // in execution order
  uint64_t bytes = 0;
  size_t first_use = ~size_t{0};  // the earliest position of a reader
};

// One exchange of all operands, in place of the last: the others are not read before it. Its operand has a row for each part
// that a device scatters; others have one row.
void join(Graph& g, const Bucket& bucket, int64_t devices) {
  const NodeId last = bucket.nodes.back();
  Builder b(g, nullptr, last);
  b.set_node_name(g.module().symbol(g.label(last).bytes() + ".bucket"));
  const Dim rows(g.op(last) == OpKind::ReduceScatter ? devices : 1);
  std::vector<ValueId> flat;
  for (NodeId n : bucket.nodes) {
    const ValueId v = g.operand(n, 0);
    flat.push_back(b.reshape(v, {rows, b.dims().floor_div(b.dims().product(g.dims(v)), rows)}));
  }
  CollectiveAttrs attrs = g.attrs<CollectiveAttrs>(last);
  attrs.axis = 0;
  const ValueId all = b.create(g.op(last), {b.concat(flat, 1)}, std::move(attrs));
  g.set_origin(g.def(all), g.origin(last));
  Dim at(0);
  for (size_t i = 0; i < flat.size(); ++i) {
    const NodeId n = bucket.nodes[i];
    const ValueId old = g.result(n);
    const Dim length = g.dims(flat[i])[1];
    const std::vector<Dim> dims(g.dims(old).begin(), g.dims(old).end());
    const ValueId part = b.reshape(b.narrow(all, 1, at, length), dims);
    at = b.dims().add(at, length);
    g.replace_all_uses(old, part);
    g.erase(n);
  }
}

// How inputs are sliced of which no device needs the whole, and their types.
std::set<std::pair<AttrId, TypeId>> sliced_inputs(const Graph& g) {
  std::set<std::pair<AttrId, TypeId>> out;
  for (NodeId n : g.inputs()) {
    const auto uses = g.uses(g.result(n));
    if (g.use_count(g.result(n)) == 0) continue;
    const NodeId first = (*uses.begin()).user;
    const bool sliced = std::all_of(uses.begin(), uses.end(), [&](Graph::Use u) {
      return g.op(u.user) == OpKind::DeviceSlice && g.attr_id(u.user) == g.attr_id(first);
    });
    if (sliced) out.emplace(g.attr_id(first), g.type_id(g.result(n)));
  }
  return out;
}

// The devices of an exchange that can be one with others: whole values, or parts along their first axis. 0: none.
int64_t joinable(const Graph& g, NodeId n) {
  const OpKind op = g.op(n);
  if (op != OpKind::AllReduce && op != OpKind::ReduceScatter && op != OpKind::AllGather) return 0;
  const ValueId v = g.operand(n, 0);
  const auto& a = g.attrs<CollectiveAttrs>(n);
  std::string message;
  const auto group = group_of(a, &message);
  if (!group || !g.type(v).is_static()) return 0;
  if (op == OpKind::AllReduce) return group->size();
  const auto before = g.dims(v).first(static_cast<size_t>(a.axis));
  return a.blocks == 1 && std::ranges::all_of(before, [](Dim d) { return d == Dim(1); }) ? group->size() : 0;
}

}  // namespace

bool join_exchanges(Graph& g) {
  std::vector<size_t> position(g.node_capacity());
  size_t count = 0;
  for (NodeId n : g.nodes()) position[n.raw] = count++;
  // An output that gathers what an input slices: the parts of a state, which stay where they are (memory/states.h).
  const auto sliced = sliced_inputs(g);
  const std::set<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  const auto keeps_parts = [&](NodeId n) {
    const ValueId v = g.result(n);
    return g.op(n) == OpKind::AllGather && outputs.contains(v) && sliced.contains({g.attr_id(n), g.type_id(v)});
  };
  position[g.terminator().raw] = count;
  std::map<std::tuple<OpKind, AttrId, DType>, Bucket> open;
  std::vector<Bucket> closed;
  for (NodeId n : g.nodes()) {
    if (joinable(g, n) == 0 || keeps_parts(n)) continue;
    const uint64_t bytes = byte_size(g.type(g.result(n))).value_or(kBucketBytes);
    if (bytes >= kBucketBytes) continue;
    size_t first_use = ~size_t{0};
    for (Graph::Use use : g.uses(g.result(n))) first_use = std::min(first_use, position[use.user.raw]);
    Bucket& bucket = open[{g.op(n), g.attr_id(n), g.dtype(g.result(n))}];
    if (!bucket.nodes.empty() && (bucket.first_use <= position[n.raw] || bucket.bytes + bytes > kBucketBytes))
      closed.push_back(std::exchange(bucket, {}));
    bucket.nodes.push_back(n);
    bucket.bytes += bytes;
    bucket.first_use = std::min(bucket.first_use, first_use);
  }
  for (auto& [key, bucket] : open) closed.push_back(std::move(bucket));
  bool changed = false;
  for (const Bucket& bucket : closed) {
    if (bucket.nodes.size() < 2) continue;
    join(g, bucket, joinable(g, bucket.nodes.back()));
    changed = true;
  }
  return changed;
}

}  // namespace rlxc
