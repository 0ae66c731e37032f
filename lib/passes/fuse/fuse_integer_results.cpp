// Rounds the result of an integer matmul, an integer convolution, a norm region or an elementwise node where it is computed,
// though others read it as floats: the kernel has two results. In a graph with Q/DQ pairs the next block adds the sum of a
// residual block, and multiplies the rounded sum by its weights; a skip connection is rounded and concatenated. Others than
// elementwise nodes also give floats that a pair rounds, such as a slice that a matmul of floats reads. Without this pass a
// launch would round them. Likewise, results of 16 bits become the digits of 8 bits that the next contraction reads.
// Codes that nodes dequantize, and quantize again by other numbers, are results in the same way, but not behind a Transpose: a
// product of one result is written in the order in which it is read.
//   y = fused_q_matmul(x, w, ..); quantize(y)  ->  codes, y = fused_q_matmul(x, w, .., s) with `also`
//   y = norm_region(x, ..); quantize(y)        ->  codes, y = norm_region(x, .., s) with `also`
//   y = a + b; quantize(a + b)                 ->  codes, y = elementwise_region(a, b, s) with `also`
// The elementwise nodes may read the result through Reshape, Transpose and Narrow if their other operands are single numbers or
// can be moved above these (operand_before.h).
// Those that round different columns by the same steps have one result, by a number for each column. Those that compute an
// elementwise result again share its steps. Runs after other fusions, for targets
// with kernels of integers (QAttention). O(nodes * uses).
#include <algorithm>
#include <numeric>

#include "ir/region.h"
#include "passes/fuse/operand_before.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/rounding.h"
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
  std::vector<NodeId> beside = {};  // nodes of the same steps and other numbers that round other columns; `slices`: theirs
  std::vector<NodeId> slices = {};
  bool chained = false;  // reads the result of another follower, not the moved value
};

// An operand of the program that is one of a follower, before the moves.
struct Moved {
  size_t place, follower, operand;
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
    again_ = is_int8(g_.dtype(y)) && (conv_ || norm_ || codes || g_.op(n) == OpKind::FusedQMatMul);
    if ((g_.result_count(n) != 1 && !norm_) || (g_.dtype(y) != DType::F32 && !codes && !words && !again_)) return false;
    steps_ = is_steps(g_, n);
    point_ = n;
    if (steps_ && is_weight(g_, y)) return false;
    // Convolutions of single channels write their rows in another way.
    if (conv_ && (conv_step(g_.attrs<FusionAttrs>(n)).groups != 1 || rounds_operand(g_, n))) return false;
    followers_.clear();
    if (codes || (steps_ && rounds_floats(n))) find_beside(n);
    if (!codes && steps_ && followers_.empty()) find_again(n);
    if (!codes || followers_.empty()) find(y, {});
    if (followers_.empty()) return false;
    if (!conv_) join_columns();
    if (followers_.size() > kMostRoundings) followers_.resize(kMostRoundings);
    return fuse(n);
  }

 private:
  static bool is_move(OpKind op) { return op == OpKind::Reshape || op == OpKind::Transpose || op == OpKind::Narrow; }
  bool is_follower(NodeId n) const {
    return std::ranges::any_of(
        followers_, [&](const Follower& f) { return f.node == n || std::ranges::find(f.beside, n) != f.beside.end(); });
  }

  // Finds the nodes that round the same value by other numbers, to codes or to floats.
  void find_beside(NodeId n) {
    const auto whole = [&](ValueId v) { return v.valid() && same_dims(g_, v, g_.result(n)); };
    if (std::ranges::count_if(g_.operands(n), whole) != 1 || is_image(n)) return;
    const ValueId x = *std::ranges::find_if(g_.operands(n), whole);
    if (g_.use_count(x) > kMostUses) return;
    const auto rounds_beside = [&](NodeId reader) {
      if (!is_steps(g_, reader) || !same_dims(g_, g_.result(reader), x)) return false;
      const DType t = g_.dtype(g_.result(reader));
      return is_int8(t) || (t == DType::F32 && rounds_floats(reader));
    };
    for (const Graph::Use& use : g_.uses(x))
      if (use.user != n && use.user != g_.terminator() && order_.at(use.user) > order_.at(n) && rounds_beside(use.user) &&
          has_operands(use.user, x, {}) && !is_follower(use.user) && !is_image(use.user))
        followers_.push_back({use.user, {}});
  }
  // Whether a convolution reads the codes, and rounds its image itself (fuse_rounded_image).
  bool is_image(NodeId n) const {
    return fuse::rounding_of(g_, n) && std::ranges::any_of(g_.uses(g_.result(n)), [&](const Graph::Use& use) {
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
        if (again_) find_chained(use.user);
      } else if (is_move(g_.op(use.user)) && use.index == 0 && moves.size() < kMostMovesBetween &&
                 !(again_ && g_.op(use.user) == OpKind::Transpose)) {
        std::vector<NodeId> further = moves;
        further.push_back(use.user);
        find(g_.result(use.user), further);
      }
    }
  }

  // Finds the nodes that round what a follower makes of codes.
  void find_chained(NodeId follower) {
    const ValueId v = g_.result(follower);
    const std::vector<NodeId> moves = followers_.back().moves;
    if (g_.use_count(v) > kMostUses) return;
    for (const Graph::Use& use : g_.uses(v))
      if (use.user != g_.terminator() && !is_follower(use.user) && is_int8(g_.dtype(g_.result(use.user))) &&
          follows(use.user, v, moves))
        followers_.push_back({use.user, moves, {}, {}, true});
  }

  bool rounds(NodeId reader, ValueId v) const {
    if (!is_steps(g_, reader) || !same_dims(g_, g_.result(reader), v)) return false;
    const DType t = g_.dtype(g_.result(reader));
    if (again_)
      return (t == DType::F32 || is_int8(t)) && std::ranges::all_of(g_.operands(reader), [&](ValueId o) {
               return !o.valid() || o == v || num_elements(g_.type(o)) == 1;
             });
    return steps_ ? is_int8(t) : bits(t) < bits(g_.dtype(v)) || (t == g_.dtype(v) && rounds_floats(reader));
  }
  // Whether the steps of a node are a Q/DQ pair whose result is not converted to integers. Storing the pair of the whole value
  // takes no longer than a launch for that of a slice.
  bool rounds_floats(NodeId reader) const {
    if (g_.op(reader) != OpKind::ElementwiseRegion) return false;
    const Machine& machine = context_.target.machine;
    const auto of_slice = static_cast<double>(2 * bytes(g_, g_.result(reader)));
    return std::ranges::any_of(g_.attrs<FusionAttrs>(reader).steps, [](const RegionStep& s) { return s.op == OpKind::Round; }) &&
           static_cast<double>(bytes(g_, g_.result(point_))) <= of_slice + machine.launch_ns * machine.memory_gbps;
  }

  // Whether the steps of a node can be computed at point_: they round v, and their other operands are there or are weights.
  bool follows(NodeId reader, ValueId v, const std::vector<NodeId>& moves) const {
    return rounds(reader, v) && has_operands(reader, v, moves);
  }
  bool has_operands(NodeId reader, ValueId v, const std::vector<NodeId>& moves) const {
    return std::ranges::all_of(g_.operands(reader),
                               [&](ValueId o) { return !o.valid() || o == v || (is_there(o) && is_applicable(o, moves)); });
  }

  // Whether o is the operand of the same steps before the moves, or can be moved there.
  bool is_applicable(ValueId o, const std::vector<NodeId>& moves) const {
    return num_elements(g_.type(o)) == 1 || (!conv_ && fuse::has_operand_before(g_, o, moves));
  }

  // Whether a follower rounds some columns to codes by a number, or by one for each column.
  bool rounds_columns(const Follower& f) const {
    if (f.moves.size() != 1 || g_.op(f.moves[0]) != OpKind::Narrow || g_.op(f.node) != OpKind::ElementwiseRegion) return false;
    const NodeId slice = f.moves[0];
    const auto& a = g_.attrs<NarrowAttrs>(slice);
    const bool last =
        a.axis + 1 == g_.rank(g_.result(slice)) && a.start.is_static() && g_.dims(g_.operand(slice, 0)).back().is_static();
    return last && is_int8(g_.dtype(g_.result(f.node))) && std::ranges::all_of(g_.operands(f.node), [&](ValueId v) {
             return v == g_.result(slice) || (v.valid() && is_weight(g_, v) && is_row(v));
           });
  }
  bool is_row(ValueId v) const {
    const auto d = g_.dims(v);
    return std::ranges::all_of(d.first(d.empty() ? 0 : d.size() - 1), [](Dim size) { return size == Dim(1); });
  }
  bool are_apart(NodeId a, NodeId b) const {
    const auto start = [&](NodeId n) { return g_.attrs<NarrowAttrs>(n).start.size(); };
    const auto end = [&](NodeId n) { return start(n) + g_.dims(g_.result(n)).back().size(); };
    return end(a) <= start(b) || end(b) <= start(a);
  }
  // Joins followers that round different columns by the same steps: their numbers lie side by side.
  void join_columns() {
    for (size_t i = 0; i < followers_.size(); ++i) {
      Follower& f = followers_[i];
      if (!rounds_columns(f)) continue;
      f.slices = f.moves;
      std::erase_if(followers_, [&](const Follower& o) {
        if (&o <= &f || !rounds_columns(o)) return false;
        const auto same = [&](size_t k) {  // the value, or numbers of one type
          const ValueId a = g_.operand(f.node, k), b = g_.operand(o.node, k);
          return (a == g_.result(f.moves[0])) == (b == g_.result(o.moves[0])) && g_.dtype(a) == g_.dtype(b);
        };
        bool joins = g_.attrs<FusionAttrs>(o.node).steps == g_.attrs<FusionAttrs>(f.node).steps &&
                     g_.operands(o.node).size() == g_.operands(f.node).size() &&
                     std::ranges::all_of(f.slices, [&](NodeId n) { return are_apart(n, o.moves[0]); });
        for (size_t k = 0; joins && k < g_.operands(f.node).size(); ++k) joins = same(k);
        if (!joins) return false;
        f.beside.push_back(o.node);
        f.slices.push_back(o.moves[0]);
        return true;
      });
    }
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
    std::vector<int64_t> also = norm_ ? g_.attrs<FusionAttrs>(n).also : std::vector<int64_t>();
    const auto write = [&](ValueId v) { also.push_back(p.code(v) & ~RegionStep::kStep); };
    moved_.clear();
    const bool keeps = !is_covered(y);
    if (keeps) write(y);
    std::vector<NodeId> members{n};
    for (size_t i = 0; i < followers_.size(); ++i) {
      const Follower& f = followers_[i];
      copy(f, y, &p);
      if (i + 1 < followers_.size()) write(g_.result(f.node));
      else if (static_cast<size_t>(p.code(g_.result(f.node)) & ~RegionStep::kStep) + 1 != p.steps.size()) return false;
      members.push_back(f.node);
      members.insert(members.end(), f.beside.begin(), f.beside.end());
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
    const auto hoist = [&](NodeId reader) {
      for (ValueId v : g_.operands(reader))
        if (v.valid() && is_weight(g_, v)) order_.hoist(g_, v, point_);
    };
    for (const Follower& f : followers_) {
      hoist(f.node);
      std::ranges::for_each(f.beside, hoist);
    }
    Builder b(g_, nullptr, point_);
    const size_t before = g_.node_capacity();
    for (const Moved& m : moved_) p.operands[m.place] = moved(b, m);
    const NodeId whole = create(b, p, std::move(also));
    if (!whole.valid()) return false;
    context_.decisions.push_back(fused(g_, kIntegerResults, n, members, static_cast<int64_t>(members.size() - 1) * bytes(g_, y)));
    std::vector<std::pair<NodeId, ValueId>> codes;  // by follower
    for (size_t i = 0; i < followers_.size(); ++i) {
      const Follower& f = followers_[i];
      const ValueId rounded = g_.result(whole, i + 1 == followers_.size() ? 0 : results + keeps + i);
      const auto after = [&](ValueId v, NodeId move) { return b.create(g_.op(move), {v}, g_.module().attrs[g_.attr_id(move)]); };
      codes.emplace_back(f.node, std::accumulate(f.moves.begin(), f.moves.end(), rounded, after));
      for (size_t k = 0; k < f.beside.size(); ++k) codes.emplace_back(f.beside[k], after(rounded, f.slices[k + 1]));
    }
    merge_origins_since(g_, before, members);
    for (const auto& [node, v] : codes) replace(g_, g_.result(node), v);
    for (size_t i = 1; i < results; ++i) g_.replace_all_uses(g_.result(n, i), g_.result(whole, i));
    if (keeps) replace(g_, y, g_.result(whole, results));
    else erase_dead(g_, n);
    return true;
  }

  // Appends the steps of a follower, whose operands are those before its moves.
  void copy(const Follower& f, ValueId y, RegionProgram* p) {
    if (!f.moves.empty() && !f.chained) p->give(g_.result(f.moves.back()), p->code(y));
    const auto follower = static_cast<size_t>(&f - followers_.data());
    std::vector<std::pair<ValueId, uint16_t>> own;
    const auto of = [&](ValueId v) {
      const bool stays = f.moves.empty() || f.chained || v == g_.result(f.moves.back());
      if (stays || (f.beside.empty() && num_elements(g_.type(v)) == 1)) return p->code(v);
      if (const auto known = std::ranges::find(own, v, &std::pair<ValueId, uint16_t>::first); known != own.end())
        return known->second;
      const auto operand = static_cast<size_t>(std::ranges::find(g_.operands(f.node), v) - g_.operands(f.node).begin());
      moved_.push_back({p->operands.size(), follower, operand});
      own.emplace_back(v, static_cast<uint16_t>(p->operands.size()));
      p->operands.push_back(v);
      return own.back().second;
    };
    p->give(g_.result(f.node), p->copy(f.node, of, steps_));
  }

  ValueId moved(Builder& b, const Moved& m) const {
    const Follower& f = followers_[m.follower];
    std::vector<ValueId> operands{g_.operand(f.node, m.operand)};
    if (f.beside.empty()) return fuse::operand_before(b, operands[0], f.moves);
    for (NodeId n : f.beside) operands.push_back(g_.operand(n, m.operand));
    return fuse::operand_of_slices(b, f.slices, operands);
  }

  NodeId create(Builder& b, const RegionProgram& p, std::vector<int64_t> also) const {
    const OpKind op = conv_    ? OpKind::FusedQConv
                      : norm_  ? OpKind::NormRegion
                      : steps_ ? OpKind::ElementwiseRegion
                               : OpKind::FusedQMatMul;
    return b.create_node(op, p.operands, FusionAttrs{p.steps, std::move(also)});
  }

  Graph& g_;
  PassContext& context_;
  Order order_;
  bool conv_ = false, steps_ = false, norm_ = false;
  bool again_ = false;  // whether others dequantize or requantize the result
  NodeId point_;        // where the fused node goes
  std::vector<Moved> moved_;
  std::vector<Follower> followers_;
};

}  // namespace

PassResult fuse_integer_results(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    Results results(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQMatMul || g.op(n) == OpKind::FusedQConv || g.op(n) == OpKind::NormRegion || is_steps(g, n))
        found += context.rewrite([&] { return results.take(n); });
  });
  return {found > 0, {{"integer_results", found}}};
}

}  // namespace rlxc
