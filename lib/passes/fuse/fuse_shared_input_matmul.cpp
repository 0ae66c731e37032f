// Merges matmuls of one value with several weights (Q, K and V; gate and up) into one matmul. Weights and biases are concatenated
// at load time; users read slices of the result. If a user needs a copy of its slice, the copies must cost less than the saved
// launches and reads.
#include <algorithm>

#include "analysis/views.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/epilogue.h"
#include "passes/fuse/weight_matmul.h"
#include "passes/packed_weights.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "support/checked.h"

namespace rlxc {
namespace {

using namespace match;

constexpr uint32_t kFar = 96;  // limit on the distance of members, which bounds the live ranges of their results

struct Member {
  NodeId matmul;
  ValueId bias;   // added by an Add, if any
  ValueId value;  // the result to replace
};

class SharedInput {
 public:
  SharedInput(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), order_(g), known_(g.node_capacity()), room_(packed_room(g, ctx)) {}

  int64_t run() {
    for (NodeId n : g_.nodes())
      if (n.raw < known_ && candidate(n)) readers_of(g_.operand(n, 0));
    return merged_;
  }

 private:
  bool candidate(NodeId n) const {
    return fuse::is_weight_matmul(g_, n) && g_.operand(n, 0) != g_.operand(n, 1) && is_float(g_, g_.result(n)) &&
           g_.dims(g_.result(n)).back() != Dim(0) && !is_weight(g_, g_.result(n));
  }

  bool has_weights(NodeId n) const {
    return std::ranges::all_of(g_.operands(n).subspan(1), [&](ValueId v) { return !v.valid() || is_weight(g_, v); });
  }

  Member member(NodeId n) const {
    Member m{n, {}, g_.result(n)};
    const NodeId add = g_.only_user(m.value);
    if (!add.valid() || g_.op(add) != OpKind::Add) return m;
    const ValueId v = other(g_, add, m.value);
    if (v.valid() && is_row(g_, v, m.value) && is_weight(g_, v) && same_dims(g_, g_.result(add), m.value) && g_.rank(v) > 0 &&
        g_.dims(v).back() == g_.dims(m.value).back()) {
      m.bias = v;
      m.value = g_.result(add);
    }
    return m;
  }

  // Collects the matmuls that read x, in execution order, and splits them where neighbours are distant.
  void readers_of(ValueId x) {
    seen_.resize(g_.value_capacity());
    if (seen_[x.raw]) return;
    seen_[x.raw] = true;
    std::vector<NodeId> nodes;
    for (const auto use : g_.uses(x))
      if (use.index == 0 && use.user.raw < known_ && candidate(use.user)) nodes.push_back(use.user);
    std::ranges::sort(nodes, {}, [&](NodeId n) { return order_.at(n); });
    for (size_t i = 0, end; i < nodes.size(); i = end) {
      for (end = i + 1; end < nodes.size() && order_.at(nodes[end]) - order_.at(nodes[end - 1]) <= kFar;) ++end;
      const std::span near(nodes.begin() + static_cast<std::ptrdiff_t>(i), end - i);
      if (near.size() > 1) merge_alike(near, x);
    }
  }

  // Merges matmuls whose weights can be concatenated.
  void merge_alike(std::span<const NodeId> nodes, ValueId x) {
    const auto apart = [&](NodeId n, std::string_view reason) {
      ctx_.decisions.push_back(declined(g_, "shared_input_matmul", n, reason,
                                        "reads " + g_.label(g_.def(x)).line() + " as others do",
                                        "give all matmuls of one value constant weights of one layout and type"));
    };
    std::vector<std::vector<NodeId>> alike;
    for (NodeId n : nodes) {
      if (!has_weights(n)) {
        apart(n, "runtime_weights");
        continue;
      }
      const auto own = std::ranges::find_if(alike, [&](const auto& c) { return !fuse::packing_conflict(g_, c[0], n); });
      if (own == alike.end()) alike.push_back({n});
      else own->push_back(n);
    }
    const auto most = std::ranges::max_element(alike, {}, &std::vector<NodeId>::size);
    for (const auto& c : alike)
      if (const char* reason = fuse::packing_conflict(g_, (*most)[0], c[0])) apart(c[0], reason);
    for (const auto& c : alike)
      if (c.size() > 1) ctx_.rewrite([&] { return merge(c, x); });
  }

  bool merge(std::span<const NodeId> nodes, ValueId x) {
    std::vector<Member> members;
    bool biased = false, sized = true;
    for (NodeId n : nodes) {
      members.push_back(member(n));
      biased = biased || members.back().bias.valid();
      sized = sized && g_.dims(members.back().value).back().is_static();
    }
    if (!pays(members, x) || !fits(members)) return false;
    if (biased && !sized)  // a missing bias would need zeros of a symbolic length
      for (Member& m : members) m = {m.matmul, {}, g_.result(m.matmul)};
    emit(members, x, biased && sized);
    merged_ += static_cast<int64_t>(members.size());
    return true;
  }

  // Returns whether a user of the slice needs a contiguous copy.
  bool is_copied(ValueId v) const {
    const auto d = g_.dims(v);
    if (std::ranges::all_of(d.first(d.size() - 1), [](Dim s) { return s == Dim(1); })) return false;
    for (const auto use : g_.uses(v))
      if (!accepts_strides(g_, use)) return true;
    return false;
  }

  // The epilogue (activation or residual) that the matmul would lose as a slice of a larger one, because it becomes a launch of
  // its own. Invalid if the sole user of the epilogue, an elementwise op or norm, would fuse with it anyway.
  NodeId lost_end(const Member& m) const {
    if (!ctx_.target.native.test(static_cast<size_t>(fuse::kind_with_end(g_.op(m.matmul))))) return {};
    const ValueId v = fuse::after_layout_ops(g_, m.value);
    const NodeId n = g_.only_user(v);
    if (!n.valid() || n == g_.terminator()) return {};
    const bool ends = (has_trait(g_.op(n), kActivation) && ctx_.target.epilogues.test(static_cast<size_t>(g_.op(n)))) ||
                      fuse::match_residual(g_, v).has_value();
    if (!ends) return {};
    const NodeId reader = g_.only_user(g_.result(n));
    const bool taken =
        reader.valid() && has_trait(g_.op(reader), kElementwise | kNormTrait) && same_dims(g_, g_.result(n), g_.result(reader));
    return taken ? NodeId() : n;
  }

  // Compares one matmul, copies of slices and lost epilogues with separate matmuls.
  fuse::CostDecision time_of(const std::vector<Member>& members, ValueId x) const {
    const Machine& machine = ctx_.target.machine;
    fuse::CostDecision time;
    Cost shared;
    for (const Member& m : members) {
      const Cost own = node_cost(g_, m.matmul);
      time.separate_ns += launch_time_ns(own, machine);
      shared += own;
      if (const NodeId end = lost_end(m); end.valid()) time.fused_ns += launch_time_ns(node_cost(g_, end), machine);
      if (is_copied(m.value)) time.fused_ns += launch_time_ns({0, bytes(g_, m.value), bytes(g_, m.value)}, machine);
    }
    shared.bytes_read -= static_cast<int64_t>(members.size() - 1) * bytes(g_, x);
    time.fused_ns += launch_time_ns(shared, machine);
    return time;
  }

  // Keeps all members if that is profitable, otherwise those without copies and lost epilogues.
  bool pays(std::vector<Member>& members, ValueId x) {
    const auto time = time_of(members, x);
    if (time.pays()) return true;
    const auto loses = [&](const Member& m) { return is_copied(m.value) || lost_end(m).valid(); };
    for (const Member& m : members)
      if (loses(m))
        ctx_.decisions.push_back(declined(g_, "shared_input_matmul", m.matmul, "cost", time.detail(),
                                          is_copied(m.value) ? "its part of a shared matmul would be copied for its readers"
                                                             : "its part of a shared matmul would not end with what follows"));
    std::erase_if(members, loses);
    return members.size() > 1;
  }

  bool fits(const std::vector<Member>& members) {
    int64_t needed = 0;
    for (const Member& m : members) {
      for (ValueId v : g_.operands(m.matmul).subspan(1))
        if (v.valid()) needed = checked_add(needed, bytes(g_, v)).value_or(INT64_MAX);
      if (m.bias.valid()) needed = checked_add(needed, bytes(g_, m.bias)).value_or(INT64_MAX);
    }
    if (room_ >= needed) {
      room_ -= needed;
      return true;
    }
    for (const Member& m : members)
      ctx_.decisions.push_back(declined(g_, "shared_input_matmul", m.matmul, "packed_limit",
                                        "the weights side by side take " + std::to_string(needed) + " bytes, " +
                                            std::to_string(std::max<int64_t>(room_, 0)) + " of --max-packed are left",
                                        "raise --max-packed"));
    return false;
  }

  void emit(const std::vector<Member>& members, ValueId x, bool biased) {
    DimTable& dims = g_.module().dims;
    const NodeId at = members[0].matmul;
    std::vector<ValueId> biases;
    std::vector<NodeId> nodes;
    Builder b(g_, nullptr, at);
    for (const Member& m : members) {
      for (ValueId v : g_.operands(m.matmul).subspan(1))
        if (v.valid()) order_.hoist(g_, v, at);
      nodes.push_back(m.matmul);
      if (!biased) continue;
      if (m.bias.valid()) {
        order_.hoist(g_, m.bias, at);
        biases.push_back(as_row(b, m.bias, m.value));
        continue;
      }
      const DType t = g_.dtype(m.value);
      biases.push_back(b.constant(make_splat(t, {g_.dims(m.value).back().size()}, element_bytes(t, 0))));
    }
    ValueId y = fuse::concatenated_matmul(b, x, nodes);
    if (biased) y = b.add(y, b.concat(biases, 0));
    merge_origins(g_, g_.def(y), nodes);
    Decision d = fused(g_, "shared_input_matmul", at, nodes, static_cast<int64_t>(members.size() - 1) * bytes(g_, x));
    ctx_.decisions.push_back(std::move(d));
    std::vector<ValueId> parts;  // created before their insertion point is erased
    Dim start(0);
    for (const Member& m : members) {
      const Dim len = g_.dims(m.value).back();
      parts.push_back(b.narrow(y, g_.rank(y) - 1, start, len));
      start = dims.add(start, len);
    }
    for (size_t i = 0; i < parts.size(); ++i) replace(g_, members[i].value, parts[i]);
  }

  Graph& g_;
  PassContext& ctx_;
  Order order_;
  size_t known_;            // nodes created later have larger ids
  std::vector<bool> seen_;  // by value: its users have been visited
  int64_t merged_ = 0;
  int64_t room_;  // remaining bytes for packed weights
};

}  // namespace

PassResult fuse_shared_input_matmul(Module& m, PassContext& ctx) {
  int64_t merged = 0;
  each_graph(m, [&](Graph& g) { merged += SharedInput(g, ctx).run(); });
  return {merged > 0, {{"matmul", merged}}};
}

}  // namespace rlxc
