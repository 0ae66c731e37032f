// Merges integer matmuls of one value with several weights (Q, K and V of a graph with Q/DQ pairs) into one: weights, scales,
// zero points and biases side by side. The epilogues become one program of steps (align_steps.h), whose results are bit-exact.
// Runs after the epilogues are fused, because a slice of the sums would need a launch of its own for them.
#include <algorithm>

#include "ir/region.h"
#include "passes/fuse/align_steps.h"
#include "passes/fuse/shared_input.h"
#include "passes/fuse/split_rounding.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

class SharedIntegers final : public fuse::SharedInput {
 public:
  SharedIntegers(Graph& g, PassContext& ctx) : SharedInput(g, ctx, true) {}

 private:
  static constexpr size_t kZeroA = 2, kZeroB = 3;

  ValueId operand(NodeId n, size_t i) const { return i < g_.operands(n).size() ? g_.operand(n, i) : ValueId(); }
  Dim columns_of(NodeId n) const { return g_.dims(g_.result(n)).back(); }

  bool candidate(NodeId n) const override {
    return (g_.op(n) == OpKind::FusedQMatMul || g_.op(n) == OpKind::QMatMul) && g_.operand(n, 0) != g_.operand(n, 1) &&
           g_.rank(g_.operand(n, 1)) == 2 && g_.rank(g_.result(n)) >= 2 && columns_of(n).is_static() && columns_of(n) != Dim(0) &&
           !is_weight(g_, g_.result(n));
  }

  bool has_weights(NodeId n) const override {
    return is_weight(g_, g_.operand(n, 1)) && (!operand(n, kZeroB).valid() || is_weight(g_, operand(n, kZeroB)));
  }

  const char* conflict(NodeId a, NodeId b) override {
    if (a == b) return nullptr;
    const auto dtype = [&](NodeId n, size_t i) { return g_.dtype(g_.operand(n, i)); };
    if (dtype(a, 1) != dtype(b, 1) || !same_number(g_, operand(a, kZeroA), operand(b, kZeroA))) return "quantization_differs";
    if (operand(a, kZeroB).valid() && operand(b, kZeroB).valid() && dtype(a, kZeroB) != dtype(b, kZeroB))
      return "quantization_differs";
    const NodeId both[] = {a, b};
    const auto steps = fuse::aligned_steps(g_, both);
    if (steps.steps.empty()) return "steps_differ";
    return problem(steps, both);
  }

  // The reason why the operands of the steps cannot lie side by side, or null.
  const char* problem(const fuse::AlignedSteps& p, std::span<const NodeId> nodes) const {
    for (const auto& o : p.operands) {
      if (is_common(o)) continue;
      const ValueId* first = nullptr;
      for (size_t i = 0; i < nodes.size(); ++i) {
        const ValueId v = o.values[i];
        if (!v.valid()) continue;
        if (first && g_.dtype(*first) != g_.dtype(v)) return "steps_differ";
        first = &o.values[i];
        if (!is_columns(v)) return "steps_differ";
        if (!is_weight(g_, v)) return "runtime_weights";
      }
    }
    return nullptr;
  }
  // Whether the value has one element per column, or one for all.
  bool is_columns(ValueId v) const {
    const auto d = g_.dims(v);
    return d.empty() || std::ranges::all_of(d.first(d.size() - 1), [](Dim s) { return s == Dim(1); });
  }
  // Whether all members read one value that is the same for all columns.
  bool is_common(const fuse::AlignedSteps::Operand& o) const {
    const auto d = o.values[0].valid() ? g_.dims(o.values[0]) : std::span<const Dim>();
    return std::ranges::all_of(o.values, [&](ValueId v) { return v.valid() && same_number(g_, v, o.values[0]); }) &&
           (d.empty() || d.back() == Dim(1));
  }

  bool prepare(const std::vector<Member>& members) override {
    const std::vector<NodeId> nodes = nodes_of(members);
    program_ = fuse::aligned_steps(g_, nodes);
    const auto refuse = [&](std::string_view reason, std::string detail) {
      return decline(ctx_, g_, fuse::kSharedInput, nodes[0], reason, std::move(detail));
    };
    if (program_.steps.empty() || problem(program_, nodes))
      return refuse("steps_differ", std::to_string(nodes.size()) + " matmuls of one value");
    const size_t steps = program_.steps.size(), operands = kQuantOperands + program_.operands.size();
    if (steps > ctx_.target.region_max_steps) return refuse("step_limit", std::to_string(steps) + " steps");
    if (operands > ctx_.target.region_max_inputs) return refuse("operand_limit", std::to_string(operands) + " operands");
    return true;
  }

  static std::vector<NodeId> nodes_of(const std::vector<Member>& members) {
    std::vector<NodeId> nodes;
    for (const Member& m : members) nodes.push_back(m.matmul);
    return nodes;
  }

  ValueId merged(std::vector<Member>& members, ValueId x) override {
    const std::vector<NodeId> nodes = nodes_of(members);
    fuse::AlignedSteps& p = program_;
    const NodeId at = nodes[0];
    Builder b(g_, nullptr, at);
    std::vector<ValueId> weights, zeros;
    for (NodeId n : nodes) {
      hoist(g_.operand(n, 1), at);
      weights.push_back(g_.operand(n, 1));
      zeros.push_back(operand(n, kZeroB));
    }
    std::vector<ValueId> operands = {x, b.concat(weights, 1), operand(at, kZeroA), {}};
    if (std::ranges::any_of(zeros, &ValueId::valid)) operands[kZeroB] = by_columns(b, {zeros, OpKind::Sub}, nodes);
    if (p.steps.size() == 1) return b.create(OpKind::QMatMul, operands, NoAttrs{});
    for (const auto& o : p.operands) operands.push_back(by_columns(b, o, nodes));
    for (RegionStep& s : p.steps)
      for (uint16_t& a : s.args)
        if (a != RegionStep::kNone && !(a & RegionStep::kStep)) a += kQuantOperands;
    return b.create(OpKind::FusedQMatMul, operands, FusionAttrs{std::move(p.steps)});
  }

  // The operands of the members side by side, or the one of all.
  ValueId by_columns(Builder& b, const fuse::AlignedSteps::Operand& o, std::span<const NodeId> nodes) {
    if (is_common(o)) {
      hoist(o.values[0], nodes[0]);  // that of another member where this one repeats a rounding
      return o.values[0];
    }
    DType t = DType::F32;
    for (ValueId v : o.values)
      if (v.valid()) t = g_.dtype(v);
    std::vector<ValueId> parts;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Dim n = columns_of(nodes[i]);
      const ValueId v = o.values[i];
      if (v.valid()) hoist(v, nodes[0]);
      ValueId part = v.valid() ? b.reshape(v, {g_.rank(v) == 0 ? Dim(1) : g_.dims(v).back()})
                               : b.reshape(b.scalar(t, fuse::neutral_operand(o.reader, t)), {Dim(1)});
      parts.push_back(g_.dims(part)[0] == n ? part : b.expand(part, {n}));
    }
    return b.concat(parts, 0);
  }

  fuse::AlignedSteps program_;  // of the members to merge
};

}  // namespace

PassResult fuse_shared_integer_matmul(Module& m, PassContext& ctx) {
  int64_t merged = 0;
  each_graph(m, [&](Graph& g) {
    if (ctx.target.integer_fusions) fuse::split_roundings(g);
    merged += SharedIntegers(g, ctx).run();
  });
  return {merged > 0, {{"matmul", merged}}};
}

}  // namespace rlxc
