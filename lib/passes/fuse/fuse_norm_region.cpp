// Fuses a LayerNorm, RmsNorm, GroupNorm, fused residual norm, or softmax of the last axis with adjacent elementwise nodes into
// one NormRegion: prologues (residuals, gates, masks) and epilogues (scale, shift, activation). Also merges consecutive
// LayerNorms and RmsNorms over the same rows. Runs after mark_elementwise_regions. Fuses only if that is not slower
// (analysis/cost.h).
#include <algorithm>
#include <optional>

#include "ir/region.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/region_step.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostSumReaders = 64;  // limit on visited users of a sum
constexpr size_t kMostFollowers = 4;    // limit on elementwise nodes after a norm

class NormRegions {
 public:
  NormRegions(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), order_(g) {}

  int64_t run() {
    int64_t found = 0;
    for (NodeId n : g_.nodes()) found += is_norm(n) && ctx_.rewrite([&] { return visit(n); });
    return found;
  }

 private:
  bool is_summed(NodeId n) const { return g_.op(n) == OpKind::FusedResidualLN || g_.op(n) == OpKind::FusedResidualRmsNorm; }
  bool is_norm(NodeId n) const {
    const OpKind op = g_.op(n);
    if (is_softmax(n) && g_.attrs<AxisAttrs>(n).axis != g_.rank(g_.result(n)) - 1) return false;
    return (op == OpKind::LayerNorm || op == OpKind::RmsNorm || op == OpKind::GroupNorm || is_summed(n) || is_softmax(n)) &&
           is_float(g_, g_.result(n));
  }
  bool is_softmax(NodeId n) const { return g_.op(n) == OpKind::Softmax || g_.op(n) == OpKind::LogSoftmax; }
  std::string_view pattern(NodeId n) const { return is_softmax(n) ? "softmax_region" : "norm_region"; }

  bool decline(NodeId n, std::string_view reason, std::string detail) {
    return match::decline(ctx_, g_, pattern(n), n, reason, std::move(detail));
  }

  // The first normalised axis, for norms that may share rows with another norm.
  std::optional<int64_t> rows_from(NodeId n) const {
    if (g_.op(n) == OpKind::NormRegion) {
      const auto& steps = g_.attrs<FusionAttrs>(n).steps;
      const auto* norm = std::get_if<NormAttrs>(&steps[last_norm_step(steps)].attrs);
      return norm ? std::optional(norm->axis) : std::nullopt;
    }
    const bool whole = g_.op(n) == OpKind::LayerNorm || g_.op(n) == OpKind::RmsNorm || is_summed(n);
    return whole ? std::optional(g_.attrs<NormAttrs>(n).axis) : std::nullopt;
  }

  // The producer of v if it can become steps of n: computed at run time, same shape, and elementwise or a norm of the same rows.
  NodeId producer(NodeId n, ValueId v) const {
    if (!v.valid() || !same_dims(g_, v, g_.result(n)) || is_weight(g_, v)) return {};
    const NodeId p = g_.def(v);
    if (is_steps(g_, p)) return p;
    const auto own = rows_from(n);
    return own && own == rows_from(p) && same_type(g_, v, g_.result(n)) && v == g_.result(p) ? p : NodeId();
  }
  // The elementwise node that reads y. If others read y, too, those that narrow it (a Quantize or a cast), in execution order: y
  // is then written beside their results.
  std::vector<NodeId> followers(ValueId y) const {
    const auto follows = [&](NodeId n) { return n != g_.terminator() && is_steps(g_, n) && same_dims(g_, g_.result(n), y); };
    if (const NodeId n = g_.only_user(y); n.valid()) return follows(n) ? std::vector{n} : std::vector<NodeId>();
    std::vector<NodeId> found;
    if (g_.use_count(y) > kMostSumReaders) return found;
    for (const auto use : g_.uses(y))
      if (follows(use.user) && bits(g_.dtype(g_.result(use.user))) < bits(g_.dtype(y)) &&
          std::ranges::find(found, use.user) == found.end())
        found.push_back(use.user);
    std::ranges::sort(found, {}, [&](NodeId n) { return order_.at(n); });
    if (found.size() > kMostFollowers) found.resize(kMostFollowers);
    return found;
  }

  // Returns whether nodes other than `members` read v before `root`, at which v will be computed.
  bool read_before(ValueId v, NodeId root, std::span<const NodeId> members) const {
    if (g_.use_count(v) > kMostSumReaders) return true;
    for (const auto use : g_.uses(v))
      if (use.user != g_.terminator() && std::ranges::find(members, use.user) == members.end() &&
          order_.at(use.user) < order_.at(root))
        return true;
    return false;
  }

  bool is_read_outside(ValueId v, std::span<const NodeId> members) const {
    for (const auto use : g_.uses(v))
      if (std::ranges::find(members, use.user) == members.end()) return true;
    return false;
  }

  bool visit(NodeId n) {
    std::vector<NodeId> before;
    for (size_t i = 0; i < (is_summed(n) ? 2U : 1U); ++i) {
      const NodeId p = producer(n, g_.operand(n, i));
      if (p.valid() && (!is_summed(n) || g_.has_one_use(g_.result(p)))) before.push_back(p);
    }
    const size_t first = ctx_.decisions.size();
    const auto gives_more = [&](NodeId p) {
      bool more = false;
      for (size_t r = 1; rows_from(p) && r < g_.result_count(p); ++r) more = more || g_.use_count(g_.result(p, r)) > 0;
      return more;
    };
    if (std::ranges::any_of(before, gives_more)) {
      decline(n, "results", "what the norm before it normalises is read elsewhere");
      std::erase_if(before, gives_more);
    }
    beyond_limit_ = false;
    if (join(n, before, first)) return true;
    const size_t all = before.size();
    std::erase_if(before, [&](NodeId p) { return rows_from(p).has_value(); });
    if (before.size() < all && join(n, before, first)) return true;
    return beyond_limit_ && !before.empty() && join(n, before, first, false);
  }

  // `first`: index of the first decision about n. `followed`: with the nodes after it.
  bool join(NodeId n, std::vector<NodeId> before, size_t first, bool followed = true) {
    const ValueId y = g_.result(n), sum = is_summed(n) ? g_.result(n, 1) : g_.operand(n, 0);
    std::vector<NodeId> after = followed ? followers(y) : std::vector<NodeId>();
    const bool shared = !is_summed(n) && !before.empty() && !g_.has_one_use(sum);  // the producer has other users
    std::vector<NodeId> members = before;
    members.push_back(n);
    members.insert(members.end(), after.begin(), after.end());
    const auto drop = [&](std::string_view what) {
      decline(n, "read_before", std::string(what) + " is read before " + g_.label(after.back()).line());
      members.pop_back();
      after.pop_back();
    };
    while (!after.empty()) {
      const NodeId root = after.back();
      const auto early = [&](NodeId k) { return k != root && read_before(g_.result(k), root, members); };
      if (read_before(y, root, members)) drop("its result");
      else if (std::ranges::any_of(after, early)) drop("what follows it");
      else if ((shared || is_summed(n)) && read_before(sum, root, members)) drop("what is normalised");
      else break;
    }
    if (shared && read_before(sum, members.back(), members)) {
      decline(n, "read_before", "what is normalised is read before it is");
      members.erase(members.begin());
      before.clear();
    }
    return members.size() > 1 && emit(n, before, after, members, sum, first);
  }

  // Scale or shift of the norm, reshaped to broadcast to y.
  ValueId affine(NodeId n, size_t i, Builder& b) const {
    const ValueId v = g_.operand(n, is_summed(n) ? i + 2 : i);
    if (!v.valid() || g_.op(n) != OpKind::GroupNorm) return v;
    std::vector<Dim> sizes(static_cast<size_t>(g_.rank(g_.result(n))) - 1, Dim(1));
    sizes[0] = g_.dims(v)[0];
    return b.reshape(v, sizes);
  }

  bool has_one_type(NodeId n) const {
    if (g_.op(n) == OpKind::NormRegion) return true;
    return std::ranges::all_of(g_.operands(n), [&](ValueId v) { return !v.valid() || g_.dtype(v) == g_.dtype(g_.result(n)); });
  }

  RegionStep core(NodeId n, uint16_t of) const {
    RegionStep s = core_step(g_, n);
    if (s.op == OpKind::FusedResidualLN) s.op = OpKind::LayerNorm;
    if (s.op == OpKind::FusedResidualRmsNorm) s.op = OpKind::RmsNorm;
    s.args[0] = of;
    return s;
  }

  // Appends the steps of a norm and returns the index of the norm step.
  size_t copy_norm(NodeId n, RegionProgram& p, ValueId gamma, ValueId beta) const {
    const ValueId y = g_.result(n);
    const DType t = g_.dtype(y);
    if (is_summed(n)) {
      const bool biased = g_.operand(n, 2).valid();
      const ValueId sum = g_.result(n, 1);
      const uint16_t s = p.add(OpKind::Add, t, p.code(g_.operand(n, 0)), p.code(g_.operand(n, 1)), biased ? ValueId() : sum);
      if (biased) p.add(OpKind::Add, t, s, p.code(g_.operand(n, 2)), sum);
    }
    const uint16_t of = p.code(is_summed(n) ? g_.result(n, 1) : g_.operand(n, 0));
    const size_t at = p.steps.size();
    uint16_t last = p.add(core(n, of), gamma.valid() || beta.valid() ? ValueId() : y);
    if (gamma.valid()) last = p.add(OpKind::Mul, t, last, p.code(gamma), beta.valid() ? ValueId() : y);
    if (beta.valid()) p.add(OpKind::Add, t, last, p.code(beta), y);
    return at;
  }

  bool emit(NodeId n, const std::vector<NodeId>& before, const std::vector<NodeId>& after, const std::vector<NodeId>& members,
            ValueId sum, size_t first) {
    const ValueId y = g_.result(n);
    const NodeId root = members.back();
    if (!std::ranges::all_of(members, [&](NodeId k) { return k == n || rows_from(k) ? has_one_type(k) : true; }))
      return decline(n, "mixed_types", "scale and shift have another type");
    Builder b(g_, nullptr, root);
    RegionProgram p(g_);
    for (NodeId k : before) {
      if (is_steps(g_, k) || g_.op(k) == OpKind::NormRegion) p.copy(k);
      else copy_norm(k, p, affine(k, 1, b), affine(k, 2, b));
    }
    FusionAttrs attrs;
    const ValueId gamma = affine(n, 1, b), beta = affine(n, 2, b);
    const size_t at = copy_norm(n, p, gamma, beta);
    // The values of `also`: y, and the results of all followers but the last.
    std::vector<ValueId> also;
    const auto write = [&](ValueId v) {
      also.push_back(v);
      attrs.also.push_back(static_cast<int64_t>(p.steps.size()) - 1);
    };
    if (!after.empty() && is_read_outside(y, members)) write(y);
    for (NodeId k : after) {
      p.copy(k);
      if (k != root) write(g_.result(k));
    }

    const bool shared = (is_summed(n) || !before.empty()) && is_read_outside(sum, members);
    const auto give_up = [&](std::string_view reason, std::string detail) {
      for (ValueId v : {gamma, beta})
        if (v.valid()) erase_dead(g_, g_.def(v));
      return decline(n, reason, std::move(detail));
    };
    const bool keep = is_step(p.steps[at].args[0]) && (shared || (at > 0 && keeping_is_faster(p, at, sum)));
    if (keep) attrs.also.insert(attrs.also.begin(), p.steps[at].args[0] & ~RegionStep::kStep);
    beyond_limit_ = p.steps.size() > ctx_.target.region_max_steps;
    if (beyond_limit_) return give_up("step_limit", std::to_string(p.steps.size()) + " steps");
    if (const size_t all = p.operands.size() + attrs.also.size(); all > ctx_.target.region_max_inputs)
      return give_up("operand_limit", std::to_string(all) + " operands and results");
    const double rows = independent_rows(n, p.steps[at]);
    fuse::CostDecision time;
    for (NodeId k : members)
      time.separate_ns += launch_time_ns(node_cost(g_, k), ctx_.target.machine, k == n || rows_from(k) ? rows : elements(y));
    Cost together = cost(p, at, g_.result(root), keep, sum);
    for (ValueId v : also) together.bytes_written += bytes(g_, v);
    time.fused_ns = launch_time_ns(together, ctx_.target.machine, rows);
    if (!time.pays()) return give_up("cost", time.detail());

    attrs.steps = std::move(p.steps);
    const size_t of_y = keep ? 2 : 1;  // the first result after the operand of the norm
    const NodeId region = b.create_node(OpKind::NormRegion, p.operands, std::move(attrs));
    if (!region.valid()) return give_up("types", "the steps do not fit together");
    record_before(ctx_, first, fused(g_, pattern(n), n, members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g_, y)));
    replace_group(g_, members, g_.result(root), g_.result(region, 0));
    for (size_t i = 0; i < also.size(); ++i) replace(g_, also[i], g_.result(region, of_y + i));
    if (shared && keep) replace(g_, sum, g_.result(region, 1));
    return true;
  }

  double elements(ValueId v) const { return static_cast<double>(num_elements(g_.type(v)).value_or(0)); }

  // Compares recomputing the steps before the norm in each walk over a row with storing their result once.
  bool keeping_is_faster(const RegionProgram& p, size_t at, ValueId sum) const {
    Cost again, stored;
    again.flops = 2 * steps_flops(std::span(p.steps).first(at)) * elements(sum);
    stored.bytes_written = bytes(g_, sum);
    return launch_time_ns(stored, ctx_.target.machine) < launch_time_ns(again, ctx_.target.machine);
  }

  Cost cost(const RegionProgram& p, size_t at, ValueId result, bool keep, ValueId sum) const {
    Cost c;
    c.flops = (steps_flops(p.steps) + (keep ? 0 : 2 * steps_flops(std::span(p.steps).first(at)))) * elements(result);
    for (ValueId v : p.operands) c.bytes_read += bytes(g_, v);
    c.bytes_written = bytes(g_, result) + (keep ? bytes(g_, sum) : 0);
    return c;
  }

  double independent_rows(NodeId n, const RegionStep& norm) const {
    const auto d = g_.dims(g_.result(n));
    DimTable& dims = g_.module().dims;
    const Dim rows = norm.op == OpKind::GroupNorm ? dims.mul(d[0], Dim(norm.as<GroupNormAttrs>().groups))
                                                  : dims.product(d.first(static_cast<size_t>(norm_axis(norm))));
    return static_cast<double>(dims.constant_value(rows).value_or(int64_t{1} << 30));
  }

  Graph& g_;
  PassContext& ctx_;
  Order order_;
  bool beyond_limit_ = false;  // whether the last program had too many steps
};

}  // namespace

PassResult fuse_norm_region(Module& m, PassContext& ctx) {
  int64_t found = 0;
  if (!ctx.target.native.test(static_cast<size_t>(OpKind::NormRegion))) return {};
  each_graph(m, [&](Graph& g) { found += NormRegions(g, ctx).run(); });
  return {found > 0, {{"norm_region", found}}};
}

}  // namespace rlxc
