#include "passes/shard/buckets.h"

#include <algorithm>
#include <map>
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

// One exchange of all operands, in place of the last: the others are not read before it.
void join(Graph& g, const Bucket& bucket) {
  const NodeId last = bucket.nodes.back();
  Builder b(g, nullptr, last);
  b.set_node_name(g.module().symbol(g.label(last).bytes() + ".bucket"));
  std::vector<ValueId> flat;
  for (NodeId n : bucket.nodes) flat.push_back(b.reshape(g.operand(n, 0), {b.dims().product(g.dims(g.result(n)))}));
  const ValueId sum = b.create(OpKind::AllReduce, {b.concat(flat, 0)}, g.module().attrs[g.attr_id(last)]);
  g.set_origin(g.def(sum), g.origin(last));
  Dim at(0);
  for (size_t i = 0; i < flat.size(); ++i) {
    const NodeId n = bucket.nodes[i];
    const ValueId old = g.result(n);
    const Dim length = g.dims(flat[i])[0];
    const std::vector<Dim> dims(g.dims(old).begin(), g.dims(old).end());
    const ValueId part = b.reshape(b.narrow(sum, 0, at, length), dims);
    at = b.dims().add(at, length);
    g.replace_all_uses(old, part);
    g.erase(n);
  }
}

}  // namespace

bool join_all_reduces(Graph& g) {
  std::vector<size_t> position(g.node_capacity());
  size_t count = 0;
  for (NodeId n : g.nodes()) position[n.raw] = count++;
  position[g.terminator().raw] = count;
  std::map<std::pair<AttrId, DType>, Bucket> open;
  std::vector<Bucket> closed;
  for (NodeId n : g.nodes()) {
    if (g.op(n) != OpKind::AllReduce || !g.type(g.result(n)).is_static()) continue;
    const uint64_t bytes = byte_size(g.type(g.result(n))).value_or(kBucketBytes);
    if (bytes >= kBucketBytes) continue;
    size_t first_use = ~size_t{0};
    for (Graph::Use use : g.uses(g.result(n))) first_use = std::min(first_use, position[use.user.raw]);
    Bucket& bucket = open[{g.attr_id(n), g.dtype(g.result(n))}];
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
    join(g, bucket);
    changed = true;
  }
  return changed;
}

}  // namespace rlxc
