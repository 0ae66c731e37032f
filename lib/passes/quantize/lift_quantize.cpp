// Rounds values where they are computed. In a graph with Q/DQ pairs a Quantize often stands behind layout ops: heads are split
// and turned, windows are rolled, keys are repeated. There it would be a launch of its own, or a copy of floats. Above them it is
// the end of the matmul, norm or elementwise node that computes the value, and integers are moved.
//   quantize(mul(transpose(y), c))  ->  transpose(quantize(mul(y, c)))
// Moves a Quantize with one scale, and the elementwise nodes of one operand and Q/DQ pairs between, above Reshape, Transpose,
// Expand, Concat, nearest Resizes and slices, to all values that they read. Declines if one of these values is not computed, if
// others read what is between, or if more elements would be rounded, except by a contraction that is cropped. A max pooling is
// passed on the way to a contraction: rounding by a positive scale keeps the order of its operands. The second operand of a
// matmul, which may be a transposed view, is rounded above the Transposes of any other value that it alone reads, also with
// elementwise nodes of one operand between. O(nodes).
#include <algorithm>
#include <array>
#include <tuple>

#include "ir/op_rules.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostPassed = 24;  // nodes above a Quantize
constexpr size_t kMostReaders = 16;
constexpr int64_t kMostRounds = 8;  // of poolings after one another

bool is_one(const Graph& g, ValueId v) { return num_elements(g.type(v)) == 1; }

bool is_slice(OpKind op) { return op == OpKind::Narrow || op == OpKind::Slice; }
bool is_layout_op(OpKind op) {
  return op == OpKind::Transpose || op == OpKind::Reshape || op == OpKind::Expand || op == OpKind::Concat || is_slice(op);
}

// Whether the node can end in a rounding.
bool is_computed(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::QMatMul:
    case OpKind::QConv:
    case OpKind::MatMul:
    case OpKind::Attention:
    case OpKind::Rope:
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
    case OpKind::GroupNorm:
    case OpKind::Reduce: return true;
    case OpKind::Softmax:
    case OpKind::LogSoftmax: return g.attrs<AxisAttrs>(n).axis == g.rank(g.result(n)) - 1;
    default: return rounds_by_one(g, n) || has_trait(g.op(n), kElementwise);
  }
}

// The way from a Quantize up to the values that it rounds.
class Lift {
 public:
  Lift(Graph& g, NodeId quantize) : g_(g), builder_(g, nullptr, quantize), quantize_(quantize) {}

  ValueId run() {
    if (!rounds_by_one(g_, quantize_)) return {};
    if (!((finds_way() || finds_short_way() || finds_way_for_image()) && rounds_no_more()) && !finds_transposes()) return {};
    return emit(g_.operand(quantize_, 0), {{quantize_, 0}});
  }
  std::span<const NodeId> passed() const { return passed_; }

 private:
  enum class Way : uint8_t { None, Ends, Moves };  // at a value: is not computed; is rounded itself; is moved
  using Step = std::pair<NodeId, size_t>;          // a node, and the operand along which the way goes on

  // The operand that an elementwise node maps, if all others are single numbers.
  std::optional<size_t> mapped(NodeId n) const {
    if (rounds_by_one(g_, n)) return 0;
    if (!has_trait(g_.op(n), kElementwise) || g_.result_count(n) != 1) return std::nullopt;
    std::optional<size_t> whole;
    for (size_t i = 0; i < g_.operands(n).size(); ++i) {
      const ValueId v = g_.operand(n, i);
      if (!v.valid() || is_one(g_, v)) continue;
      if (whole) return std::nullopt;
      whole = i;
    }
    return whole && same_dims(g_, g_.operand(n, *whole), g_.result(n)) ? whole : std::nullopt;
  }

  bool finds_way() {
    passed_.clear();
    ends_.clear();
    slices_ = false;
    return survey(g_.operand(quantize_, 0), {}) == Way::Moves && closed();
  }
  // The way to the nearest values that are computed, also by elementwise nodes, if others read what is above them.
  bool finds_short_way() {
    passes_steps_ = false;
    const bool found = finds_way();
    passes_steps_ = true;
    return found;
  }
  // A convolution reads codes in any order of channels. So they may be those of a value that others read as floats.
  bool finds_way_for_image() {
    const NodeId reader = g_.only_user(g_.result(quantize_));
    if (!reader.valid() || g_.op(reader) != OpKind::QConv) return false;
    ends_where_shared_ = true;
    return finds_way();
  }

  bool finds_transposes() {
    const ValueId codes = g_.result(quantize_);
    const NodeId reader = g_.only_user(codes);
    if (!reader.valid() || g_.op(reader) != OpKind::QMatMul || g_.operand(reader, 1) != codes) return false;
    passed_.clear();
    ends_.clear();
    slices_ = false;
    ValueId v = g_.operand(quantize_, 0);
    bool moves = false;
    for (NodeId n = g_.def(v); n.valid() && passed_.size() < kMostPassed; n = g_.def(v)) {
      if (!g_.has_one_use(v) || is_weight(g_, v)) break;
      const OpKind op = g_.op(n);
      const bool layout = op == OpKind::Transpose || op == OpKind::Reshape;
      const auto along = layout ? std::optional<size_t>(0) : mapped(n);
      if (!along) break;
      moves |= op == OpKind::Transpose;
      passed_.push_back(n);
      v = g_.operand(n, *along);
    }
    // Elementwise nodes above the last layout op end in the rounding as they are.
    while (!passed_.empty() && !is_layout_op(g_.op(passed_.back()))) {
      v = g_.result(passed_.back());
      passed_.pop_back();
    }
    ends_.push_back(v);
    return moves;
  }

  bool moves(NodeId n) const { return is_layout_op(g_.op(n)) || selects_positions(g_, n); }
  bool is_passed(NodeId n) const { return std::ranges::find(passed_, n) != passed_.end(); }

  struct Below {  // what is between a value and the Quantize
    size_t nodes = 0;
    bool mapped = false, joined = false;  // elementwise nodes, a Concat
  };

  Way survey(ValueId v, Below below) {
    const NodeId n = g_.def(v);
    if (!n.valid() || ++below.nodes > kMostPassed || passed_.size() >= kMostPassed) return Way::None;
    if (is_passed(n)) return Way::Moves;
    if (ends_where_shared_ && below.nodes > 1 && is_layout_op(g_.op(n)) && g_.op(n) != OpKind::Reshape && g_.use_count(v) > 1) {
      ends_.push_back(v);
      return Way::Ends;
    }
    if (moves(n) || (!below.mapped && keeps_order(n))) {
      passed_.push_back(n);
      slices_ |= is_slice(g_.op(n)) || g_.op(n) == OpKind::Resize;
      below.joined |= g_.op(n) == OpKind::Concat;
      for (size_t i = 0; i < (g_.op(n) == OpKind::Concat ? g_.operands(n).size() : 1); ++i)
        if (survey(g_.operand(n, i), below) == Way::None) return Way::None;
      return Way::Moves;
    }
    // Above a Concat elementwise nodes are rounded themselves, so all ways from there on are the same.
    if (const auto along = passes_steps_ ? mapped(n) : std::nullopt; along && g_.use_count(v) == 1 && !below.joined) {
      const auto before = std::tuple(passed_.size(), ends_.size(), slices_);
      below.mapped = true;
      if (survey(g_.operand(n, *along), below) == Way::Moves) {
        passed_.push_back(n);
        return Way::Moves;
      }
      passed_.resize(std::get<0>(before));
      ends_.resize(std::get<1>(before));
      slices_ = std::get<2>(before);
    }
    if (!is_computed(g_, n) && !(below.joined && is_weight(g_, v))) return Way::None;
    if (std::ranges::find(ends_, v) == ends_.end()) ends_.push_back(v);
    return Way::Ends;
  }

  // A max pooling of the sums of a contraction, whose rounding keeps their order.
  bool keeps_order(NodeId n) const {
    if (g_.op(n) != OpKind::Pool || g_.attrs<PoolAttrs>(n).op != ReduceOp::Max || g_.use_count(g_.result(n)) != 1) return false;
    const DType t = g_.dtype(g_.result(quantize_));
    const auto scale = elements(g_, g_.operand(quantize_, 1), 1);
    return is_int8(t) && scale.size() == 1 && scale[0] > 0 && contraction_of(g_, g_.operand(n, 0)).valid();
  }

  // Whether nobody else reads what is between, except through a Reshape, which costs nothing.
  bool closed() const {
    return std::ranges::all_of(passed_, [&](NodeId n) {
      const ValueId v = g_.result(n);
      if (g_.op(n) == OpKind::Reshape) return true;
      if (g_.use_count(v) > kMostReaders) return false;
      return std::ranges::all_of(g_.uses(v), [&](const Graph::Use& u) { return u.user == quantize_ || is_passed(u.user); });
    });
  }

  bool rounds_no_more() const {
    if (!slices_) return true;
    const auto all = num_elements(g_.type(g_.operand(quantize_, 0)));
    int64_t rounded = 0;
    for (ValueId v : ends_) {
      const auto own = num_elements(g_.type(v));
      if (!own || !all || (crops(v) ? *own / 2 : *own) > *all - rounded) return false;
      rounded += *own;
    }
    return true;
  }

  // Whether v is cropped alone. A contraction rounds as it stores, so the rows that are cropped, as of a transposed convolution,
  // take less than a launch. An image is rounded where it is cropped, because a convolution would read a copy of the codes.
  bool crops(ValueId v) const {
    const auto is_conv = [&](const Graph::Use& use) { return g_.op(use.user) == OpKind::QConv; };
    return ends_.size() == 1 && g_.has_one_use(v) && contraction_of(g_, v).valid() &&
           std::ranges::none_of(g_.uses(g_.result(quantize_)), is_conv);
  }

  ValueId scalar_of(ValueId v) { return v.valid() ? builder_.reshape(v, {}) : v; }  // [1] as a scalar

  // The codes of v after the nodes `below`, last first, at v's place in the graph above the layout ops.
  ValueId emit(ValueId v, const std::vector<Step>& below) {
    for (const auto& [from, codes] : made_)
      if (from == v) return codes;
    const NodeId n = g_.def(v);
    ValueId codes;
    if (std::ranges::find(ends_, v) != ends_.end() || !is_passed(n)) {
      codes = v;
      for (auto step = below.rbegin(); step != below.rend() && codes.valid(); ++step) codes = mapped_alike(*step, codes);
    } else if (const auto along = moves(n) || g_.op(n) == OpKind::Pool ? std::nullopt : mapped(n)) {
      std::vector<Step> more = below;
      more.emplace_back(n, *along);
      codes = emit(g_.operand(n, *along), more);
    } else {
      std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
      for (size_t i = 0; i < (g_.op(n) == OpKind::Concat ? operands.size() : 1); ++i) operands[i] = emit(operands[i], below);
      codes = builder_.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
    }
    made_.emplace_back(v, codes);
    return codes;
  }

  ValueId mapped_alike(const Step& step, ValueId v) {
    const auto& [n, along] = step;
    if (const ValueId known = undone(n, v); known.valid()) return known;
    std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
    for (size_t i = 0; i < operands.size(); ++i) operands[i] = i == along ? v : scalar_of(operands[i]);
    return builder_.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
  }

  // The codes that v was dequantized from, if the node quantizes them alike.
  ValueId undone(NodeId n, ValueId v) const {
    const NodeId d = defining_op(g_, v, OpKind::Dequantize);
    if (g_.op(n) != OpKind::Quantize || !d.valid() || !rounds_by_one(g_, d)) return {};
    const auto number = [&](NodeId of, size_t i) {
      return i < g_.operands(of).size() && g_.operand(of, i).valid() ? scalar(g_, g_.operand(of, i)) : std::optional(0.0);
    };
    const bool same = g_.dtype(g_.operand(d, 0)) == g_.dtype(g_.result(n)) && number(d, 1) && number(d, 1) == number(n, 1) &&
                      number(d, 2) && number(d, 2) == number(n, 2);
    return same ? g_.operand(d, 0) : ValueId();
  }

  Graph& g_;
  Builder builder_;
  const NodeId quantize_;
  std::vector<NodeId> passed_;  // layout ops, and elementwise nodes below one
  std::vector<ValueId> ends_;   // the values to round
  bool slices_ = false, ends_where_shared_ = false, passes_steps_ = true;
  std::vector<std::pair<ValueId, ValueId>> made_;  // values, and their codes
};

bool lift(Graph& g, NodeId quantize) {
  const size_t before = g.node_capacity();
  Lift way(g, quantize);
  const ValueId codes = way.run();
  if (!codes.valid()) return false;
  std::vector<NodeId> members(way.passed().begin(), way.passed().end());
  members.push_back(quantize);
  merge_origins_since(g, before, members);
  replace(g, g.result(quantize), codes);
  return true;
}

// Whether a reader of v, also behind layout ops, cannot dequantize it in its own kernel.
bool needs_floats(const Graph& g, ValueId v, int depth = 0) {
  constexpr int kDeepest = 4;
  if (g.is_output(v)) return true;
  if (depth == kDeepest || g.use_count(v) > kMostReaders) return false;
  return std::ranges::any_of(g.uses(v), [&](const Graph::Use& use) {
    if (is_layout_op(g.op(use.user))) return needs_floats(g, g.result(use.user), depth + 1);
    switch (g.op(use.user)) {
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
      case OpKind::GroupNorm:
      case OpKind::Softmax:
      case OpKind::LogSoftmax:
      case OpKind::Quantize:
      case OpKind::Reduce: return false;
      default: return !has_trait(g.op(use.user), kElementwise);
    }
  });
}

// A pair around layout ops, of a value that no kernel rounds where it computes it: it is rounded after them, at once.
//   dequantize(transpose(quantize(x)))  ->  dequantize(quantize(transpose(x)))
bool sink_pair(Graph& g, NodeId dequantize) {
  ValueId codes = g.operand(dequantize, 0);
  const std::vector<NodeId> moves = moves_above(g, &codes, kMostPassed);
  const NodeId quantize = defining_op(g, codes, OpKind::Quantize);
  if (moves.empty() || !quantize.valid() || !g.has_one_use(codes) || !rounds_by_one(g, quantize) || !rounds_by_one(g, dequantize))
    return false;
  ValueId v = g.operand(quantize, 0);
  if (!g.def(v).valid() || is_computed(g, g.def(v)) || is_layout_op(g.op(g.def(v)))) return false;
  Builder b(g, nullptr, dequantize);
  const size_t before = g.node_capacity();
  v = rounded_alike(b, dequantize, rounded_alike(b, quantize, moved_alike(b, moves, v)));
  const NodeId members[] = {quantize, dequantize};
  merge_origins_since(g, before, members);
  replace(g, g.result(dequantize), v);
  return true;
}

// Whether a node moves or selects codes such that codes of another scale are moved and selected alike.
bool selects_codes(const Graph& g, NodeId n, NodeId dequantize, NodeId quantize) {
  if (g.op(n) == OpKind::Transpose || g.op(n) == OpKind::Reshape || selects_positions(g, n)) return true;
  if (g.op(n) == OpKind::Pad) return g.attrs<PadAttrs>(n).mode == PadMode::Constant;
  if (is_slice(g.op(n))) return g.has_one_use(g.operand(n, 0));  // of several slices each is rounded by its own numbers
  if (!pools_codes(g, n) || !is_int8(g.dtype(g.result(quantize)))) return false;
  return std::ranges::all_of(std::array{dequantize, quantize}, [&](NodeId k) {
    const auto scale = scalar(g, g.operand(k, 1));
    return scale && *scale > 0;
  });
}

// Whether two nodes quantize or dequantize by one number, the same one.
bool rounds_alike(const Graph& g, NodeId a, NodeId b) {
  return g.op(a) == g.op(b) && rounds_by_one(g, a) && g.dtype(g.result(a)) == g.dtype(g.result(b)) &&
         same_number(g, g.operand(a, 1), g.operand(b, 1)) && same_number(g, g.operand(a, 2), g.operand(b, 2));
}

// Whether all that quantizes the dequantized result of a node does so as n does.
bool requantized_alike(const Graph& g, NodeId select, NodeId n) {
  return std::ranges::all_of(g.uses(g.result(select)), [&](const Graph::Use& use) {
    return use.user == g.terminator() || g.op(use.user) != OpKind::Dequantize ||
           std::ranges::all_of(g.uses(g.result(use.user)), [&](const Graph::Use& u) {
             return u.user == g.terminator() || g.op(u.user) != OpKind::Quantize || rounds_alike(g, u.user, n);
           });
  });
}

// The codes, dequantized as d does and quantized as n does by nodes before n; invalid if there are none.
ValueId requantized_before(const Graph& g, ValueId codes, NodeId d, NodeId n, const Order& order) {
  const auto alike = [&](NodeId a, NodeId b) { return rounds_alike(g, a, b); };
  if (g.use_count(codes) > kMostReaders) return {};
  for (const Graph::Use& use : g.uses(codes)) {
    if (use.user == g.terminator() || !alike(use.user, d) || g.use_count(g.result(use.user)) > kMostReaders) continue;
    for (const Graph::Use& u : g.uses(g.result(use.user)))
      if (u.user != g.terminator() && u.user != n && order.at(u.user) > 0 && order.at(u.user) < order.at(n) && alike(u.user, n))
        return g.result(u.user);
  }
  return {};
}

// Quantizes codes by other numbers before they are moved or selected, if nobody reads them after that as they are: what rounded
// them first gives both.
//   quantize(dequantize(pool(quantize(x))))  ->  pool(quantize(dequantize(quantize(x))))
bool lift_requantize(Graph& g, NodeId n, const Order& order) {
  const NodeId d = defining_op(g, g.operand(n, 0), OpKind::Dequantize);
  if (!d.valid() || !rounds_by_one(g, n) || !rounds_by_one(g, d)) return false;
  const NodeId select = g.def(g.operand(d, 0));
  if (!select.valid() || !selects_codes(g, select, d, n) || g.use_count(g.result(select)) > kMostReaders) return false;
  if (g.op(select) == OpKind::Pool && !requantized_alike(g, select, n)) return false;
  const auto requantized = [&](const Graph::Use& use) {
    if (g.op(use.user) != OpKind::Dequantize || g.use_count(g.result(use.user)) > kMostReaders) return false;
    return std::ranges::all_of(g.uses(g.result(use.user)), [&](const Graph::Use& u) {
      return u.user != g.terminator() && g.op(u.user) == OpKind::Quantize && rounds_by_one(g, u.user);
    });
  };
  if (!std::ranges::all_of(g.uses(g.result(select)), requantized)) return false;
  NodeId source = g.def(g.operand(select, 0));
  for (size_t i = 0; i < kMostPassed && source.valid() && selects_codes(g, source, d, n); ++i) {
    if (g.op(source) == OpKind::Pool && !requantized_alike(g, source, n)) return false;
    source = g.def(g.operand(source, 0));
  }
  if (!source.valid() || g.op(source) != OpKind::Quantize || !is_computed(g, g.def(g.operand(source, 0)))) return false;
  Builder b(g, nullptr, n);
  const size_t before = g.node_capacity();
  std::vector<ValueId> operands(g.operands(select).begin(), g.operands(select).end());
  const ValueId known = requantized_before(g, operands[0], d, n, order);
  const auto requantized_by = [&](ValueId codes) { return rounded_alike(b, n, rounded_alike(b, d, codes)); };
  operands[0] = known.valid() ? known : requantized_by(operands[0]);
  if (g.op(select) == OpKind::Pad) {
    operands.resize(2);
    operands[1] = requantized_by(operands[1].valid() ? operands[1] : b.scalar(g.dtype(g.operand(d, 0)), 0));
  }
  const ValueId y = b.create(g.op(select), operands, g.module().attrs[g.attr_id(select)]);
  const NodeId members[] = {select, d, n};
  merge_origins_since(g, before, members);
  replace(g, g.result(n), y);
  return true;
}

// A max pooling of codes that are pooled already, and quantized again by other numbers between: these keep the order.
//   pool(quantize(dequantize(pool(x))))  ->  quantize(dequantize(pool(pool(x))))
bool sink_requantize(Graph& g, NodeId pool) {
  std::vector<NodeId> pairs;  // last first
  ValueId v = g.operand(pool, 0);
  for (int64_t i = 0; i < kMostRounds; ++i) {
    const NodeId q = defining_op(g, v, OpKind::Quantize);
    const NodeId d = q.valid() ? defining_op(g, g.operand(q, 0), OpKind::Dequantize) : NodeId();
    if (!d.valid() || !rounds_by_one(g, q) || !rounds_by_one(g, d) || !selects_codes(g, pool, d, q)) break;
    pairs.insert(pairs.end(), {q, d});
    v = g.operand(d, 0);
  }
  const NodeId source = defining_op(g, v, OpKind::Pool);
  if (pairs.empty() || !source.valid() || !pools_codes(g, source) || !g.has_one_use(g.operand(pool, 0))) return false;
  Builder b(g, nullptr, pool);
  const size_t before = g.node_capacity();
  v = b.create(OpKind::Pool, {v}, g.module().attrs[g.attr_id(pool)]);
  for (auto n = pairs.rbegin(); n != pairs.rend(); ++n) v = rounded_alike(b, *n, v);
  pairs.push_back(pool);
  merge_origins_since(g, before, pairs);
  replace(g, g.result(pool), v);
  return true;
}

}  // namespace

PassResult lift_quantize(Module& m, PassContext& context) {
  int64_t lifted = 0, joined = 0;
  const auto join = [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Dequantize && needs_floats(g, g.result(n)))
        joined += context.rewrite([&] { return join_pair(g, n) || sink_pair(g, n); });
  };
  if (!context.target.native.test(static_cast<size_t>(OpKind::QMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    join(g);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Quantize) lifted += context.rewrite([&] { return lift(g, n); });
    join(g);
    for (int64_t round = 0, before = -1; round < kMostRounds && before != lifted; ++round) {
      before = lifted;
      const Order order(g);
      std::vector<NodeId> all;
      for (NodeId n : g.nodes())
        if (g.op(n) == OpKind::Quantize) all.push_back(n);
      // Last first: a pooling of what is pooled moves before that does.
      for (auto n = all.rbegin(); n != all.rend(); ++n)
        if (g.alive(*n)) lifted += context.rewrite([&] { return lift_requantize(g, *n, order); });
    }
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Pool) lifted += context.rewrite([&] { return sink_requantize(g, n); });
  });
  return {lifted + joined > 0, {{"quantize_moved", lifted}, {"pairs_joined", joined}}};
}

}  // namespace rlxc
