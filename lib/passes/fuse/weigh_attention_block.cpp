#include "passes/fuse/weigh_attention_block.h"

#include <algorithm>
#include <vector>

#include "analysis/views.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"

namespace rlxc {
namespace {

using namespace match;

constexpr int kSteps = 12;  // between attention and its projections

class Blocks {
 public:
  Blocks(Graph& g, PassContext& context) : g_(g), context_(context), position_(g.node_capacity()) {
    for (NodeId n : g.nodes()) {
      position_[n.raw] = order_.size();
      if (!has_trait(g.op(n), kLeaf | kTerminator) && !view_of(g, n) && g.result_count(n) && !is_weight(g, g.result(n)))
        order_.push_back(n);
    }
  }

  void run() {
    std::vector<NodeId> attentions;
    for (NodeId n : order_)
      if (g_.op(n) == OpKind::Attention) attentions.push_back(n);
    for (size_t i = 0; i < attentions.size(); ++i) {
      const NodeId n = attentions[i];
      const size_t first = projection_before(n), last = projection_after(n);
      weigh("attention_block", n, first, last);
      size_t end = i + 1 < attentions.size() ? projection_before(attentions[i + 1]) : last_product() + 1;
      weigh("transformer_layer", n, first, std::max(end, last + 1) - 1);
    }
  }

 private:
  bool is_product(NodeId n) const { return has_trait(g_.op(n), kBlas) && g_.op(n) != OpKind::Attention; }

  // The place of the earliest product that the operands of an attention come from, or of the attention.
  size_t projection_before(NodeId attention) const {
    size_t first = position_[attention.raw];
    for (size_t i = 0; i < g_.operands(attention).size() && i < 3; ++i) {
      ValueId v = g_.operand(attention, i);
      for (int step = 0; step < kSteps && v.valid() && !is_weight(g_, v); ++step) {
        const NodeId n = g_.def(v);
        if (has_trait(g_.op(n), kLeaf) || g_.op(n) == OpKind::Attention) break;
        if (is_product(n)) {
          first = std::min(first, position_[n.raw]);
          break;
        }
        v = g_.operands(n).empty() ? ValueId() : g_.operand(n, 0);
      }
    }
    return first;
  }
  size_t projection_after(NodeId attention) const {
    NodeId n = attention;
    for (int step = 0; step < kSteps; ++step) {
      n = g_.only_user(g_.result(n));
      if (!n.valid() || n == g_.terminator() || g_.result_count(n) == 0) break;
      if (is_product(n)) return position_[n.raw];
    }
    return position_[attention.raw];
  }
  size_t last_product() const {
    for (size_t i = order_.size(); i-- > 0;)
      if (is_product(order_[i])) return i;
    return order_.size() - 1;
  }

  void weigh(std::string_view pattern, NodeId n, size_t first, size_t last) {
    const Machine& machine = context_.target.machine;
    const auto inside = [&](NodeId k) {
      return k.valid() && !view_of(g_, k) && position_[k.raw] >= first && position_[k.raw] <= last;
    };
    fuse::CostDecision time;
    Cost whole;
    for (size_t i = first; i <= last; ++i) {
      const NodeId k = order_[i];
      const Cost c = node_cost(g_, k);
      time.apart_ns += launch_time_ns(c, machine);
      whole.flops += c.flops;
      for (ValueId v : g_.operands(k))
        if (v.valid() && !inside(g_.def(v)) && !view_of(g_, g_.def(v))) whole.bytes_read += bytes(g_, v);
    }
    whole.bytes_written = bytes(g_, g_.result(order_[last]));
    const auto batch = size_at(g_, g_.result(n), 0);
    time.together_ns = launch_time_ns(whole, machine, static_cast<double>(batch.value_or(int64_t{1} << 30)));
    context_.decisions.push_back(declined(g_, pattern, n, time.pays() ? "no_kernel" : "cost",
                                          std::to_string(last - first + 1) + " launches; " + time.detail()));
  }

  Graph& g_;
  PassContext& context_;
  std::vector<size_t> position_;  // in `order_`; of what is no launch, of the next one
  std::vector<NodeId> order_;
};

}  // namespace

PassResult weigh_attention_block(Module& m, PassContext& context) {
  if (context.target.native.test(static_cast<size_t>(OpKind::Attention)))
    each_graph(m, [&](Graph& g) { Blocks(g, context).run(); });
  return {};
}

}  // namespace rlxc
