// Merges nodes of equal op, attributes, types and operands (in any order for commutative ops), and constants of equal content.
// Impure nodes, nodes with bodies and parameters are not merged. The first of equal nodes stays. A Concat that begins with all
// operands of an earlier one reads its result. O(nodes) expected.
#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/graphs.h"
#include "passes/passes.h"
#include "support/hash.h"

namespace rlxc {
namespace {

constexpr uint64_t kMaxCompared = 1 << 16;  // bytes of a constant that are compared
constexpr size_t kMostJoins = 4;            // limit on remembered Concats that end with the same value

bool same_content(const TensorData& a, const TensorData& b) {
  if (a.dtype != b.dtype || a.dims != b.dims || a.splat != b.splat || a.bytes.size() != b.bytes.size() || a.strings != b.strings)
    return false;
  return a.bytes.data() == b.bytes.data() || a.bytes.empty() || std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// One step of a hash over words: folds the 64 x 64 bit product (as wyhash does).
uint64_t mix(uint64_t h, uint64_t word) {
  const auto p = static_cast<unsigned __int128>(h ^ 0x9E3779B97F4A7C15u) * (word ^ 0xE7037ED1A0B428DBu);
  return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
}

class Merger {
 public:
  Merger(Graph& g, const PassContext& context)
      : graph_(g), module_(g.module()), context_(context), slots_(std::bit_ceil(2 * g.live_nodes() + 2)) {}

  void run() {
    for (NodeId n : graph_.nodes()) {
      const OpKind op = graph_.op(n);
      if (op == OpKind::Input || op == OpKind::Param || has_trait(op, kImpure | kBody)) continue;
      const bool same = context_.rewrite([&] { return merge(n, find_or_insert(n)); });
      merged += same;
      if (op == OpKind::Concat && !same) joined += context_.rewrite([&] { return continue_join(n); });
    }
  }

  int64_t merged = 0, joined = 0;

 private:
  bool merge(NodeId n, NodeId same) {
    if (same == n) return false;
    for (size_t r = 0; r < graph_.result_count(n); ++r) graph_.replace_all_uses(graph_.result(n, r), graph_.result(same, r));
    graph_.erase(n);
    return true;
  }

  // If a Concat begins with the operands of an earlier one, makes it read the earlier result.
  bool continue_join(NodeId n) {
    const std::vector<ValueId> parts(graph_.operands(n).begin(), graph_.operands(n).end());
    const AttrId axis = graph_.attr_id(n);
    NodeId join = n;
    for (size_t count = parts.size() - 1; count > 1 && join == n; --count) {
      const auto known = joins_.find(parts[count - 1].raw);
      if (known == joins_.end()) continue;
      for (const Join& first : known->second)
        if (graph_.attr_id(first.node) == axis && std::ranges::equal(first.parts, std::span(parts).first(count))) {
          join = joined_to(first.node, n, std::span(parts).subspan(count));
          break;
        }
    }
    std::vector<Join>& ending = joins_[parts.back().raw];
    if (ending.size() < kMostJoins) ending.push_back({join, parts});
    return merge(n, join);
  }

  // A Concat of `first` and `rest` to replace n; n itself if the types are not provably equal.
  NodeId joined_to(NodeId first, NodeId n, std::span<const ValueId> rest) {
    std::vector<ValueId> parts = {graph_.result(first)};
    parts.insert(parts.end(), rest.begin(), rest.end());
    const ValueId y = Builder(graph_, nullptr, n).concat(parts, graph_.attrs<AxisAttrs>(n).axis);
    if (!y.valid()) return n;
    if (graph_.type_id(y) == graph_.type_id(graph_.result(n))) return graph_.def(y);
    return graph_.erase(graph_.def(y)), n;
  }

  // Open addressing. The table has at least twice as many slots as the graph has nodes, so it never grows.
  NodeId find_or_insert(NodeId n) {
    const uint64_t h = hash(n);
    for (size_t i = h & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (!slot.node.valid()) return slot = {h, n}, n;
      if (slot.hash == h && equal(n, slot.node)) return slot.node;
    }
  }

  const TensorData& data(NodeId n) const { return module_.data[graph_.attrs<DataAttrs>(n).data]; }

  // The operands, sorted for commutative ops.
  void operands(NodeId n, std::vector<ValueId>* out) const {
    out->assign(graph_.operands(n).begin(), graph_.operands(n).end());
    if (has_trait(graph_.op(n), kCommutative)) std::ranges::sort(*out);
  }

  uint64_t hash(NodeId n) {
    uint64_t h = static_cast<uint64_t>(graph_.op(n));
    for (size_t r = 0; r < graph_.result_count(n); ++r) h = mix(h, graph_.type_id(graph_.result(n, r)).raw);
    if (graph_.op(n) == OpKind::Constant) return mix(h, hash(data(n)));
    h = mix(h, graph_.attr_id(n).raw);
    operands(n, &left_);
    for (ValueId v : left_) h = mix(h, v.raw);
    return h;
  }

  static uint64_t hash(const TensorData& d) {
    Hash128 h;
    h.update_u64(d.splat);
    if (d.bytes.size() <= kMaxCompared) h.update(d.bytes);
    else h.update_u64(reinterpret_cast<uintptr_t>(d.bytes.data()));  // equal only if it is the same memory
    for (const std::string& s : d.strings) h.update_text(s);
    return h.digest().low;
  }

  bool equal(NodeId a, NodeId b) {
    if (graph_.op(a) != graph_.op(b) || graph_.result_count(a) != graph_.result_count(b)) return false;
    for (size_t r = 0; r < graph_.result_count(a); ++r)
      if (graph_.type_id(graph_.result(a, r)) != graph_.type_id(graph_.result(b, r))) return false;
    if (graph_.op(a) == OpKind::Constant) return same_content(data(a), data(b));
    if (graph_.attr_id(a) != graph_.attr_id(b)) return false;
    operands(a, &left_);
    operands(b, &right_);
    return left_ == right_;
  }

  Graph& graph_;
  Module& module_;
  const PassContext& context_;
  struct Slot {
    uint64_t hash = 0;
    NodeId node;
  };
  std::vector<Slot> slots_;
  struct Join {
    NodeId node;
    std::vector<ValueId> parts;
  };
  std::unordered_map<uint32_t, std::vector<Join>> joins_;  // by their last operand
  std::vector<ValueId> left_, right_;
};

}  // namespace

PassResult common_subexpression_elimination(Module& m, PassContext& context) {
  int64_t merged = 0, joined = 0;
  for (GraphId id : graphs_in_use(m)) {
    Merger merger(m.graph(id), context);
    merger.run();
    merged += merger.merged, joined += merger.joined;
  }
  return {merged + joined > 0, {{"nodes_merged", merged}, {"joins_continued", joined}}};
}

}  // namespace rlxc
