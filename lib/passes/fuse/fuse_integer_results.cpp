// Rounds the result of an integer matmul or convolution where it is computed, though others read it as floats: the kernel has two
// results. In a graph with Q/DQ pairs the sum of a residual block is added to the next block and, rounded, multiplied by its
// weights; the codes would be read and written by a launch.
//   y = fused_q_matmul(x, w, ..); quantize(y)  ->  codes, y = fused_q_matmul(x, w, .., s) with `also`
// The elementwise nodes may read the result through Reshape, Transpose and Narrow if their other operands are single numbers.
// Runs after other fusions. Only kernels of CPU threads are checked for several results. O(nodes * uses).
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

// An elementwise node that rounds the result, and the layout ops between.
struct Follower {
  NodeId node;
  std::vector<NodeId> moves;
};

class Results {
 public:
  Results(Graph& g, PassContext& context) : g_(g), context_(context), order_(g) {}

  bool take(NodeId n) {
    const ValueId y = g_.result(n);
    if (g_.result_count(n) != 1 || g_.dtype(y) != DType::F32) return false;
    conv_ = g_.op(n) == OpKind::FusedQConv;
    // Convolutions of single channels write their rows in another way.
    if (conv_ && (g_.attrs<FusedQConvAttrs>(n).conv.groups != 1 || rounds_image(g_, n))) return false;
    followers_.clear();
    find(n, y, {});
    if (followers_.empty()) return false;
    if (followers_.size() > kMostRoundings) followers_.resize(kMostRoundings);
    return fuse(n);
  }

 private:
  static bool is_move(OpKind op) { return op == OpKind::Reshape || op == OpKind::Transpose || op == OpKind::Narrow; }
  bool is_follower(NodeId n) const {
    return std::ranges::any_of(followers_, [&](const Follower& f) { return f.node == n; });
  }

  void find(NodeId n, ValueId v, const std::vector<NodeId>& moves) {
    if (g_.use_count(v) > kMostUses) return;
    for (const Graph::Use& use : g_.uses(v)) {
      if (use.user == g_.terminator() || is_follower(use.user)) continue;
      if (follows(n, use.user, v, !moves.empty())) {
        followers_.push_back({use.user, moves});
      } else if (is_move(g_.op(use.user)) && use.index == 0 && moves.size() < kMostMovesBetween) {
        std::vector<NodeId> further = moves;
        further.push_back(use.user);
        find(n, g_.result(use.user), further);
      }
    }
  }

  // Whether the steps of a node can be computed where n is: they narrow v, and their other operands are there or are weights.
  bool follows(NodeId n, NodeId reader, ValueId v, bool moved) const {
    if (!is_steps(g_, reader) || !same_dims(g_, g_.result(reader), v) || bits(g_.dtype(g_.result(reader))) >= bits(g_.dtype(v)))
      return false;
    return std::ranges::all_of(g_.operands(reader), [&](ValueId o) {
      if (!o.valid() || o == v) return true;
      const bool there =
          is_weight(g_, o) || (g_.def(o).valid() && order_.at(g_.def(o)) > 0 && order_.at(g_.def(o)) < order_.at(n));
      return there && (num_elements(g_.type(o)) == 1 || (!moved && !conv_));
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
    p.operands.assign(g_.operands(n).begin(), g_.operands(n).end());
    p.operands.resize(kQuantOperands);
    p.copy(n);
    std::vector<int64_t> also;
    const auto write = [&] { also.push_back(static_cast<int64_t>(p.steps.size()) - 1); };
    const bool keeps = !is_covered(y);
    if (keeps) write();
    std::vector<NodeId> members{n};
    for (size_t i = 0; i < followers_.size(); ++i) {
      const Follower& f = followers_[i];
      if (!f.moves.empty()) p.give(g_.result(f.moves.back()), p.code(y));
      p.copy(f.node);
      if (i + 1 < followers_.size()) write();
      members.push_back(f.node);
    }
    if (p.steps.size() > context_.target.region_max_steps) return refuse("step_limit", std::to_string(p.steps.size()) + " steps");
    if (const size_t all = p.operands.size() + also.size(); all > context_.target.region_max_inputs)
      return refuse("operand_limit", std::to_string(all) + " operands and results");
    for (const Follower& f : followers_)
      for (ValueId v : g_.operands(f.node))
        if (v.valid() && is_weight(g_, v)) order_.hoist(g_, v, n);
    Builder b(g_, nullptr, n);
    const size_t before = g_.node_capacity();
    const NodeId whole = conv_ ? b.create_node(OpKind::FusedQConv, p.operands,
                                               FusedQConvAttrs{g_.attrs<FusedQConvAttrs>(n).conv, std::move(p.steps), also})
                               : b.create_node(OpKind::FusedQMatMul, p.operands, RegionAttrs{std::move(p.steps), also});
    if (!whole.valid()) return false;
    context_.decisions.push_back(fused(g_, kIntegerResults, n, members, static_cast<int64_t>(members.size() - 1) * bytes(g_, y)));
    std::vector<ValueId> codes;
    for (size_t i = 0; i < followers_.size(); ++i) {
      ValueId v = g_.result(whole, i + 1 == followers_.size() ? 0 : keeps + i + 1);
      for (NodeId move : followers_[i].moves) v = b.create(g_.op(move), {v}, g_.module().attrs[g_.attr_id(move)]);
      codes.push_back(v);
    }
    for (size_t i = before; i < g_.node_capacity(); ++i) merge_origins(g_, NodeId(i), members);
    for (size_t i = 0; i < followers_.size(); ++i) replace(g_, g_.result(followers_[i].node), codes[i]);
    if (keeps) replace(g_, y, g_.result(whole, 1));
    else erase_dead(g_, n);
    return true;
  }

  Graph& g_;
  PassContext& context_;
  Order order_;
  bool conv_ = false;
  std::vector<Follower> followers_;
};

}  // namespace

PassResult fuse_integer_results(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::QAttention))) return {};
  each_graph(m, [&](Graph& g) {
    Results results(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv)
        found += context.rewrite([&] { return results.take(n); });
  });
  return {found > 0, {{"integer_results", found}}};
}

}  // namespace rlxc
