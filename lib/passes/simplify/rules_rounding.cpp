// Rules on Quantize, Dequantize and FakeQuantize. Those on the first two are of one scale. What they round may be selected from a
// few numbers: a mask is one of two, and a bias of positions is gathered from a small table. Then the numbers are rounded, once,
// and the rounded ones are selected.
//   quantize(where(c, 0, -1e4))  ->  where(c, quantize(0), quantize(-1e4))
//   quantize(transpose(gather(table, i)))  ->  transpose(gather(quantize(table), i))
#include <algorithm>
#include <optional>
#include <utility>

#include "ir/op_rules.h"
#include "passes/match.h"
#include "passes/quantize/roundings.h"
#include "passes/simplify/rules.h"

namespace rlxc::simplify {
namespace {

using enum OpKind;

constexpr size_t kMostNodes = 24;           // between a rounding and the weights
constexpr int64_t kMostElements = 1 << 16;  // of a weight

bool is_one(const Graph& g, ValueId v) { return num_elements(g.type(v)) == 1; }

// The way from a rounding up to the weights that its operand is selected from.
class Selection {
 public:
  Selection(Simplifier& s, NodeId rounding) : s_(s), g_(s.graph()), rounding_(rounding) {}

  ValueId run() {
    const ValueId v = g_.operand(rounding_, 0);
    if (match::is_weight(g_, v) || !is_selected(v, false)) return {};
    return emit(v, {{rounding_, 0}});
  }

 private:
  using Step = std::pair<NodeId, size_t>;  // a node, and the operand that it maps

  bool is_leaf(ValueId v) const {
    const auto count = num_elements(g_.type(v));
    return count && *count <= kMostElements && match::is_weight(g_, v);
  }
  // 1 where a condition holds, and 0 elsewhere.
  bool is_flag(NodeId n) const { return g_.op(n) == Cast && g_.dtype(g_.operand(n, 0)) == DType::Bool; }
  static bool is_layout_op(OpKind op) { return op == Transpose || op == Reshape || op == Expand || op == Narrow; }

  // The operand that an elementwise node maps, if the others are single numbers that are known at load time.
  std::optional<size_t> mapped(NodeId n) const {
    if (!rounds_by_one(g_, n) && !has_trait(g_.op(n), kElementwise)) return std::nullopt;
    if (g_.op(n) == ElementwiseRegion || g_.result_count(n) != 1) return std::nullopt;
    std::optional<size_t> whole;
    for (size_t i = 0; i < g_.operands(n).size(); ++i) {
      const ValueId v = g_.operand(n, i);
      if (!v.valid() || (is_one(g_, v) && match::is_weight(g_, v))) continue;
      if (whole) return std::nullopt;
      whole = i;
    }
    return whole && match::same_dims(g_, g_.operand(n, *whole), g_.result(n)) ? whole : std::nullopt;
  }

  // `shared`: others read a value below, so that a copy of n would be one launch more.
  bool is_selected(ValueId v, bool shared) {
    if (is_leaf(v)) return true;
    const NodeId n = g_.def(v);
    if (!n.valid() || ++visited_ > kMostNodes) return false;
    if (is_flag(n)) return true;
    shared |= g_.use_count(v) != 1;
    if (g_.op(n) == Where) return is_selected(g_.operand(n, 1), shared) && is_selected(g_.operand(n, 2), shared);
    if (is_layout_op(g_.op(n)) || g_.op(n) == Gather) return !shared && is_selected(g_.operand(n, 0), shared);
    const auto along = mapped(n);
    return along && is_selected(g_.operand(n, *along), shared);
  }

  // v after the nodes `below`, last first, of which each weight is an operand.
  ValueId emit(ValueId v, const std::vector<Step>& below) {
    if (is_leaf(v)) return apply(below, v);
    const NodeId n = g_.def(v);
    Builder& b = s_.at(rounding_);
    if (is_flag(n)) {
      const ValueId one = apply(below, b.scalar(g_.dtype(v), 1)), zero = apply(below, b.scalar(g_.dtype(v), 0));
      return b.create(Where, {g_.operand(n, 0), one, zero});
    }
    std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
    if (g_.op(n) == Where) {
      for (const size_t i : {1, 2}) operands[i] = emit(operands[i], below);
    } else if (is_layout_op(g_.op(n)) || g_.op(n) == Gather) {
      operands[0] = emit(operands[0], below);
    } else {
      std::vector<Step> more = below;
      const size_t along = mapped(n).value_or(0);
      more.emplace_back(n, along);
      return emit(operands[along], more);
    }
    return b.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
  }

  ValueId apply(const std::vector<Step>& below, ValueId v) {
    Builder& b = s_.at(rounding_);
    for (auto step = below.rbegin(); step != below.rend() && v.valid(); ++step) {
      const auto [n, along] = *step;
      std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
      for (size_t i = 0; i < operands.size(); ++i) {
        if (i == along) operands[i] = v;
        else if (operands[i].valid()) operands[i] = b.reshape(operands[i], {});
      }
      Attrs attrs = g_.module().attrs[g_.attr_id(n)];
      if (auto* q = std::get_if<QuantAttrs>(&attrs)) q->axis = 0;
      v = b.create(g_.op(n), operands, attrs);
    }
    return v;
  }

  Simplifier& s_;
  Graph& g_;
  const NodeId rounding_;
  size_t visited_ = 0;
};

bool round_weights(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  if (!rounds_by_one(g, n)) return false;
  // Contractions and integer ops read codes.
  const auto reads_floats = [&](const Graph::Use& use) {
    return use.user != g.terminator() && has_trait(g.op(use.user), kElementwise);
  };
  if (g.op(n) == Dequantize && !std::ranges::all_of(g.uses(g.result(n)), reads_floats)) return false;
  return s.replace(n, Selection(s, n).run());
}

// quantize(pad(x, c)) = pad(quantize(x), quantize(c)): the rounding meets what computes x, and the padding a convolution.
bool quantize_before_pad(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  const NodeId pad = s.def(arg(s, n), Pad);
  if (!pad.valid() || !rounds_by_one(g, n) || !g.has_one_use(g.result(pad))) return false;
  Builder& b = s.at(n);
  std::vector<ValueId> operands{rounded_alike(b, n, arg(s, pad))};
  if (g.attrs<PadAttrs>(pad).mode == PadMode::Constant) {
    const ValueId fill = arg(s, pad, 1);
    operands.push_back(rounded_alike(b, n, fill.valid() ? b.reshape(fill, {}) : b.scalar(g.dtype(arg(s, pad)), 0)));
  }
  return s.replace(n, b.create(Pad, operands, g.attrs<PadAttrs>(pad)));
}

// Whether all elements of the result are elements of the operand. `all`: and each of them, so that the largest stays.
bool keeps_elements(OpKind op, bool all) {
  if (op == Reshape || op == Transpose || op == Reverse) return true;
  return !all && (op == Narrow || op == Slice || op == Relu);  // 0 is a multiple of each scale
}

// fake_quantize(f(fake_quantize(x))) = f(fake_quantize(x)), if f only moves values and the second scale is the first: the same
// operand, or that of the largest magnitude.
bool drop_repeated_rounding(Simplifier& s, NodeId n) {
  const Graph& g = s.graph();
  const auto& a = g.attrs<FakeQuantizeAttrs>(n);
  const bool fixed = a.mode == FakeQuantizeMode::Fixed;
  ValueId v = arg(s, n);
  for (size_t i = 0; i < kMostNodes; ++i) {
    const NodeId d = g.def(v);
    if (g.op(d) == FakeQuantize)
      return g.attr_id(d) == g.attr_id(n) && (!fixed || arg(s, d, 1) == arg(s, n, 1)) && s.replace(n, arg(s, n));
    if (a.axis >= 0 || !keeps_elements(g.op(d), !fixed)) return false;
    v = arg(s, d);
  }
  return false;
}

constexpr Rule kRoundingRules[] = {
    {FakeQuantize, "drop_repeated_rounding", false, drop_repeated_rounding},
    {Quantize, "quantize_before_pad", false, quantize_before_pad},
    {Quantize, "round_weights", false, round_weights},
    {Dequantize, "round_weights", false, round_weights},
};

}  // namespace

std::span<const Rule> rounding_rules() { return kRoundingRules; }

}  // namespace rlxc::simplify
