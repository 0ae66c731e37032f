#include "passes/fuse/fuse_reduce_region.h"

#include <algorithm>

#include "passes/fuse/cost_decision.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kPattern = "reduce_region";

class ReduceRegions {
 public:
  ReduceRegions(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx) {}

  int64_t run() {
    int64_t found = 0;
    for (NodeId n : g_.nodes())
      if (g_.op(n) == OpKind::Reduce && can_be_core(n)) found += ctx_.rewrite([&] { return visit(n); });
    return found;
  }

 private:
  bool can_be_core(NodeId n) const {
    const DType t = g_.dtype(g_.result(n));
    return g_.attrs<ReduceAttrs>(n).op != ReduceOp::LogSumExp && !is_weight(g_, g_.result(n)) &&
           (t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16 || (is_integer(t) && bits(t) >= 8));
  }

  NodeId producer(NodeId n) {
    const ValueId x = g_.operand(n, 0);
    const NodeId p = g_.def(x);
    if (!is_steps(g_, p) || is_weight(g_, x)) return {};
    if (g_.has_one_use(x)) return p;
    decline(ctx_, g_, kPattern, n, "multi_consumer", std::to_string(g_.use_count(x)) + " readers of what is reduced",
            "what is reduced is stored for its other readers");
    return {};
  }
  NodeId follower(NodeId n) const {
    const ValueId y = g_.result(n);
    const NodeId f = g_.only_user(y);
    return f.valid() && f != g_.terminator() && is_steps(g_, f) && same_dims(g_, g_.result(f), y) ? f : NodeId();
  }

  bool visit(NodeId n) {
    const size_t first = ctx_.decisions.size();
    const NodeId before = producer(n), after = follower(n);
    std::vector<NodeId> members;
    for (NodeId k : {before, n, after})
      if (k.valid()) members.push_back(k);
    return members.size() > 1 && emit(n, before, after, members, first);
  }

  // v, which broadcasts to the result of n, with the reduced axes in it.
  ValueId with_axes(Builder& b, NodeId n, ValueId v) const {
    const auto& a = g_.attrs<ReduceAttrs>(n);
    if (a.keep_dim || g_.rank(v) == 0) return v;
    std::vector<Dim> sizes(static_cast<size_t>(g_.rank(g_.result(n)) - g_.rank(v)), Dim(1));
    sizes.insert(sizes.end(), g_.dims(v).begin(), g_.dims(v).end());
    std::vector<int64_t> axes = a.axes;
    std::ranges::sort(axes);
    for (int64_t axis : axes) sizes.insert(sizes.begin() + axis, Dim(1));
    return b.reshape(v, sizes);
  }

  bool emit(NodeId n, NodeId before, NodeId after, const std::vector<NodeId>& members, size_t first_decision) {
    const auto a = g_.attrs<ReduceAttrs>(n);
    const ValueId x = g_.operand(n, 0), y = g_.result(n), end = g_.result(members.back());
    RegionProgram p(g_);
    if (before.valid()) p.copy(before);
    p.add({OpKind::Reduce, g_.dtype(x), {p.code(x), RegionStep::kNone, RegionStep::kNone}, 0, 0}, y);
    const size_t inner = p.operands.size(), core = p.steps.size();
    if (after.valid()) p.copy(after);
    // An operand of both sides would need two shapes.
    for (size_t i = core; i < p.steps.size(); ++i)
      for (uint16_t arg : p.steps[i].args)
        if (arg < inner && !has_axes(p.operands[arg], a))
          return decline(ctx_, g_, kPattern, n, "layout", "the steps on both sides read one value");
    if (p.steps.size() > ctx_.target.region_max_steps)
      return decline(ctx_, g_, kPattern, n, "step_limit", std::to_string(p.steps.size()) + " steps");
    if (p.operands.size() > ctx_.target.region_max_inputs)
      return decline(ctx_, g_, kPattern, n, "operand_limit", std::to_string(p.operands.size()) + " operands");
    const fuse::CostDecision time = time_of(n, p, core, members);
    if (!time.pays()) return decline(ctx_, g_, kPattern, n, "cost", time.detail());

    Builder b(g_, nullptr, members.back());
    for (size_t i = inner; i < p.operands.size(); ++i) p.operands[i] = with_axes(b, n, p.operands[i]);
    NormRegionAttrs attrs;
    attrs.steps = std::move(p.steps), attrs.reduce = a.op, attrs.axes = a.axes;
    const NodeId region = b.create_node(OpKind::NormRegion, p.operands, std::move(attrs));
    if (!region.valid()) return decline(ctx_, g_, kPattern, n, "types", "the steps do not fit together");
    int64_t saved = 0;
    for (NodeId k : members)
      if (k != members.back()) saved += 2 * bytes(g_, g_.result(k));
    record_before(ctx_, first_decision, fused(g_, kPattern, n, members, saved));
    const std::vector<Dim> sizes(g_.dims(end).begin(), g_.dims(end).end());
    replace_group(g_, members, end, b.reshape(g_.result(region), sizes));
    return true;
  }

  // Does a value of the sizes before the reduction broadcast to the kept axes as it is?
  bool has_axes(ValueId v, const ReduceAttrs& a) const { return a.keep_dim || g_.rank(v) == 0; }

  // Work before the reduction falls into as many rows as there are results, that apart into as many as there are elements.
  fuse::CostDecision time_of(NodeId n, const RegionProgram& p, size_t core, const std::vector<NodeId>& members) const {
    const auto count = [&](ValueId v) { return static_cast<double>(num_elements(g_.type(v)).value_or(0)); };
    const double inner = count(g_.operand(n, 0)), outer = count(g_.result(n));
    const double rows = outer > 0 ? outer : static_cast<double>(int64_t{1} << 30);
    fuse::CostDecision time;
    for (NodeId k : members)
      time.apart_ns += launch_time_ns(node_cost(g_, k), ctx_.target.machine, k == n ? rows : std::max(count(g_.result(k)), 1.0));
    Cost c;
    const std::span steps(p.steps);
    c.flops = steps_flops(steps.first(core)) * inner + steps_flops(steps.subspan(core)) * outer;
    for (ValueId v : p.operands) c.bytes_read += bytes(g_, v);
    c.bytes_written = bytes(g_, g_.result(members.back()));
    time.together_ns = launch_time_ns(c, ctx_.target.machine, rows);
    return time;
  }

  Graph& g_;
  PassContext& ctx_;
};

}  // namespace

PassResult fuse_reduce_region(Module& m, PassContext& ctx) {
  int64_t found = 0;
  if (!ctx.target.native.test(static_cast<size_t>(OpKind::NormRegion))) return {};
  each_graph(m, [&](Graph& g) { found += ReduceRegions(g, ctx).run(); });
  return {found > 0, {{"reduce_region", found}}};
}

}  // namespace rlxc
