// Merges matmuls of one value with several weights (Q, K and V; gate and up) into one matmul. Weights and biases are concatenated
// at load time; users read slices of the result. If a user needs a copy of its slice, the copies must cost less than the saved
// launches and reads.
#include <algorithm>

#include "passes/fuse/epilogue.h"
#include "passes/fuse/shared_input.h"
#include "passes/fuse/weight_matmul.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

class SharedFloats final : public fuse::SharedInput {
 public:
  using SharedInput::SharedInput;

 private:
  bool candidate(NodeId n) const override {
    return fuse::is_weight_matmul(g_, n) && g_.operand(n, 0) != g_.operand(n, 1) && is_float(g_, g_.result(n)) &&
           g_.dims(g_.result(n)).back() != Dim(0) && !is_weight(g_, g_.result(n));
  }

  bool has_weights(NodeId n) const override {
    return std::ranges::all_of(g_.operands(n).subspan(1), [&](ValueId v) { return !v.valid() || on_load(v); });
  }

  const char* conflict(NodeId a, NodeId b) override { return fuse::packing_conflict(g_, a, b); }

  Member member(NodeId n) const override {
    Member m = SharedInput::member(n);
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

  // The epilogue (activation or residual) that the matmul would lose as a slice of a larger one, because it becomes a launch of
  // its own. Invalid if the sole user of the epilogue, an elementwise op or norm, would fuse with it anyway.
  NodeId lost_end(const Member& m) const override {
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

  ValueId merged(std::vector<Member>& members, ValueId x) override {
    bool biased = false, sized = true;
    for (const Member& m : members) {
      biased = biased || m.bias.valid();
      sized = sized && g_.dims(m.value).back().is_static();
    }
    if (biased && !sized)  // a missing bias would need zeros of a symbolic length
      for (Member& m : members) m = SharedInput::member(m.matmul);
    biased = biased && sized;
    const NodeId at = members[0].matmul;
    std::vector<ValueId> biases;
    std::vector<NodeId> nodes;
    Builder b(g_, nullptr, at);
    for (const Member& m : members) {
      for (ValueId v : g_.operands(m.matmul).subspan(1))
        if (v.valid()) hoist(v, at);
      nodes.push_back(m.matmul);
      if (!biased) continue;
      if (m.bias.valid()) {
        hoist(m.bias, at);
        biases.push_back(as_row(b, m.bias, m.value));
        continue;
      }
      const DType t = g_.dtype(m.value);
      biases.push_back(b.constant(make_splat(t, {g_.dims(m.value).back().size()}, element_bytes(t, 0))));
    }
    ValueId y = fuse::concatenated_matmul(b, x, nodes);
    if (biased) y = b.add(y, b.concat(biases, 0));
    return y;
  }
};

}  // namespace

PassResult fuse_shared_input_matmul(Module& m, PassContext& ctx) {
  int64_t merged = 0;
  each_graph(m, [&](Graph& g) { merged += SharedFloats(g, ctx).run(); });
  return {merged > 0, {{"matmul", merged}}};
}

}  // namespace rlxc
