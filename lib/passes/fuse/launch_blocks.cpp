#include "passes/fuse/launch_blocks.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "analysis/phases.h"
#include "analysis/views.h"
#include "codegen/kernel_fusion.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"
#include "support/checked.h"

namespace rlxc::fuse {
namespace {

using namespace match;

constexpr int kSteps = 12;          // limit on nodes between attention and its projections
constexpr double kUnitLanes = 256;  // result elements that occupy one unit

bool has_attention(const Graph& g) {
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::Attention) return true;
  return false;
}

// Both kinds of blocks are looked for in the same graph.
std::shared_ptr<const LaunchFacts> launch_facts(const Graph& g, const PassContext& context) {
  if (!context.launches || context.launches->graph != g.id())
    context.launches = std::make_shared<LaunchFacts>(LaunchFacts{g.id(), derive_phases(g), assign_layouts(g)});
  return context.launches;
}

class Blocks {
 public:
  Blocks(Graph& g, PassContext& context, BlockKind kind)
      : g_(g),
        context_(context),
        kind_(kind),
        facts_(launch_facts(g, context)),
        phases_(facts_->phases),
        layouts_(facts_->layouts),
        position_(g.node_capacity()) {
    for (NodeId n : g.nodes()) {
      position_[n.raw] = order_.size();
      if (g.result_count(n) && is_launch(g, layouts_, n, phases_[n.raw])) order_.push_back(n);
    }
  }

  // Returns the number of formed launches. `number` counts all attentions of the module.
  int64_t run(int64_t* number) {
    std::vector<NodeId> attentions;
    for (NodeId n : order_)
      if (g_.op(n) == OpKind::Attention) attentions.push_back(n);
    int64_t formed = 0;
    for (size_t i = 0; i < attentions.size(); ++i, ++*number) {
      const NodeId n = attentions[i];
      if (g_.launch(n).valid()) continue;
      const size_t first = projection_before(n), last = projection_after(n);
      const size_t end = i + 1 < attentions.size() ? projection_before(attentions[i + 1]) : last_product() + 1;
      const std::span block = std::span(order_).subspan(first, last - first + 1),
                      layer = std::span(order_).subspan(first, std::max(end, last + 1) - first);
      formed += context_.rewrite(
          [&] { return kind_ == BlockKind::Layer ? form(n, layer, block, *number) : form(n, block, {}, *number); });
    }
    return formed;
  }

 private:
  bool is_product(NodeId n) const { return has_trait(g_.op(n), kBlas) && g_.op(n) != OpKind::Attention; }

  // Position of the earliest matmul that the operands of an attention depend on, or of the attention.
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

  bool is_static(NodeId n) const {
    const auto known = [&](ValueId v) { return !v.valid() || g_.type(v).is_static(); };
    for (size_t r = 0; r < g_.result_count(n); ++r)
      if (!known(g_.result(n, r))) return false;
    return std::ranges::all_of(g_.operands(n), known);
  }

  // Compares one launch on a single unit with separate launches on as many units as each kernel can occupy.
  CostDecision time_of(std::span<const NodeId> nodes) const {
    const Machine& machine = context_.target.machine;
    CostDecision time{machine.launch_ns, 0};
    for (NodeId n : nodes) {
      const Cost c = node_cost(g_, n);
      const double elements = static_cast<double>(num_elements(g_.type(g_.result(n))).value_or(0));
      time.fused_ns += work_time_ns(c, machine, 1);
      time.separate_ns += launch_time_ns(c, machine, elements / kUnitLanes);
    }
    return time;
  }

  // batch * tokens
  int64_t rows_of(NodeId attention) const {
    const auto dims = g_.dims(g_.result(attention));
    const size_t tokens = g_.attrs<AttentionAttrs>(attention).out_layout == AttentionLayout::BHSD ? 2 : 1;
    return checked_mul(dims[0].size(), dims[tokens].size()).value_or(std::numeric_limits<int64_t>::max());
  }

  // A node in the range that cannot be part of the launch, if any.
  NodeId apart(std::span<const NodeId> nodes) const {
    for (NodeId n = nodes.front();; n = g_.next(n)) {
      const bool member = position_[n.raw] < order_.size() && order_[position_[n.raw]] == n;
      const bool moved = has_trait(g_.op(n), kLeaf) || layouts_.is_view(g_, n) || phases_[n.raw] == Phase::Prologue;
      if (has_trait(g_.op(n), kBody) || g_.launch(n).valid() || !(member || moved)) return n;
      if (n == nodes.back()) return {};
    }
  }

  // `smaller`: a shorter block that could be one launch instead, next to separate launches of the rest.
  bool form(NodeId attention, std::span<const NodeId> nodes, std::span<const NodeId> smaller, int64_t number) {
    const std::string pattern = kind_ == BlockKind::Layer ? "transformer_layer" : "attention_block";
    const auto no = [&](std::string_view reason, const std::string& detail) {
      return decline(context_, g_, pattern, attention, reason, std::to_string(nodes.size()) + " launches; " + detail);
    };
    if (!std::ranges::all_of(nodes, [&](NodeId n) { return is_static(n); })) return no("dynamic_shape", "their sizes vary");
    CostDecision time = time_of(nodes);
    if (const CostDecision part = time_of(smaller); !smaller.empty() && part.pays())
      time.separate_ns -= part.separate_ns - part.fused_ns;
    if (const auto limit = context_.options.fuse_attn_threshold) {
      const int64_t rows = rows_of(attention);
      if (static_cast<uint64_t>(rows) > *limit)
        return no("threshold", std::to_string(rows) + " rows, of " + std::to_string(*limit));
    } else if (!time.pays()) {
      return no("cost", time.detail());
    }
    if (!context_.lowerings) return no("no_kernel", time.detail());
    if (const NodeId n = apart(nodes); n.valid()) return no("kernel_limit", g_.label(n).quoted() + " has a launch of its own");
    std::string detail;
    if (!codegen::can_fuse_kernels(g_, layouts_, nodes, *context_.lowerings, &detail)) return no("kernel_limit", detail);
    const Symbol launch = g_.module().symbol(pattern + "_" + std::to_string(number));
    for (NodeId n : nodes) g_.set_launch(n, launch);
    Decision d = fused(g_, pattern, attention, nodes);
    d.detail = time.detail();
    context_.decisions.push_back(std::move(d));
    return true;
  }

  Graph& g_;
  PassContext& context_;
  BlockKind kind_;
  const std::shared_ptr<const LaunchFacts> facts_;
  const std::vector<Phase>& phases_;
  const GraphLayouts& layouts_;
  std::vector<size_t> position_;  // index in `order_`; nodes without a launch have the index of the next launch
  std::vector<NodeId> order_;
};

}  // namespace

PassResult form_blocks(Module& m, PassContext& context, BlockKind kind) {
  int64_t formed = 0, number = 0;
  if (context.target.native.test(static_cast<size_t>(OpKind::Attention)))
    each_graph(m, [&](Graph& g) {
      if (has_attention(g)) formed += Blocks(g, context, kind).run(&number);
    });
  return {formed > 0, {{"formed", formed}}};
}

}  // namespace rlxc::fuse
