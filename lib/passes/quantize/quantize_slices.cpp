// Quantizes the result of a matmul once where its slices along the last axis have scales of their own, as queries, keys and
// values that are split from one projection. Each slice would be read and written again by a launch.
//   quantize(transpose(narrow(y, 0, 8)) * f, s0, z0), quantize(narrow(y, 8, 8), s1, z1)
//     ->  q = quantize(y * [f.., 1..], [s0.., s1..], [z0.., z1..]); transpose(narrow(q, 0, 8)), narrow(q, 8, 8)
// The last axis may be split and moved before it is cut: [B,S,3*H*D] -> [3,B,H,S,D]; the axes before it may be reshaped. Other
// values are quantized by a scale for each index of the axis along which they are cut, such as the steps of an unrolled loop.
// Between a slice and its Quantize are Reshapes, Transposes and at most one factor. Requires known numbers, and that all users of
// the result are such slices. x * 1 is exact.
// Slices of codes are dequantized, scaled and quantized again in the same way; other slices of the codes keep them, because a
// code that is dequantized and quantized by the same numbers is itself.
//   c = quantize(y, s, z); quantize(transpose(dequantize(narrow(c, 0, 8), s, z)) * f, s0, z0), narrow(c, 8, 8)
//     ->  q = quantize(dequantize(c, s, z) * [f.., 1..], [s0.., s..], [z0.., z..]); transpose(narrow(q, 0, 8)), narrow(q, 8, 8)
// O(nodes).
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr size_t kMostMoves = 8, kMostSlices = 16, kMostScales = 1 << 20;

// A slice, the layout ops after it, and how it is quantized. A slice of codes that keeps them has no `quantize`.
struct Slice {
  NodeId narrow, dequantize, quantize;
  std::vector<NodeId> moves;
  int64_t start = 0, count = 0;
  double scale = 0, zero = 0;
  std::optional<double> factor;

  bool has(int64_t i) const { return i >= start && i < start + count; }
};

bool is_move(OpKind op) { return op == OpKind::Reshape || op == OpKind::Transpose; }

// The zero point of a Quantize or Dequantize: 0 if it has none, nothing if it is unknown.
std::optional<double> zero_of(const Graph& g, NodeId n) {
  return g.operand(n, 2).valid() ? scalar(g, g.operand(n, 2)) : std::optional(0.0);
}

// A number, also one that is dequantized and reshaped.
std::optional<double> number_of(const Graph& g, ValueId v) {
  if (const auto known = scalar(g, v)) return known;
  if (const NodeId r = defining_op(g, v, OpKind::Reshape); r.valid()) v = g.operand(r, 0);
  const NodeId d = defining_op(g, v, OpKind::Dequantize);
  if (!d.valid() || !rounds_by_one(g, d) || g.dtype(v) != DType::F32) return std::nullopt;
  const auto code = scalar(g, g.operand(d, 0)), scale = scalar(g, g.operand(d, 1)), zero = zero_of(g, d);
  if (!code || !scale || !zero) return std::nullopt;
  return static_cast<float>(*code - *zero) * static_cast<float>(*scale);
}

// A slice of known place, which keeps what it is cut from.
std::optional<Slice> kept(const Graph& g, NodeId narrow) {
  const auto& a = g.attrs<NarrowAttrs>(narrow);
  const Dim count = g.dims(g.result(narrow))[static_cast<size_t>(a.axis)];
  if (!a.start.is_static() || !count.is_static()) return std::nullopt;
  return Slice{narrow, {}, {}, {}, a.start.size(), count.size(), 0, 0, {}};
}

// A slice that is quantized.
std::optional<Slice> slice_of(const Graph& g, NodeId narrow) {
  const DType t = g.dtype(g.operand(narrow, 0));
  const bool codes = is_int8(t);
  auto cut = kept(g, narrow);
  if (!cut || (t != DType::F32 && !codes)) return std::nullopt;
  Slice& s = *cut;
  ValueId v = g.result(narrow);
  for (size_t i = 0; i < kMostMoves; ++i) {
    const NodeId n = g.only_user(v);
    if (!n.valid() || n == g.terminator()) return std::nullopt;
    if (is_move(g.op(n))) {
      s.moves.push_back(n);
    } else if (codes && !s.dequantize.valid()) {
      if (g.op(n) != OpKind::Dequantize || !rounds_by_one(g, n) || g.dtype(g.result(n)) != DType::F32) return std::nullopt;
      s.dequantize = n;
    } else if (const ValueId f = g.op(n) == OpKind::Mul ? other(g, n, v) : ValueId(); f.valid()) {
      if (s.factor || !same_dims(g, v, g.result(n)) || !(s.factor = number_of(g, f))) return std::nullopt;
    } else if (g.op(n) == OpKind::Quantize) {
      const auto scale = scalar(g, g.operand(n, 1)), zero = zero_of(g, n);
      const bool one = num_elements(g.type(g.operand(n, 1))) == 1 && g.dtype(g.operand(n, 1)) == DType::F32;
      if (g.operand(n, 0) != v || g.attrs<QuantAttrs>(n).block != 0 || !one || !scale || !zero) return std::nullopt;
      s.quantize = n;
      s.scale = *scale;
      s.zero = *zero;
      return s;
    } else {
      return std::nullopt;
    }
    v = g.result(n);
  }
  return std::nullopt;
}

class SlicedResult {
 public:
  // first: the first slice of a value in execution order.
  SlicedResult(Graph& g, NodeId first)
      : g_(g), first_(first), whole_(g.operand(first, 0)), codes_(is_int8(g.dtype(whole_))), to_(g.dtype(whole_)) {}

  bool run() {
    if (!find_slices()) return false;
    if (find_columns() && is_product(y_)) axis_ = g_.rank(y_) - 1;
    else if (codes_ || !cut_along_axis()) return false;
    const auto columns = static_cast<size_t>(g_.dims(y_)[static_cast<size_t>(axis_)].size());
    if (columns > kMostScales || (codes_ && !find_numbers(columns))) return false;
    Builder b(g_, nullptr, first_);
    const size_t before = g_.node_capacity();
    const DType t = to_;
    std::vector<float> scales(columns, 1), factors(columns, 1);
    std::vector<uint8_t> zeros(columns, 0);  // bytes of either type
    for (size_t c = 0; c < columns; ++c) {
      if (codes_) {
        scales[c] = static_cast<float>(scales_[c]);
        zeros[c] = static_cast<uint8_t>(static_cast<int>(zeros_[c]));
      }
      for (const Slice& s : slices_)
        if (s.quantize.valid() && s.has(position(c))) {
          scales[c] = static_cast<float>(s.scale);
          zeros[c] = static_cast<uint8_t>(static_cast<int>(s.zero));
          factors[c] = static_cast<float>(s.factor.value_or(1));
        }
    }
    const auto constant = [&](DType type, const auto& values) {
      return b.constant(make_data(type, {static_cast<int64_t>(columns)}, std::as_bytes(std::span(values))));
    };
    ValueId x = y_;
    if (codes_) {
      const NodeId q = g_.def(y_);
      QuantAttrs a = g_.attrs<QuantAttrs>(q);
      a.to = DType::F32;
      x = b.create(OpKind::Dequantize, {x, g_.operand(q, 1), g_.operand(q, 2)}, a);
    }
    if (std::ranges::any_of(slices_, [](const Slice& s) { return s.factor.has_value(); })) {
      std::vector<Dim> sizes(static_cast<size_t>(g_.rank(y_) - axis_), Dim(1));
      sizes[0] = Dim(static_cast<int64_t>(columns));
      x = b.mul(x, b.reshape(constant(DType::F32, factors), sizes));
    }
    ValueId codes =
        b.create(OpKind::Quantize, {x, constant(DType::F32, scales), constant(t, zeros)}, QuantAttrs{axis_, 0, t, true});
    for (auto n = moves_.rbegin(); n != moves_.rend(); ++n) codes = moved(b, *n, codes);
    std::vector<ValueId> results;
    for (const Slice& s : slices_) {
      ValueId v = moved(b, s.narrow, codes);
      for (NodeId n : s.moves) v = moved(b, n, v);
      if (!v.valid()) return false;
      results.push_back(v);
    }
    std::vector<NodeId> members;
    for (const Slice& s : slices_)
      if (s.quantize.valid()) members.push_back(s.quantize);
    merge_origins_since(g_, before, members);
    for (size_t i = 0; i < slices_.size(); ++i)
      replace(g_, g_.result(slices_[i].quantize.valid() ? slices_[i].quantize : slices_[i].narrow), results[i]);
    return true;
  }

 private:
  bool find_slices() {
    if (g_.use_count(whole_) < 2 || g_.use_count(whole_) > kMostSlices || g_.is_output(whole_)) return false;
    for (const Graph::Use& use : g_.uses(whole_)) {
      if (g_.op(use.user) != OpKind::Narrow || use.index != 0) return false;
      auto s = slice_of(g_, use.user);
      if (codes_ && (!s || g_.attrs<QuantAttrs>(s->quantize).to != to_)) s = kept(g_, use.user);
      if (!s) return false;
      if (!codes_ && slices_.empty()) to_ = g_.attrs<QuantAttrs>(s->quantize).to;
      slices_.push_back(*s);
      if (g_.attrs<NarrowAttrs>(s->narrow).axis != g_.attrs<NarrowAttrs>(slices_[0].narrow).axis ||
          (s->quantize.valid() && g_.attrs<QuantAttrs>(s->quantize).to != to_))
        return false;
    }
    if (std::ranges::none_of(slices_, [](const Slice& s) { return s.quantize.valid(); })) return false;
    std::ranges::sort(slices_, {}, &Slice::start);
    for (size_t i = 1; i < slices_.size(); ++i)
      if (slices_[i].start < slices_[i - 1].start + slices_[i - 1].count) return false;
    return is_int8(to_);
  }

  // Follows the sliced axis up to the last axis of the result of the matmul.
  bool find_columns() {
    auto axis = static_cast<size_t>(g_.attrs<NarrowAttrs>(slices_[0].narrow).axis);
    y_ = whole_;
    bool split = false;
    for (size_t i = 0; i < kMostMoves; ++i) {
      const NodeId n = g_.def(y_);
      if (!n.valid() || !is_move(g_.op(n)) || (i > 0 && !g_.has_one_use(y_))) break;
      if (g_.op(n) == OpKind::Transpose) {
        axis = static_cast<size_t>(g_.attrs<PermAttrs>(n).perm[axis]);
      } else if (axis + 1 == g_.dims(y_).size() && !g_.dims(g_.operand(n, 0)).empty() &&
                 g_.dims(g_.operand(n, 0)).back() == g_.dims(y_).back()) {
        axis = g_.dims(g_.operand(n, 0)).size() - 1;
      } else {
        // Splits the last axis. The axes before it may be split or merged in any way.
        const auto to = g_.dims(y_), from = g_.dims(g_.operand(n, 0));
        if (split || from.empty() || !from.back().is_static()) return false;
        size_t first = to.size();
        for (int64_t whole = 1; first > 0 && to[first - 1].is_static() && whole < from.back().size();)
          whole *= to[--first].size();
        const std::vector<Dim> columns(to.begin() + static_cast<std::ptrdiff_t>(first), to.end());
        if (axis < first || g_.module().dims.product(columns) != from.back()) return false;
        sliced_ = to[axis].size();
        inner_ = 1;
        for (size_t d = axis + 1; d < to.size(); ++d) inner_ *= to[d].size();
        split = true;
        axis = from.size() - 1;
      }
      moves_.push_back(n);
      y_ = g_.operand(n, 0);
    }
    const auto d = g_.dims(y_);
    if (d.empty() || axis + 1 != d.size() || !d.back().is_static() || d.back().size() == 0) return false;
    if (!split) sliced_ = d.back().size();
    return sliced_ > 0 && inner_ > 0 && (moves_.empty() || g_.has_one_use(y_));
  }

  // Reads the numbers by which the codes are quantized, of each column. All slices dequantize by them.
  bool find_numbers(size_t columns) {
    const NodeId q = g_.def(y_);
    if (!q.valid() || g_.op(q) != OpKind::Quantize || g_.dtype(g_.operand(q, 1)) != DType::F32) return false;
    const auto& a = g_.attrs<QuantAttrs>(q);
    if (!rounds_by_one(g_, q) && (a.block != 0 || a.axis != axis_)) return false;
    const auto read = [&](ValueId v, std::vector<double>* to) {
      if (v.valid()) *to = elements(g_, v, columns);
      else to->assign(1, 0);
      if (to->size() == 1) to->resize(columns, to->front());
      return to->size() == columns;
    };
    if (!read(g_.operand(q, 1), &scales_) || !read(g_.operand(q, 2), &zeros_)) return false;
    return std::ranges::all_of(slices_, [&](const Slice& s) {
      if (!s.dequantize.valid()) return true;
      const auto scale = scalar(g_, g_.operand(s.dequantize, 1)), offset = zero_of(g_, s.dequantize);
      for (size_t c = 0; c < columns; ++c)
        if (s.has(position(c)) && (scales_[c] != scale || zeros_[c] != offset)) return false;
      return true;
    });
  }

  // The position of a column of y along the sliced axis.
  int64_t position(size_t column) const { return static_cast<int64_t>(column) / inner_ % sliced_; }

  // The value itself, cut along any axis.
  bool cut_along_axis() {
    y_ = whole_;
    axis_ = g_.attrs<NarrowAttrs>(slices_[0].narrow).axis;
    moves_.clear();
    inner_ = 1;
    const Dim size = g_.dims(y_)[static_cast<size_t>(axis_)];
    if (is_weight(g_, y_) || !size.is_static()) return false;
    sliced_ = size.size();
    return sliced_ > 0;
  }

  bool is_product(ValueId v) const {
    if (codes_ && g_.op(g_.def(v)) == OpKind::Quantize) v = g_.operand(g_.def(v), 0);
    const NodeId n = contraction_of(g_, v);
    return n.valid() && g_.op(n) != OpKind::QConv;
  }

  ValueId moved(Builder& b, NodeId n, ValueId v) const { return b.create(g_.op(n), {v}, g_.module().attrs[g_.attr_id(n)]); }

  Graph& g_;
  const NodeId first_;
  const ValueId whole_;
  const bool codes_;                    // whether slices of codes are quantized again
  DType to_;                            // of the codes that are computed
  ValueId y_;                           // the value that is quantized: the result of a matmul, or the sliced one
  int64_t axis_ = 0;                    // its axis of scales
  std::vector<double> scales_, zeros_;  // by which codes are quantized, by column
  std::vector<Slice> slices_;           // by start
  std::vector<NodeId> moves_;           // from the slices up
  int64_t sliced_ = 1, inner_ = 1;      // column c of y is at c / inner % sliced along the sliced axis
};

}  // namespace

PassResult quantize_slices(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::FusedQMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    // Slices of codes that the first walk makes are quantized again in the second one.
    for (int64_t walk = 0, before = -1; walk < 2 && found != before; ++walk) {
      before = found;
      for (NodeId n : g.nodes())
        if (g.op(n) == OpKind::Narrow) found += context.rewrite([&] { return SlicedResult(g, n).run(); });
    }
  });
  return {found > 0, {{"sliced_results", found}}};
}

}  // namespace rlxc
