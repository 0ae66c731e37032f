// Fuses the integer matmul of queries and keys, the softmax of its scores with the rounding of the probabilities, and their
// integer matmul with the values. A graph with Q/DQ pairs has these as three nodes, whose scores are as large as all heads'
// queries times keys.
//   fused_q_matmul(norm_region(fused_q_matmul(q, k)), v)  ->  q_attention(q, k, v)
// Keys and values that several heads read are not repeated for them: the heads of the queries get an axis for each group.
// Runs after the steps between are fused. O(nodes).
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ir/op_rules.h"
#include "ir/region.h"
#include "passes/fuse/region_program.h"
#include "passes/fuse/repeated_heads.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kIntegerAttention = "integer_attention";
constexpr size_t kMostRepeated = 4;     // steps of a mask that every attention computes
constexpr int64_t kMostKeys = 1 << 16;  // scores of a query are on the stack

class IntegerAttention {
 public:
  IntegerAttention(Graph& g, PassContext& context) : g_(g), context_(context) {}

  // n: the matmul of probabilities and values.
  bool take(NodeId n) {
    const NodeId region = g_.def(g_.operand(n, 0));
    if (!is_product(n) || !region.valid() || g_.op(region) != OpKind::NormRegion) return false;
    const size_t softmax = softmax_of(region);
    if (softmax == kNone) return false;
    const NodeId first = scores_of(region);
    if (!first.valid()) return false;
    const auto refuse = [&](std::string_view reason, std::string detail) {
      return decline_end(context_, g_, kIntegerAttention, n, reason, std::move(detail));
    };
    const ValueId scores = g_.result(first), probabilities = g_.result(region);
    if (g_.use_count(scores) != 1 || g_.use_count(probabilities) != 1)
      return refuse("multi_consumer", "scores or probabilities have other readers");
    if (!same_dims(g_, scores, probabilities) || !fits(first, n)) return refuse("shape", "batches or zero points differ");
    if (is_empty(scores) || is_empty(g_.result(n))) return refuse("shape", "no queries, keys or elements");
    const Dim keys = g_.dims(scores).back();
    if (keys.is_static() && keys.size() > kMostKeys) return refuse("kernel_limit", "too many keys");
    return fuse(first, region, n, refuse);
  }

  // Computes a mask of all attentions in each of them, if its steps are few and cheap.
  bool take_mask(NodeId region) {
    if (!is_steps(g_, region) || g_.use_count(g_.result(region)) == 0) return false;
    const ValueId mask = g_.result(region);
    if (is_weight(g_, mask) && g_.type(mask).is_static()) return false;  // computed once
    RegionProgram body(g_);
    body.copy(region);
    const auto& steps = body.steps;
    if (steps.size() > kMostRepeated || !std::ranges::all_of(steps, [](const RegionStep& s) { return is_cheap(s.op); }))
      return false;
    std::vector<Reader> readers;
    if (!find_readers(mask, {}, &readers)) return false;
    std::vector<RegionProgram> programs;
    for (const Reader& r : readers) {
      RegionProgram own = body;
      if (r.reshape.valid()) {
        Builder b(g_, nullptr, r.attention);
        for (ValueId& v : own.operands) v = b.reshape(v, with_axis(g_.dims(v), *added_axis(r.reshape)));
      }
      programs.push_back(with_steps(r.attention, r.operand, own));
      const RegionProgram& p = programs.back();
      if (!fits(p.operands) || p.steps.size() > context_.target.region_max_steps) return false;
    }
    if (readers.empty()) return false;
    const NodeId first = readers[0].attention;
    context_.decisions.push_back(fused(g_, kIntegerAttention, first, std::array{region, first}, 2 * bytes(g_, mask)));
    for (size_t i = 0; i < readers.size(); ++i) {
      const NodeId attention = readers[i].attention;
      Builder b(g_, nullptr, attention);
      const ValueId y = b.create(OpKind::QAttention, programs[i].operands, FusionAttrs{programs[i].steps});
      if (!y.valid()) return i > 0;
      const NodeId members[] = {attention};
      replace_group(g_, members, g_.result(attention), y);
      if (readers[i].reshape.valid()) erase_dead(g_, readers[i].reshape);
    }
    if (g_.alive(region)) erase_dead(g_, region);
    return true;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  // An attention whose steps read a mask, directly or behind a reshape that adds an axis.
  struct Reader {
    NodeId attention;
    size_t operand = 0;
    NodeId reshape;
  };

  // The readers of a mask; false if there are others.
  bool find_readers(ValueId mask, NodeId reshape, std::vector<Reader>* readers) const {
    if (g_.is_output(mask)) return false;
    for (const Graph::Use& use : g_.uses(mask)) {
      const OpKind op = g_.op(use.user);
      if (op == OpKind::QAttention && is_of_scores(use.user, use.index)) {
        readers->push_back({use.user, use.index, reshape});
        continue;
      }
      if (op != OpKind::Reshape || reshape.valid() || !added_axis(use.user)) return false;
      if (!find_readers(g_.result(use.user), use.user, readers)) return false;
    }
    return true;
  }

  // The number of axes behind the axis of size 1 that a reshape adds, if it does nothing else.
  std::optional<size_t> added_axis(NodeId reshape) const {
    const auto from = g_.dims(g_.operand(reshape, 0)), to = g_.dims(g_.result(reshape));
    if (to.size() != from.size() + 1) return std::nullopt;
    size_t behind = 0;
    while (behind < from.size() && from[from.size() - 1 - behind] == to[to.size() - 1 - behind]) ++behind;
    const size_t before = to.size() - 1 - behind;
    const bool same = std::ranges::equal(from.first(before), to.first(before));
    return same && to[before] == Dim(1) ? std::optional(behind) : std::nullopt;
  }

  // The dims with an axis of size 1 before the last `behind`.
  static std::vector<Dim> with_axis(std::span<const Dim> dims, size_t behind) {
    std::vector<Dim> all(dims.begin(), dims.end());
    if (dims.size() > behind) all.insert(all.end() - static_cast<std::ptrdiff_t>(behind), Dim(1));
    return all;
  }

  bool fits(const std::vector<ValueId>& operands) const {
    return std::ranges::count_if(operands, &ValueId::valid) <= context_.target.region_max_inputs;
  }

  // Whether only steps before the softmax read the operand.
  bool is_of_scores(NodeId attention, size_t operand) const {
    const auto& steps = g_.attrs<FusionAttrs>(attention).steps;
    bool before = true;
    for (const RegionStep& s : steps) {
      before = before && s.op != OpKind::Softmax;
      if (!before && std::ranges::find(s.args, operand) != s.args.end()) return false;
    }
    return operand >= kAttentionOperands;
  }

  // The program of an attention that computes one of its operands by these steps, after the first matmul.
  RegionProgram with_steps(NodeId attention, size_t operand, const RegionProgram& mask) const {
    const auto& steps = g_.attrs<FusionAttrs>(attention).steps;
    const auto& body = mask.steps;
    RegionProgram p(g_);
    p.operands.assign(g_.operands(attention).begin(), g_.operands(attention).end());
    bool replaced = false;  // whether an operand of the region has the place of its result
    const auto place = [&](ValueId v) {
      for (size_t i = kAttentionOperands; i < p.operands.size(); ++i)
        if (p.operands[i] == v) return static_cast<uint16_t>(i);
      if (std::exchange(replaced, true)) p.operands.push_back(v);
      else p.operands[operand] = v;
      return static_cast<uint16_t>(p.operands[operand] == v ? operand : p.operands.size() - 1);
    };
    const auto is_step = [](uint16_t arg) { return arg != RegionStep::kNone && arg & RegionStep::kStep; };
    p.steps = {steps[0]};
    for (RegionStep s : body) {
      for (uint16_t& arg : s.args)
        if (is_step(arg)) ++arg;
        else if (arg != RegionStep::kNone) arg = place(mask.operands[arg]);
      p.steps.push_back(s);
    }
    for (size_t i = 1; i < steps.size(); ++i) {
      RegionStep s = steps[i];
      for (uint16_t& arg : s.args)
        if (arg == operand) arg = static_cast<uint16_t>(RegionStep::kStep | body.size());
        else if (is_step(arg) && arg != RegionStep::kStep) arg = static_cast<uint16_t>(arg + body.size());
      p.steps.push_back(s);
    }
    return p;
  }

  bool is_product(NodeId n) const { return g_.op(n) == OpKind::FusedQMatMul || g_.op(n) == OpKind::QMatMul; }
  ValueId operand(NodeId n, size_t i) const { return i < g_.operands(n).size() ? g_.operand(n, i) : ValueId(); }

  // The step that is the softmax of an 8-bit result, along the last axis as every softmax of a region, or kNone.
  size_t softmax_of(NodeId region) const {
    const auto& a = g_.attrs<FusionAttrs>(region);
    const ValueId y = g_.result(region);
    const size_t at = last_norm_step(a.steps);
    if (at + 1 >= a.steps.size() || a.steps[at].op != OpKind::Softmax || std::ranges::count_if(a.steps, is_core) != 1)
      return kNone;
    const bool plain = a.also.empty() && a.steps[at].dtype == DType::F32;
    if (!plain || !is_int8(g_.dtype(y))) return kNone;
    for (size_t i = at + 1; i < a.steps.size(); ++i)
      for (uint16_t arg : a.steps[i].args)
        if (arg != RegionStep::kNone && arg & RegionStep::kStep && (arg & ~RegionStep::kStep) < at) return kNone;
    return at;
  }

  // The matmul whose scores the steps before the softmax read, and those after it do not.
  NodeId scores_of(NodeId region) const {
    const auto& steps = g_.attrs<FusionAttrs>(region).steps;
    NodeId found;
    const size_t softmax = last_norm_step(steps);
    for (size_t i = 0; i < steps.size(); ++i)
      for (uint16_t arg : steps[i].args) {
        if (arg == RegionStep::kNone || arg & RegionStep::kStep) continue;
        const NodeId n = g_.def(g_.operand(region, arg));
        if (!n.valid() || g_.op(n) != OpKind::FusedQMatMul || g_.dtype(g_.result(n)) != DType::F32) continue;
        if (i > softmax || (found.valid() && found != n)) return {};
        found = n;
      }
    return found;
  }

  bool fits(NodeId first, NodeId last) const {
    const auto codes = [&](ValueId v) { return is_int8(g_.dtype(v)); };
    const ValueId q = g_.operand(first, 0), k = g_.operand(first, 1), v = g_.operand(last, 1);
    const auto a = g_.dims(q), b = g_.dims(k), c = g_.dims(v);
    if (!codes(q) || !codes(k) || !codes(v) || a.size() != b.size() || a.size() != c.size() || is_weight(g_, k) ||
        is_weight(g_, v))
      return false;
    for (NodeId n : {first, last})
      for (size_t i : {size_t{2}, size_t{3}})
        if (const ValueId zero = operand(n, i); zero.valid() && (num_elements(g_.type(zero)) != 1 || !codes(zero))) return false;
    const size_t batch = a.size() - 2;
    for (size_t i = 0; i < batch; ++i)
      if ((b[i] != a[i] && b[i] != Dim(1)) || (c[i] != a[i] && c[i] != Dim(1))) return false;
    return true;
  }

  bool is_empty(ValueId v) const {
    return std::ranges::any_of(g_.dims(v), [](Dim s) { return s == Dim(0); });
  }

  // The dims with the axis before the last two, that of the heads, split into groups of `times`. Broadcast heads stay so.
  std::vector<Dim> in_groups(std::span<const Dim> dims, Dim times) const {
    std::vector<Dim> grouped(dims.begin(), dims.end());
    if (dims.size() < 3) return grouped;
    const auto heads = grouped.end() - 3;
    const bool one = *heads == Dim(1);
    if (!one) *heads = g_.module().dims.floor_div(*heads, times);
    grouped.insert(heads + 1, one ? Dim(1) : times);
    return grouped;
  }

  // Reads repeated keys and values once. Returns whether any are repeated.
  bool group_heads(Builder& b, std::vector<ValueId>& operands) const {
    const std::optional<fuse::RepeatedHeads> repeated[] = {fuse::repeated_heads(g_, operands[1]),
                                                           fuse::repeated_heads(g_, operands[2])};
    if (!repeated[0] && !repeated[1]) return false;
    const Dim times = repeated[repeated[0] ? 0 : 1]->times;
    for (size_t i = 0; i < operands.size(); ++i) {
      ValueId& v = operands[i];
      if (!v.valid() || g_.rank(v) < 3) continue;
      std::vector<Dim> dims = in_groups(g_.dims(v), times);
      if ((i == 1 || i == 2) && repeated[i - 1] && repeated[i - 1]->times == times) {
        v = fuse::distinct_heads(b, *repeated[i - 1]);
        dims.end()[-3] = Dim(1);
      }
      v = b.reshape(v, dims);
    }
    return true;
  }

  template <class Refuse>
  bool fuse(NodeId first, NodeId region, NodeId last, const Refuse& refuse) {
    RegionProgram p(g_);
    p.operands = {g_.operand(first, 0), g_.operand(first, 1), g_.operand(last, 1), operand(first, 2),
                  operand(first, 3),    operand(last, 2),     operand(last, 3)};
    p.copy(first);
    p.copy(region);
    for (RegionStep& s : p.steps)
      if (s.op == OpKind::Softmax) s.attrs = NoAttrs{};  // the last axis, also of operands of another rank
    if (g_.op(last) == OpKind::FusedQMatMul) p.copy(last);
    else p.add(OpKind::QMatMul, DType::I32, RegionStep::kNone);
    if (p.steps.size() > context_.target.region_max_steps) return refuse("step_limit", std::to_string(p.steps.size()) + " steps");
    if (!fits(p.operands)) return refuse("operand_limit", std::to_string(p.operands.size()) + " operands");
    Builder b(g_, nullptr, last);
    const size_t before = g_.node_capacity();
    const bool grouped = group_heads(b, p.operands);
    ValueId y = b.create(OpKind::QAttention, p.operands, FusionAttrs{p.steps});
    if (!y.valid()) return false;
    if (grouped) y = b.reshape(y, {g_.dims(g_.result(last)).begin(), g_.dims(g_.result(last)).end()});
    const NodeId members[] = {first, region, last};
    context_.decisions.push_back(
        fused(g_, kIntegerAttention, last, members, 2 * (bytes(g_, g_.result(first)) + bytes(g_, g_.result(region)))));
    if (grouped) merge_origins_since(g_, before, members);
    replace_group(g_, members, g_.result(last), y);
    return true;
  }

  Graph& g_;
  PassContext& context_;
};

}  // namespace

PassResult fuse_integer_attention(Module& m, PassContext& context) {
  int64_t found = 0, masks = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::QAttention))) return {};
  each_graph(m, [&](Graph& g) {
    IntegerAttention attention(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::QMatMul || g.op(n) == OpKind::FusedQMatMul)
        found += context.rewrite([&] { return attention.take(n); });
    if (found == 0) return;
    std::vector<NodeId> nodes;  // last first, so that what a mask is computed from follows it
    for (NodeId n : g.nodes()) nodes.push_back(n);
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n)
      if (g.alive(*n)) masks += context.rewrite([&] { return attention.take_mask(*n); });
  });
  return {found > 0, {{"integer_attention", found}, {"masks", masks}}};
}

}  // namespace rlxc
