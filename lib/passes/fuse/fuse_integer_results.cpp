// Rounds the result of an integer matmul, an integer convolution, a norm region or an elementwise node where it is computed,
// though others read it as floats: the kernel has two results. In a graph with Q/DQ pairs the next block adds the sum of a
// residual block, and multiplies the rounded sum by its weights; a skip connection is rounded and concatenated. Without this
// pass a launch would round it. Likewise, results of 16 bits become the digits of 8 bits that the next contraction reads.
//   y = fused_q_matmul(x, w, ..); quantize(y)  ->  codes, y = fused_q_matmul(x, w, .., s) with `also`
//   y = norm_region(x, ..); quantize(y)        ->  codes, y = norm_region(x, .., s) with `also`
//   y = a + b; quantize(a + b)                 ->  codes, y = elementwise_region(a, b, s) with `also`
// The elementwise nodes may read the result through Reshape, Transpose and Narrow if their other operands are single numbers.
// Those that compute an elementwise result again share its steps. Runs after other fusions. Only kernels of CPU threads are
// checked for several results. O(nodes * uses).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kIntegerResults = "integer_results";
constexpr size_t kMostRoundings = 4, kMostMovesBetween = 4, kMostUses = 16;

// An elementwise node that rounds the result, and the layout ops between; none if it computes the result again.
struct Follower {
  NodeId node;
  std::vector<NodeId> moves;
};

class Results {
 public:
  Results(Graph& g, PassContext& context) : g_(g), context_(context), order_(g) {}

  bool take(NodeId n) {
    const ValueId y = g_.result(n);
    const bool codes = is_steps(g_, n) && is_int8(g_.dtype(y));
    norm_ = g_.op(n) == OpKind::NormRegion;
    conv_ = g_.op(n) == OpKind::FusedQConv;
    const bool words = (conv_ || g_.op(n) == OpKind::FusedQMatMul) && is_integer(g_.dtype(y)) && bits(g_.dtype(y)) == 16;
    if ((g_.result_count(n) != 1 && !norm_) || (g_.dtype(y) != DType::F32 && !codes && !words)) return false;
    steps_ = is_steps(g_, n);
    point_ = n;
    if (steps_ && is_weight(g_, y)) return false;
    // Convolutions of single channels write their rows in another way.
    if (conv_ && (g_.attrs<FusedQConvAttrs>(n).conv.groups != 1 || rounds_operand(g_, n))) return false;
    followers_.clear();
    if (codes) find_beside(n);
    else if (steps_) find_again(n);
    if (!codes) find(y, {});
    if (followers_.empty()) return false;
    if (followers_.size() > kMostRoundings) followers_.resize(kMostRoundings);
    return fuse(n);
  }

 private:
  static bool is_move(OpKind op) { return op == OpKind::Reshape || op == OpKind::Transpose || op == OpKind::Narrow; }
  bool is_follower(NodeId n) const {
    return std::ranges::any_of(followers_, [&](const Follower& f) { return f.node == n; });
  }

  // Finds the nodes that round the same value by other numbers.
  void find_beside(NodeId n) {
    const auto whole = [&](ValueId v) { return v.valid() && same_dims(g_, v, g_.result(n)); };
    if (std::ranges::count_if(g_.operands(n), whole) != 1 || is_image(n)) return;
    const ValueId x = *std::ranges::find_if(g_.operands(n), whole);
    if (g_.use_count(x) > kMostUses) return;
    for (const Graph::Use& use : g_.uses(x))
      if (use.user != n && use.user != g_.terminator() && order_.at(use.user) > order_.at(n) && follows(use.user, x, {}) &&
          !is_follower(use.user) && !is_image(use.user))
        followers_.push_back({use.user, {}});
  }
  // Whether a convolution reads the codes, which rounds its image itself (fuse_rounded_image).
  bool is_image(NodeId n) const {
    return std::ranges::any_of(g_.uses(g_.result(n)), [&](const Graph::Use& use) {
      return g_.op(use.user) == OpKind::QConv || g_.op(use.user) == OpKind::FusedQConv;
    });
  }

  // Finds the nodes that compute the result again and round it.
  void find_again(NodeId n) {
    for (ValueId x : g_.operands(n)) {
      if (!x.valid() || !same_dims(g_, x, g_.result(n)) || g_.use_count(x) > kMostUses) continue;
      for (const Graph::Use& use : g_.uses(x)) {
        if (use.user == n || use.user == g_.terminator() || is_follower(use.user) || !rounds(use.user, g_.result(n))) continue;
        RegionProgram both(g_);
        both.copy(use.user);
        const size_t steps = both.steps.size();
        both.copy(n, true);
        if (both.steps.size() != steps) continue;
        followers_.push_back({use.user, {}});
        if (order_.at(use.user) < order_.at(point_)) point_ = use.user;
      }
      break;
    }
    std::erase_if(followers_, [&](const Follower& f) {
      return !std::ranges::all_of(g_.operands(f.node), [&](ValueId o) {
        return !o.valid() || std::ranges::find(g_.operands(n), o) != g_.operands(n).end() || is_there(o);
      });
    });
  }

  // Whether a value is computed before point_, or is a weight, which can be.
  bool is_there(ValueId v) const {
    const uint32_t at = g_.def(v).valid() ? order_.at(g_.def(v)) : 0;
    return is_weight(g_, v) || (at > 0 && at < order_.at(point_));
  }

  void find(ValueId v, const std::vector<NodeId>& moves) {
    if (g_.use_count(v) > kMostUses) return;
    for (const Graph::Use& use : g_.uses(v)) {
      if (use.user == g_.terminator() || is_follower(use.user)) continue;
      if (follows(use.user, v, moves)) {
        followers_.push_back({use.user, moves});
      } else if (is_move(g_.op(use.user)) && use.index == 0 && moves.size() < kMostMovesBetween) {
        std::vector<NodeId> further = moves;
        further.push_back(use.user);
        find(g_.result(use.user), further);
      }
    }
  }

  bool rounds(NodeId reader, ValueId v) const {
    if (!is_steps(g_, reader) || !same_dims(g_, g_.result(reader), v)) return false;
    const DType t = g_.dtype(g_.result(reader));
    return steps_ ? is_int8(t) : bits(t) < bits(g_.dtype(v));
  }

  // Whether the steps of a node can be computed at point_: they narrow v, and their other operands are there or are weights.
  bool follows(NodeId reader, ValueId v, const std::vector<NodeId>& moves) const {
    return rounds(reader, v) && std::ranges::all_of(g_.operands(reader), [&](ValueId o) {
             return !o.valid() || o == v || (is_there(o) && (num_elements(g_.type(o)) == 1 || (!conv_ && is_before(o, moves))));
           });
  }

  // Whether the moves are slices along axes along which o is one number: it is then the operand before them, too.
  bool is_before(ValueId o, const std::vector<NodeId>& moves) const {
    return std::ranges::all_of(moves, [&](NodeId n) {
      if (g_.op(n) != OpKind::Narrow) return false;
      const int axis = static_cast<int>(g_.attrs<NarrowAttrs>(n).axis) - g_.rank(g_.result(n)) + g_.rank(o);
      return axis < 0 || g_.dims(o)[static_cast<size_t>(axis)] == Dim(1);
    });
  }

  // Whether the followers are the only readers of v.
  bool is_covered(ValueId v) const {
    return !g_.is_output(v) && std::ranges::all_of(g_.uses(v), [&](const Graph::Use& use) {
      return is_follower(use.user) || (is_move(g_.op(use.user)) && use.index == 0 && is_covered(g_.result(use.user)));
    });
  }

  bool fuse(NodeId n) {
    const ValueId y = g_.result(n);
    const auto refuse = [&](std::string_view reason, std::string detail) {
      return decline_end(context_, g_, kIntegerResults, n, reason, std::move(detail));
    };
    RegionProgram p(g_);
    if (!steps_ && !norm_) {
      p.operands.assign(g_.operands(n).begin(), g_.operands(n).end());
      p.operands.resize(kQuantOperands);
    }
    p.copy(n);
    const size_t results = g_.result_count(n);  // those but the first keep their places
    std::vector<int64_t> also = norm_ ? g_.attrs<NormRegionAttrs>(n).also : std::vector<int64_t>();
    const auto write = [&](ValueId v) { also.push_back(p.code(v) & ~RegionStep::kStep); };
    const bool keeps = !is_covered(y);
    if (keeps) write(y);
    std::vector<NodeId> members{n};
    for (size_t i = 0; i < followers_.size(); ++i) {
      const Follower& f = followers_[i];
      if (!f.moves.empty()) p.give(g_.result(f.moves.back()), p.code(y));
      p.copy(f.node, steps_);
      if (i + 1 < followers_.size()) write(g_.result(f.node));
      else if (static_cast<size_t>(p.code(g_.result(f.node)) & ~RegionStep::kStep) + 1 != p.steps.size()) return false;
      members.push_back(f.node);
    }
    const RegionLimits limits = region_limits(context_.target, !steps_ && !norm_);
    const size_t further = results - 1 + keeps + followers_.size() - 1;
    const bool many_steps = p.steps.size() > limits.steps;
    if (many_steps || !limits.take(g_, p.operands, further)) {
      if (followers_.size() > 1) {
        followers_.pop_back();
        return fuse(n);
      }
      return many_steps ? refuse("step_limit", std::to_string(p.steps.size()) + " steps")
                        : refuse("operand_limit", std::to_string(p.operands.size() + further) + " operands and results");
    }
    for (const Follower& f : followers_)
      for (ValueId v : g_.operands(f.node))
        if (v.valid() && is_weight(g_, v)) order_.hoist(g_, v, point_);
    Builder b(g_, nullptr, point_);
    const size_t before = g_.node_capacity();
    const NodeId whole = create(b, n, p, std::move(also));
    if (!whole.valid()) return false;
    context_.decisions.push_back(fused(g_, kIntegerResults, n, members, static_cast<int64_t>(members.size() - 1) * bytes(g_, y)));
    std::vector<ValueId> codes;
    for (size_t i = 0; i < followers_.size(); ++i) {
      ValueId v = g_.result(whole, i + 1 == followers_.size() ? 0 : results + keeps + i);
      for (NodeId move : followers_[i].moves) v = b.create(g_.op(move), {v}, g_.module().attrs[g_.attr_id(move)]);
      codes.push_back(v);
    }
    merge_origins_since(g_, before, members);
    for (size_t i = 0; i < followers_.size(); ++i) replace(g_, g_.result(followers_[i].node), codes[i]);
    for (size_t i = 1; i < results; ++i) g_.replace_all_uses(g_.result(n, i), g_.result(whole, i));
    if (keeps) replace(g_, y, g_.result(whole, results));
    else erase_dead(g_, n);
    return true;
  }

  NodeId create(Builder& b, NodeId n, const RegionProgram& p, std::vector<int64_t> also) const {
    if (conv_)
      return b.create_node(OpKind::FusedQConv, p.operands,
                           FusedQConvAttrs{g_.attrs<FusedQConvAttrs>(n).conv, p.steps, std::move(also)});
    if (!norm_)
      return b.create_node(steps_ ? OpKind::ElementwiseRegion : OpKind::FusedQMatMul, p.operands,
                           RegionAttrs{p.steps, std::move(also)});
    NormRegionAttrs attrs = g_.attrs<NormRegionAttrs>(n);
    attrs.steps = p.steps;
    attrs.also = std::move(also);
    return b.create_node(OpKind::NormRegion, p.operands, std::move(attrs));
  }

  Graph& g_;
  PassContext& context_;
  Order order_;
  bool conv_ = false, steps_ = false, norm_ = false;
  NodeId point_;  // where the fused node goes
  std::vector<Follower> followers_;
};

}  // namespace

PassResult fuse_integer_results(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::QAttention))) return {};
  each_graph(m, [&](Graph& g) {
    Results results(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv || g.op(n) == OpKind::NormRegion || is_steps(g, n))
        found += context.rewrite([&] { return results.take(n); });
  });
  return {found > 0, {{"integer_results", found}}};
}

}  // namespace rlxc
