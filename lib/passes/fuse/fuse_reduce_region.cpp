// Fuses a Reduce with the elementwise nodes that produce its operand and those that read its result into one ReduceRegion, if
// they have no other users: sum(x*mask) / sum(mask), mean of squares, a scale from max(|x|). Over the last axes also nodes that
// read the rows again and further reductions: x / sum(x), an unfused softmax. Declines ("reduce_region"): other users, reduced
// axes that are not the last, target limits, and "cost" if few rows leave the target underused. O(nodes).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kPattern = "reduce_region";
constexpr size_t kMostReaders = 16;  // limit on visited users of a value
constexpr size_t kMostMembers = 64;

// Shapes of a group of nodes around reductions over `axes`.
struct Rows {
  std::vector<Dim> whole, kept, bare;  // operand shape of the reductions, with reduced dims 1, without reduced dims
  std::vector<int64_t> axes;           // ascending
  bool last_axes = false;
};
enum class Form : uint8_t { Whole, Kept, Bare, Other };

// Nodes to fuse, users before producers.
struct ReduceGroup {
  std::vector<NodeId> members;
  size_t reductions = 0;
  bool blocked = false;  // declined: a result as large as the rows needs reductions over the last axes

  bool has(NodeId n) const { return std::ranges::find(members, n) != members.end(); }
};

class ReduceRegions {
 public:
  ReduceRegions(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), order_(g) {}

  int64_t run() {
    std::vector<NodeId> reductions;
    for (NodeId n : g_.nodes())
      if (can_be_core(n)) reductions.push_back(n);
    int64_t found = 0;
    for (auto n = reductions.rbegin(); n != reductions.rend(); ++n)
      if (g_.alive(*n)) found += ctx_.rewrite([&] { return visit(*n); });
    return found;
  }

 private:
  bool can_be_core(NodeId n) const {
    if (g_.op(n) != OpKind::Reduce) return false;
    const auto& a = g_.attrs<ReduceAttrs>(n);
    const DType t = g_.dtype(g_.result(n));
    return a.op != ReduceOp::LogSumExp && !a.axes.empty() && !is_weight(g_, g_.result(n)) &&
           (t == DType::F64 || t == DType::F32 || t == DType::F16 || t == DType::BF16 || (is_integer(t) && bits(t) >= 8));
  }

  Rows rows_of(NodeId n) const {
    Rows r;
    const auto d = g_.dims(g_.operand(n, 0));
    r.axes = g_.attrs<ReduceAttrs>(n).axes;
    std::ranges::sort(r.axes);
    for (size_t i = 0; i < d.size(); ++i) {
      const bool reduced = std::ranges::binary_search(r.axes, static_cast<int64_t>(i));
      r.whole.push_back(d[i]);
      r.kept.push_back(reduced ? Dim(1) : d[i]);
      if (!reduced) r.bare.push_back(d[i]);
    }
    r.last_axes = r.axes.front() == static_cast<int64_t>(d.size() - r.axes.size());
    return r;
  }

  Form form(const Rows& r, ValueId v) const {
    const auto d = g_.dims(v);
    if (std::ranges::equal(d, r.whole)) return Form::Whole;
    return std::ranges::equal(d, r.kept) ? Form::Kept : std::ranges::equal(d, r.bare) ? Form::Bare : Form::Other;
  }

  // Returns whether n is a Reshape that adds or drops the reduced axes of dim 1.
  bool is_view(const Rows& r, NodeId n) const {
    if (g_.op(n) != OpKind::Reshape) return false;
    const Form from = form(r, g_.operand(n, 0)), to = form(r, g_.result(n));
    return (from == Form::Bare && to == Form::Kept) || (from == Form::Kept && to == Form::Bare);
  }
  bool reduces_rows(const Rows& r, NodeId n) const {
    return can_be_core(n) && form(r, g_.operand(n, 0)) == Form::Whole && rows_of(n).axes == r.axes;
  }
  bool fits(const Rows& r, NodeId n) const {
    if (!g_.result_count(n) || is_weight(g_, g_.result(n))) return false;
    return is_view(r, n) || reduces_rows(r, n) || (is_steps(g_, n) && form(r, g_.result(n)) != Form::Other);
  }
  // Returns whether this member reads v elementwise in the region: both without the reduced axes, or both with them.
  bool reads_rows(const Rows& r, NodeId member, ValueId v) const {
    if (!is_steps(g_, member)) return true;
    return (form(r, g_.result(member)) == Form::Bare) == (form(r, v) == Form::Bare);
  }

  // Candidates for the last node of a region around n, farthest first.
  std::vector<NodeId> ends(const Rows& r, NodeId n) const {
    std::vector<NodeId> path{n};
    while (path.size() < kMostMembers && g_.use_count(g_.result(path.back())) <= kMostReaders) {
      NodeId latest;
      for (const Graph::Use use : g_.uses(g_.result(path.back())))
        if (use.user != g_.terminator() && fits(r, use.user) && (!latest.valid() || order_.at(use.user) > order_.at(latest)))
          latest = use.user;
      if (!latest.valid()) break;
      path.push_back(latest);
    }
    std::erase_if(path, [&](NodeId k) { return is_view(r, k); });
    std::ranges::reverse(path);
    return path;
  }

  // The largest group that ends at `end` and whose inner values have no users outside.
  ReduceGroup group_of(const Rows& r, NodeId end) const {
    ReduceGroup group{{end}, g_.op(end) == OpKind::Reduce ? 1U : 0U};
    const bool whole = form(r, g_.result(end)) == Form::Whole;
    const auto joins = [&](ValueId v) {
      const NodeId n = g_.def(v);
      if (group.has(n) || !fits(r, n) || g_.use_count(v) > kMostReaders) return false;
      for (const Graph::Use use : g_.uses(v))
        if (!group.has(use.user) || !reads_rows(r, use.user, v)) return false;
      if (g_.op(n) != OpKind::Reduce || r.last_axes) return true;
      group.blocked |= whole;
      return !whole && group.reductions == 0;
    };
    for (bool grown = true; grown;) {
      grown = false;
      for (size_t i = 0; i < group.members.size() && group.members.size() < kMostMembers; ++i)
        for (ValueId v : g_.operands(group.members[i])) {
          if (!v.valid() || !joins(v)) continue;
          group.members.push_back(g_.def(v));
          grown = true;
          group.reductions += g_.op(g_.def(v)) == OpKind::Reduce;
        }
    }
    return without_outer_views(r, std::move(group));
  }

  // Drops views of values outside of the group.
  ReduceGroup without_outer_views(const Rows& r, ReduceGroup group) const {
    for (size_t i = group.members.size(); i-- > 0;)
      if (const NodeId k = group.members[i]; is_view(r, k) && !group.has(g_.def(g_.operand(k, 0))))
        group.members.erase(group.members.begin() + static_cast<std::ptrdiff_t>(i));
    return group;
  }

  // The group without nodes that each walk over a row would recompute although no reduction depends on them.
  ReduceGroup computed_once(const Rows& r, const ReduceGroup& all) const {
    std::vector<bool> reduced(all.members.size());
    for (size_t i = all.members.size(); i-- > 0;) {
      reduced[i] = g_.op(all.members[i]) == OpKind::Reduce;
      for (size_t k = i + 1; k < all.members.size(); ++k)
        reduced[i] = reduced[i] || (reduced[k] && reads(all.members[i], all.members[k]));
    }
    ReduceGroup left{{all.members[0]}};
    for (size_t i = 1; i < all.members.size(); ++i) {
      const ValueId v = g_.result(all.members[i]);
      const bool again = !reduced[i] && form(r, v) == Form::Whole && !g_.has_one_use(v);
      const bool inside = std::ranges::all_of(g_.uses(v), [&](const Graph::Use& use) { return left.has(use.user); });
      if (!again && inside) left.members.push_back(all.members[i]);
    }
    return without_outer_views(r, std::move(left));
  }
  bool reads(NodeId reader, NodeId n) const {
    return std::ranges::find(g_.operands(reader), g_.result(n)) != g_.operands(reader).end();
  }

  bool is_region_around(NodeId n, const Rows& r, const ReduceGroup& group) const {
    return group.has(n) && std::ranges::count_if(group.members, [&](NodeId k) { return !is_view(r, k); }) > 1;
  }

  bool visit(NodeId n) {
    const Rows r = rows_of(n);
    const size_t first = ctx_.decisions.size();
    for (NodeId end : ends(r, n)) {
      ReduceGroup group = group_of(r, end);
      if (group.blocked && g_.only_user(g_.result(n)).valid())
        refuse(n, first, "axes", "rows that do not go along the last axes");
      if (!is_region_around(n, r, group)) continue;
      if (!time_of(r, program_of(r, group), group).pays()) group = computed_once(r, group);
      if (is_region_around(n, r, group) && emit(r, n, group, first)) return true;
    }
    if (ctx_.decisions.size() == first) note_shared(n);
    return false;
  }

  // Records the first decline of a reduction only, for its largest group.
  bool refuse(NodeId n, size_t first_decision, std::string_view reason, std::string detail) {
    return ctx_.decisions.size() == first_decision && decline(ctx_, g_, kPattern, n, reason, std::move(detail));
  }

  void note_shared(NodeId n) {
    const ValueId x = g_.operand(n, 0);
    if (is_steps(g_, g_.def(x)) && !is_weight(g_, x) && !g_.has_one_use(x))
      decline(ctx_, g_, kPattern, n, "multi_consumer", std::to_string(g_.use_count(x)) + " readers of what is reduced",
              "what is reduced is stored for its other readers");
  }

  // Reshapes v, which broadcasts to values without the reduced axes, to broadcast to values with them.
  ValueId with_axes(Builder& b, const Rows& r, ValueId v) const {
    std::vector<Dim> sizes(r.bare.size() - static_cast<size_t>(g_.rank(v)), Dim(1));
    sizes.insert(sizes.end(), g_.dims(v).begin(), g_.dims(v).end());
    for (int64_t axis : r.axes) sizes.insert(sizes.begin() + axis, Dim(1));
    return b.reshape(v, sizes);
  }

  // Steps of a group; operands read by steps with the reduced axes, and by steps without them.
  struct Program {
    RegionProgram p;
    std::vector<ValueId> with, without;
  };
  Program program_of(const Rows& r, const ReduceGroup& group) const {
    Program made{RegionProgram(g_), {}, {}};
    RegionProgram& p = made.p;
    for (auto k = group.members.rbegin(); k != group.members.rend(); ++k) {
      const ValueId y = g_.result(*k);
      auto& read = form(r, y) == Form::Bare && is_steps(g_, *k) ? made.without : made.with;
      if (is_view(r, *k)) {
        p.give(y, p.code(g_.operand(*k, 0)));
        continue;
      }
      for (ValueId v : g_.operands(*k))
        if (g_.rank(v) > 0 && !group.has(g_.def(v))) read.push_back(v);
      if (g_.op(*k) == OpKind::Reduce) {
        const uint16_t x = p.code(g_.operand(*k, 0));
        const ReduceAttrs attrs{g_.attrs<ReduceAttrs>(*k).op, r.axes, true};
        p.add({OpKind::Reduce, g_.dtype(y), {x, RegionStep::kNone, RegionStep::kNone}, attrs}, y);
      } else {
        p.copy(*k);
      }
    }
    return made;
  }

  bool emit(const Rows& r, NodeId n, const ReduceGroup& group, size_t first_decision) {
    const std::vector<NodeId> members(group.members.rbegin(), group.members.rend());
    const ValueId end = g_.result(members.back());
    const Program program = program_of(r, group);
    const std::vector<ValueId>& without = program.without;
    RegionProgram p = program.p;
    if (std::ranges::any_of(without, [&](ValueId v) { return std::ranges::find(program.with, v) != program.with.end(); }))
      return refuse(n, first_decision, "layout", "the steps on both sides read one value");
    if (p.steps.size() > ctx_.target.region_max_steps)
      return refuse(n, first_decision, "step_limit", std::to_string(p.steps.size()) + " steps");
    if (p.operands.size() > ctx_.target.region_max_inputs)
      return refuse(n, first_decision, "operand_limit", std::to_string(p.operands.size()) + " operands");
    const fuse::CostDecision time = time_of(r, program, group);
    if (!time.pays()) return refuse(n, first_decision, "cost", time.detail());

    for (NodeId k : members)
      if (g_.op(k) == OpKind::Reduce && !group.has(g_.def(g_.operand(k, 0)))) note_shared(k);
    Builder b(g_, nullptr, members.back());
    for (ValueId& v : p.operands)
      if (std::ranges::find(without, v) != without.end()) v = with_axes(b, r, v);
    const NodeId region = b.create_node(OpKind::ReduceRegion, p.operands, FusionAttrs{std::move(p.steps)});
    if (!region.valid()) return refuse(n, first_decision, "types", "the steps do not fit together");
    int64_t saved = 0;
    for (NodeId k : members)
      if (k != members.back() && !is_view(r, k)) saved += 2 * bytes(g_, g_.result(k));
    std::vector<NodeId> launches = members;
    std::erase_if(launches, [&](NodeId k) { return is_view(r, k); });
    record_before(ctx_, first_decision, fused(g_, kPattern, n, launches, saved));
    merge_origins(g_, region, members);
    const std::vector<Dim> sizes(g_.dims(end).begin(), g_.dims(end).end());
    replace(g_, end, b.reshape(g_.result(region), sizes));
    return true;
  }

  double elements(std::span<const Dim> d) const {
    return static_cast<double>(g_.module().dims.constant_value(g_.module().dims.product(d)).value_or(0));
  }

  // The fused kernel has one independent row per reduction result; a separate elementwise kernel has one per element.
  fuse::CostDecision time_of(const Rows& r, const Program& program, const ReduceGroup& group) const {
    const RegionProgram& p = program.p;
    const auto& without = program.without;
    const double outer = elements(r.kept);
    const double rows = outer > 0 ? outer : static_cast<double>(int64_t{1} << 30);
    fuse::CostDecision time;
    for (NodeId k : group.members)
      if (!is_view(r, k))
        time.separate_ns += launch_time_ns(node_cost(g_, k), ctx_.target.machine,
                                           g_.op(k) == OpKind::Reduce ? rows : std::max(elements(g_.dims(g_.result(k))), 1.0));
    std::vector<bool> varying;
    for (ValueId v : p.operands)
      varying.push_back(std::ranges::find(without, v) == without.end() && varies(g_.dims(v), r.whole.size(), r.axes));
    Cost c;
    c.flops = reduce_region_flops(p.steps, varying_steps(p.steps, varying), elements(r.whole), outer);
    for (ValueId v : p.operands) c.bytes_read += bytes(g_, v);
    c.bytes_written = bytes(g_, g_.result(group.members[0]));
    time.fused_ns = launch_time_ns(c, ctx_.target.machine, rows);
    return time;
  }

  Graph& g_;
  PassContext& ctx_;
  Order order_;
};

}  // namespace

PassResult fuse_reduce_region(Module& m, PassContext& ctx) {
  int64_t found = 0;
  if (!ctx.target.native.test(static_cast<size_t>(OpKind::ReduceRegion))) return {};
  each_graph(m, [&](Graph& g) { found += ReduceRegions(g, ctx).run(); });
  return {found > 0, {{"reduce_region", found}}};
}

}  // namespace rlxc
