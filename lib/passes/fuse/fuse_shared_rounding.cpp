// Quantizes a graph input in each kernel that reads its codes, if that takes less time than a launch. A graph with Q/DQ pairs
// often multiplies an input by weights and adds it to the result of the block. Only inputs are handled: other values are stored
// as codes, which take less memory.
//   c = quantize(x); y = fused_q_matmul(c, w, ..); z = region(y, c)  ->  fused_q_matmul(x, w, .., s); region(y, x, s, z)
// Readers: integer matmuls by a weight, integer convolutions, and the steps of regions that cast the codes, all of them also
// behind Reshape, Transpose, Narrow and a Pad with the code of 0. Declines if one of the readers is another ("readers"), if the
// steps or operands exceed the limits of the target, or if all readers take more time with the rounding than a launch ("cost").
// Runs after fuse_rounded_rows and fuse_rounded_image, which handle a single reader. O(nodes).
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/cost_decision.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/rounded_operand.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kSharedRounding = "shared_rounding";

// A kernel that reads the codes, and the layout ops between.
struct Reader {
  NodeId node;
  size_t operand;
  std::vector<NodeId> moves;
};

// The steps of a region, and the steps that are results of their own.
struct Program {
  std::vector<RegionStep>* steps;
  std::vector<int64_t>* results;
};
std::optional<Program> program_of(Attrs& a) {
  if (auto* p = std::get_if<FusionAttrs>(&a)) return Program{&p->steps, &p->also};
  if (auto* p = std::get_if<ConcatRegionAttrs>(&a)) return Program{&p->steps, &p->parts};
  return std::nullopt;
}

class Sharing {
 public:
  Sharing(Graph& g, PassContext& context, NodeId rounding) : g_(g), context_(context), source_(rounding) {}

  bool run() {
    const auto r = fuse::rounding_of(g_, source_);
    if (!r || g_.result_count(source_) != 1 || !is_input(r->x)) return false;
    rounding_ = *r;
    const ValueId codes = g_.result(source_);
    if (!find(codes, {})) return refuse("readers", std::to_string(g_.use_count(codes)) + " readers of the codes");
    fuse::CostDecision time{0, launch_time_ns(node_cost(g_, source_), context_.target.machine)};
    for (const Reader& reader : readers_) {
      const fuse::Verdict verdict = can_round(reader);
      if (!verdict.fits) return refuse(verdict.reason.empty() ? "readers" : verdict.reason, verdict.detail);
      const fuse::RowsTime t = time_of(reader);
      time.fused_ns += t.together;
      time.separate_ns += t.apart * (1 + kUncertainty);
    }
    if (!time.pays()) return refuse("cost", time.detail());
    return take();
  }

 private:
  static constexpr size_t kMostReaders = 6, kMostMoves = 4;
  static constexpr double kUncertainty = 1.0 / 8;  // of the times of kernels, which overlap the rounding with other work

  bool refuse(std::string_view reason, std::string detail) {
    return readers_.size() > 1 && decline_end(context_, g_, kSharedRounding, source_, reason, std::move(detail));
  }

  // Whether a value takes no memory of the arena, where floats would take the place of codes.
  bool is_input(ValueId v) const {
    NodeId n = g_.def(v);
    for (size_t i = 0; i < kMostMoves && (g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Narrow); ++i)
      n = g_.def(g_.operand(n, 0));
    return g_.op(n) == OpKind::Input;
  }

  // Whether x may be moved instead of the codes.
  bool moves_alike(NodeId n) const {
    if (g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Transpose || g_.op(n) == OpKind::Narrow) return true;
    if (g_.op(n) != OpKind::Pad || g_.attrs<PadAttrs>(n).mode != PadMode::Constant) return false;
    const ValueId fill = g_.operands(n).size() > 1 ? g_.operand(n, 1) : ValueId();
    return fuse::same_zero(g_, rounding_.zero, fill);
  }

  bool find(ValueId v, const std::vector<NodeId>& moves) {
    if (g_.use_count(v) > kMostReaders) return false;
    for (const Graph::Use& use : g_.uses(v)) {
      if (use.user == g_.terminator() || readers_.size() >= kMostReaders) return false;
      if (use.index == 0 && moves.size() < kMostMoves && moves_alike(use.user)) {
        std::vector<NodeId> further = moves;
        further.push_back(use.user);
        if (!find(g_.result(use.user), further)) return false;
      } else if (std::ranges::find(readers_, use.user, &Reader::node) == readers_.end()) {
        readers_.push_back({use.user, use.index, moves});
      } else {
        return false;
      }
    }
    return true;
  }

  bool is_first(const Reader& r) const {
    const OpKind op = g_.op(r.node);
    return r.operand == 0 &&
           (op == OpKind::QMatMul || op == OpKind::FusedQMatMul || op == OpKind::QConv || op == OpKind::FusedQConv);
  }
  bool is_conv(NodeId n) const { return g_.op(n) == OpKind::QConv || g_.op(n) == OpKind::FusedQConv; }

  fuse::Verdict can_round(const Reader& r) const {
    if (!is_first(r)) return can_round_steps(r);
    return is_conv(r.node) ? fuse::can_round_image(g_, r.node, rounding_, context_)
                           : fuse::can_round_rows(g_, r.node, rounding_, context_);
  }

  // Whether steps that cast the codes can round x before.
  fuse::Verdict can_round_steps(const Reader& r) const {
    const OpKind op = g_.op(r.node);
    const bool after_sums = op == OpKind::FusedQMatMul || op == OpKind::FusedQConv;
    const bool fits = op == OpKind::ElementwiseRegion || op == OpKind::NormRegion || op == OpKind::ConcatRegion ||
                      (after_sums && r.operand >= kQuantOperands && !(rounds_operand(g_, r.node) && r.operand == kQuantOperands));
    if (!fits) return {};
    Attrs a = g_.module().attrs[g_.attr_id(r.node)];
    const auto p = program_of(a);
    if (!p) return {};
    for (const RegionStep& s : *p->steps)
      for (const uint16_t arg : s.args)
        if (arg == r.operand && s.op != OpKind::Cast) return {};
    if (std::ranges::count(g_.operands(r.node), g_.operand(r.node, r.operand)) != 1) return {};
    const RegionLimits limits = region_limits(context_.target, after_sums);
    const size_t steps = p->steps->size() + g_.attrs<FusionAttrs>(source_).steps.size();
    if (steps > limits.steps) return {false, "step_limit", std::to_string(steps) + " steps"};
    std::vector<ValueId> operands(g_.operands(r.node).begin(), g_.operands(r.node).end());
    operands.insert(operands.end(), {rounding_.scale, rounding_.zero.valid() ? rounding_.zero : rounding_.scale});
    if (!limits.take(g_, operands, g_.result_count(r.node) - 1))
      return {false, "operand_limit", std::to_string(operands.size()) + " operands"};
    return {true};
  }

  fuse::RowsTime time_of(const Reader& r) const {
    if (is_first(r) && !is_conv(r.node)) return fuse::time_of_rows(g_, r.node, source_, context_);
    const Machine& machine = context_.target.machine;
    const Cost apart = node_cost(g_, r.node), rounding = node_cost(g_, source_);
    Cost together = apart;
    together.flops += rounding.flops;
    together.bytes_read += bytes(g_, rounding_.x) - bytes(g_, g_.result(source_));
    return {launch_time_ns(together, machine), launch_time_ns(apart, machine), launch_time_ns(rounding, machine)};
  }

  ValueId moved(Builder& b, const Reader& r) const {
    ValueId v = rounding_.x;
    for (NodeId n : r.moves) {
      std::vector<ValueId> operands{v};
      if (g_.op(n) == OpKind::Pad) operands.push_back(b.scalar(DType::F32, 0));
      v = b.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
    }
    return v;
  }

  // The reader whose steps round x.
  NodeId with_steps(const Reader& r, Builder& b, ValueId x) const {
    const OpKind op = g_.op(r.node);
    Attrs attrs = g_.module().attrs[g_.attr_id(r.node)];
    const Program p = *program_of(attrs);
    std::vector<ValueId> operands(g_.operands(r.node).begin(), g_.operands(r.node).end());
    operands[r.operand] = x;
    const bool after_sums = op == OpKind::FusedQMatMul || op == OpKind::FusedQConv;
    const size_t first = !after_sums ? 0 : kQuantOperands + rounds_operand(g_, r.node);
    const auto place = [&](ValueId v) {
      for (size_t i = first; i < operands.size(); ++i)
        if (operands[i] == v) return static_cast<uint16_t>(i);
      operands.push_back(v);
      return static_cast<uint16_t>(operands.size() - 1);
    };
    const size_t at = !after_sums ? 0 : op == OpKind::FusedQMatMul && has_two_sums(*p.steps) ? 2 : 1;
    std::vector<RegionStep> body = g_.attrs<FusionAttrs>(source_).steps;
    for (RegionStep& s : body)
      for (uint16_t& arg : s.args) {
        if (arg == RegionStep::kNone) continue;
        if (is_step(arg)) arg = static_cast<uint16_t>(arg + at);
        else if (const ValueId v = g_.operand(source_, arg); v == rounding_.x) arg = static_cast<uint16_t>(r.operand);
        else arg = place(v);
      }
    const auto codes = static_cast<uint16_t>(RegionStep::kStep | (at + body.size() - 1));
    for (size_t i = at; i < p.steps->size(); ++i)
      for (uint16_t& arg : (*p.steps)[i].args) {
        if (arg == r.operand) arg = codes;
        else if (is_step(arg) && (arg & ~RegionStep::kStep) >= at) arg = static_cast<uint16_t>(arg + body.size());
      }
    for (int64_t& step : *p.results)
      if (static_cast<size_t>(step) >= at) step += static_cast<int64_t>(body.size());
    p.steps->insert(p.steps->begin() + static_cast<std::ptrdiff_t>(at), body.begin(), body.end());
    return b.create_node(op, operands, std::move(attrs));
  }

  bool take() {
    std::vector<NodeId> made;
    for (const Reader& r : readers_) {
      const size_t before = g_.node_capacity();
      Builder b(g_, nullptr, r.node);
      const ValueId x = moved(b, r);
      fuse::Rounding own = rounding_;
      own.x = x;
      made.push_back(is_first(r) ? fuse::with_rounding(g_, r.node, own) : with_steps(r, b, x));
      if (!made.back().valid()) {
        for (NodeId n : made)
          if (n.valid()) erase_dead(g_, n);
        return false;
      }
      const NodeId both[] = {r.node, source_};
      merge_origins_since(g_, before, both);
    }
    std::vector<NodeId> members{source_};
    for (const Reader& r : readers_) members.push_back(r.node);
    context_.decisions.push_back(fused(g_, kSharedRounding, source_, members, 2 * bytes(g_, g_.result(source_))));
    for (size_t i = 0; i < readers_.size(); ++i) {
      const NodeId n = readers_[i].node;
      for (size_t k = g_.result_count(n); k-- > 1;) g_.replace_all_uses(g_.result(n, k), g_.result(made[i], k));
      replace(g_, g_.result(n), g_.result(made[i]));
    }
    return true;
  }

  Graph& g_;
  PassContext& context_;
  const NodeId source_;
  fuse::Rounding rounding_;
  std::vector<Reader> readers_;
};

}  // namespace

PassResult fuse_shared_rounding(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.integer_fusions) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::ElementwiseRegion) found += context.rewrite([&] { return Sharing(g, context, n).run(); });
  });
  return {found > 0, {{"shared_rounding", found}}};
}

}  // namespace rlxc
