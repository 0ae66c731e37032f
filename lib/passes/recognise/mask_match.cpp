#include "passes/recognise/mask_match.h"

#include <cmath>

#include "passes/counted.h"

namespace rlxc::recognise {
namespace {

using namespace match;

constexpr int64_t kConstantLimit = int64_t{1} << 24;
constexpr int kDepth = 24, kParts = 256;

// Returns whether n is a Reshape that only adds or drops leading axes of dim 1, so its operand broadcasts in the same way.
bool leading_only(const Graph& g, NodeId n) {
  const auto a = g.dims(g.operand(n, 0)), b = g.dims(g.result(n));
  const auto &wide = a.size() > b.size() ? a : b, &narrow = a.size() > b.size() ? b : a;
  const size_t extra = wide.size() - narrow.size();
  for (size_t i = 0; i < wide.size(); ++i)
    if (i < extra ? wide[i] != Dim(1) : wide[i] != narrow[i - extra]) return false;
  return true;
}

class Matcher {
 public:
  Matcher(const Graph& g, const MaskShape& s) : g_(g), t_(g.module().dims), shape_(s) {}

  void part(ValueId v, bool negated, int depth, Visible& out) {
    const NodeId n = g_.def(v);
    const OpKind op = g_.op(n);
    if (depth > kDepth || ++visited_ > kParts) return keep(v, negated, out);
    switch (op) {
      case OpKind::And:
      case OpKind::BitAnd:
      case OpKind::Or:
      case OpKind::BitOr:
        if ((op == OpKind::Or || op == OpKind::BitOr) != negated) break;
        part(g_.operand(n, 0), negated, depth + 1, out);
        part(g_.operand(n, 1), negated, depth + 1, out);
        return;
      case OpKind::Not: return part(g_.operand(n, 0), !negated, depth + 1, out);
      case OpKind::Expand: return part(g_.operand(n, 0), negated, depth + 1, out);
      case OpKind::Cast:
        if (g_.dtype(g_.operand(n, 0)) == DType::Bool) return part(g_.operand(n, 0), negated, depth + 1, out);
        break;
      case OpKind::Reshape:
        if (leading_only(g_, n)) return part(g_.operand(n, 0), negated, depth + 1, out);
        break;
      case OpKind::Lt:
      case OpKind::Le:
      case OpKind::Gt:
      case OpKind::Ge:
        if (compare(n, negated, out)) return;
        break;
      case OpKind::Constant:
      case OpKind::Param:
        if (constant(v, negated, out)) return;
        break;
      case OpKind::Trilu:
        if (triangle(n, negated, out)) return;
        break;
      case OpKind::Narrow:
        if (part_of_triangle(v, negated, out)) return;
        break;
      default: break;
    }
    if (const auto c = scalar(g_, v); c && (*c != 0) != negated) return;  // always visible
    keep(v, negated, out);
  }

 private:
  void keep(ValueId v, bool negated, Visible& out) { out.rest.emplace_back(v, negated); }

  Dim shift() const { return t_.sub(shape_.keys, shape_.queries); }

  // key <= query + c
  bool upper(Dim c, Visible& out) {
    if (bounds_) {
      bounds_->push_back(c);
      return true;
    }
    if (!t_.equal(c, shift())) return false;
    return out.causal = true;
  }
  // key >= query - c
  bool lower(Dim c, Visible& out) {
    const auto w = t_.constant_value(t_.add(c, shift()));
    if (!w || *w < 0) return false;
    if (!out.window || *w < *out.window) out.window = *w;
    return true;
  }

  bool compare(NodeId n, bool negated, Visible& out) {
    OpKind op = g_.op(n);
    if (negated) op = op == OpKind::Lt ? OpKind::Ge : op == OpKind::Le ? OpKind::Gt : op == OpKind::Gt ? OpKind::Le : OpKind::Lt;
    auto a = counted(g_, g_.operand(n, 0)), b = counted(g_, g_.operand(n, 1));
    if (a && !b && a->axis < 2) return bounded(*a, op, uniform_integer(g_, g_.operand(n, 1)));
    if (!a || !b || a->axis + b->axis != 1) return difference(n, op, out);
    if (a->axis == 1) {  // query op key: swap sides
      std::swap(a, b);
      op = op == OpKind::Lt ? OpKind::Gt : op == OpKind::Le ? OpKind::Ge : op == OpKind::Gt ? OpKind::Lt : OpKind::Le;
    }
    const Dim d = t_.sub(b->start, a->start);  // key op query + d
    return bound(op, d, out);
  }
  // (key - query) op c or (query - key) op c
  bool difference(NodeId n, OpKind op, Visible& out) {
    const auto c = uniform_integer(g_, g_.operand(n, 1));
    const NodeId sub = defining_op(g_, g_.operand(n, 0), OpKind::Sub);
    if (!c || !sub.valid()) return false;
    const auto a = counted(g_, g_.operand(sub, 0)), b = counted(g_, g_.operand(sub, 1));
    if (!a || !b || a->axis + b->axis != 1) return false;
    if (a->axis == 0) return bound(op, t_.add(t_.sub(b->start, a->start), *c), out);
    op = op == OpKind::Lt ? OpKind::Gt : op == OpKind::Le ? OpKind::Ge : op == OpKind::Gt ? OpKind::Lt : OpKind::Le;
    return bound(op, t_.sub(t_.sub(a->start, b->start), *c), out);
  }
  // key op query + d
  bool bound(OpKind op, Dim d, Visible& out) {
    switch (op) {
      case OpKind::Le: return upper(d, out);
      case OpKind::Lt: return upper(t_.sub(d, Dim(1)), out);
      case OpKind::Ge: return lower(t_.sub(Dim(0), d), out);
      default: return lower(t_.sub(t_.constant(-1), d), out);
    }
  }
  // index op constant: returns whether it always holds
  bool bounded(const Counted& a, OpKind op, std::optional<Dim> c) {
    if (!c) return false;
    const auto least = t_.constant_value(t_.sub(a.start, *c));
    return least && ((op == OpKind::Ge && *least >= 0) || (op == OpKind::Gt && *least > 0));
  }

  bool constant(ValueId v, bool negated, Visible& out) {
    const DataId id = g_.attrs<DataAttrs>(g_.def(v)).data;
    if (!id.valid()) return false;
    const TensorData& d = g_.module().data[id];
    if (d.dtype != DType::Bool || d.elements() > kConstantLimit || d.bytes.empty()) return false;
    return pattern(
        g_, v, [&](int64_t i) { return (d.bytes[static_cast<size_t>(d.splat ? 0 : i)] != std::byte{0}) != negated; }, out);
  }

 public:
  // Matches a mask that is equal for all leading axes and whose rows are those of a causal mask or a sliding window.
  template <class F>
  bool pattern(const Graph& g, ValueId v, F visible, Visible& out) {
    const auto d = g.dims(v);
    const int64_t rows = d.size() > 1 ? size_at(g, v, -2).value_or(0) : 1, keys = d.empty() ? 1 : size_at(g, v, -1).value_or(0);
    const int64_t count = num_elements(g.type(v)).value_or(0);
    for (int64_t i = rows * keys; i < count; ++i)
      if (visible(i) != visible(i - rows * keys)) return false;
    bool all = true;
    for (int64_t i = 0; i < rows * keys && all; ++i) all = visible(i);
    if (all) return true;
    const auto q = t_.constant_value(shape_.queries), k = t_.constant_value(shape_.keys);
    if (!q || !k || rows != *q || keys != *k || *k < *q) return false;
    int64_t window = -1;  // of the last row, which is the longest
    const int64_t offset = keys - rows;
    for (int64_t j = 0; j < keys && window < 0; ++j)
      if (visible((rows - 1) * keys + j)) window = keys - 1 - j;
    if (window < 0) return false;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < keys; ++j)
        if (visible(i * keys + j) != (j <= i + offset && j >= i + offset - window)) return false;
    out.causal = true;
    if (window < keys - 1 && (!out.window || window < *out.window)) out.window = window;
    return true;
  }

  // The conditions of additive masks that were passed.
  const std::vector<std::pair<ValueId, bool>>& conditions() const { return conditions_; }
  // Matches an additive mask.
  bool additive(ValueId v, int depth, Visible& out, double* hidden) {
    v = without_leading(v);
    const NodeId n = g_.def(v);
    if (depth > kDepth || ++visited_ > kParts) return false;
    switch (g_.op(n)) {
      case OpKind::Constant:
      case OpKind::Param: return numbers(v, out, hidden);
      case OpKind::Where: return chosen(n, depth, out, hidden);
      case OpKind::Mul: return product(n, depth, out, hidden);
      case OpKind::Trilu: {
        const auto& a = g_.attrs<TriluAttrs>(n);
        const auto c = scalar(g_, g_.operand(n, 0));
        return c && is_hidden(v, *c, hidden) && a.upper && !g_.operand(n, 1).valid() && square(n) &&
               upper(t_.constant(a.diagonal - 1), out);
      }
      default: return false;
    }
  }

 private:
  ValueId without_leading(ValueId v) const {
    for (int i = 0; i < 4; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) != OpKind::Expand && !(g_.op(n) == OpKind::Reshape && leading_only(g_, n))) break;
      v = g_.operand(n, 0);
    }
    return v;
  }
  bool is_hidden(ValueId mask, double c, double* hidden) const {
    if (!hides(g_.dtype(mask), c)) return false;
    *hidden = *hidden == 0 ? c : std::max(*hidden, c);
    return true;
  }

  bool numbers(ValueId v, Visible& out, double* hidden) {
    const DataId id = g_.attrs<DataAttrs>(g_.def(v)).data;
    if (!id.valid()) return false;
    const TensorData& d = g_.module().data[id];
    if (d.elements() > kConstantLimit || d.bytes.empty()) return false;
    const int64_t count = d.splat || is_uniform(d, d.size_bytes()) ? 1 : d.elements();
    bool hides_some = false;
    for (int64_t i = 0; i < count; ++i) {
      const double e = element_as_double(d, i);
      hides_some |= e != 0;
      if (e != 0 && !is_hidden(v, e, hidden)) return false;
    }
    const auto visible = [&](int64_t i) { return element_as_double(d, i) == 0; };
    return !hides_some || pattern(g_, v, visible, out);
  }

  // Matches Where(condition, mask, number that hides), in either order; mask is 0 or a mask itself.
  bool chosen(NodeId n, int depth, Visible& out, double* hidden) {
    const ValueId condition = g_.operand(n, 0);
    for (const bool negated : {false, true}) {
      const ValueId mask = g_.operand(n, negated ? 2 : 1);
      const auto low = scalar(g_, g_.operand(n, negated ? 1 : 2));
      double number = *hidden;
      if (!low || !is_hidden(g_.result(n), *low, &number)) continue;
      if (!is_scalar(g_, mask, 0) && !additive(mask, depth + 1, out, &number)) continue;
      *hidden = number;
      hidden_besides(condition, negated, mask, depth, out);
      return true;
    }
    return false;
  }
  // Adds what the condition hides besides the mask: mask + v == 0 keeps positions where v is 0; mask == 0 and c keeps positions
  // where c holds.
  void hidden_besides(ValueId condition, bool negated, ValueId mask, int depth, Visible& out) {
    const auto is_mask = [&](ValueId v) { return without_leading(v) == without_leading(mask); };
    const auto is_zero = [&](ValueId v) {
      const NodeId n = defining_op(g_, without_leading(v), OpKind::Eq);
      return n.valid() && is_scalar(g_, g_.operand(n, 1), 0) ? g_.operand(n, 0) : ValueId();
    };
    const ValueId zero = negated ? is_zero(condition) : ValueId();
    if (const NodeId sum = zero.valid() ? defining_op(g_, zero, OpKind::Add) : NodeId(); sum.valid())
      for (size_t i = 0; i < 2; ++i)
        if (is_mask(g_.operand(sum, i))) {
          conditions_.emplace_back(g_.operand(sum, 1 - i), false);
          return keep(g_.operand(sum, 1 - i), false, out);
        }
    if (const NodeId both = defining_op(g_, without_leading(condition), OpKind::And); negated && both.valid())
      for (size_t i = 0; i < 2; ++i)
        if (const ValueId v = is_zero(g_.operand(both, i)); v.valid() && is_mask(v)) condition = g_.operand(both, 1 - i);
    conditions_.emplace_back(condition, negated);
    part(condition, negated, depth + 1, out);
  }

  // Matches bools as numbers times a number that hides, or times a mask: hidden where both hide.
  bool product(NodeId n, int depth, Visible& out, double* hidden) {
    for (size_t i = 0; i < 2; ++i) {
      const NodeId cast = defining_op(g_, without_leading(g_.operand(n, i)), OpKind::Cast);
      const ValueId mask = g_.operand(n, 1 - i);
      if (!cast.valid() || g_.dtype(g_.operand(cast, 0)) != DType::Bool) continue;
      if (const auto c = scalar(g_, mask)) {
        if (!std::isfinite(*c) || !is_hidden(mask, *c, hidden)) continue;
        conditions_.emplace_back(g_.operand(cast, 0), true);
        part(g_.operand(cast, 0), true, depth + 1, out);
        return true;
      }
      double number = *hidden;
      const auto a = bound([&](Matcher& m, Visible& v) { return m.additive(mask, depth + 1, v, &number); });
      const auto b = bound([&](Matcher& m, Visible& v) {
        m.part(g_.operand(cast, 0), true, depth + 1, v);
        return true;
      });
      if (!a || !b || !std::isfinite(number)) continue;
      const bool first = t_.at_least(t_.sub(*a, *b), 0);
      if (!first && !t_.at_least(t_.sub(*b, *a), 0)) continue;
      *hidden = number;
      return upper(first ? *a : *b, out);
    }
    return false;
  }
  // The c of a mask that is exactly key <= query + c.
  template <class F>
  std::optional<Dim> bound(F match) {
    std::vector<Dim> bounds;
    Matcher m(g_, shape_);
    m.visited_ = visited_;
    m.bounds_ = &bounds;
    Visible v;
    const bool matched = match(m, v);
    visited_ = m.visited_;
    return matched && bounds.size() == 1 && !v.causal && !v.window && v.rest.empty() ? std::optional(bounds[0]) : std::nullopt;
  }

  bool triangle(NodeId n, bool negated, Visible& out) {
    const auto& a = g_.attrs<TriluAttrs>(n);
    if (g_.operand(n, 1).valid() || scalar(g_, g_.operand(n, 0)) != 1) return false;
    const Dim diagonal = t_.constant(a.diagonal);
    if (!a.upper && !negated) return square(n) && upper(diagonal, out);                // key <= query + diagonal
    if (a.upper && negated) return square(n) && upper(t_.sub(diagonal, Dim(1)), out);  // key < query + diagonal
    return false;
  }
  // Matches a slice of a constant triangle, as cut from buffers for the longest sequence.
  bool part_of_triangle(ValueId v, bool negated, Visible& out) {
    Dim start[2];  // by axis: rows, keys
    const auto d = g_.dims(v);
    if (d.size() < 2 || !t_.equal(d.back(), shape_.keys) || !t_.equal(d[d.size() - 2], shape_.queries)) return false;
    for (int steps = 0; steps < 4; ++steps) {
      const NodeId n = defining_op(g_, v, OpKind::Narrow);
      if (!n.valid()) break;
      const auto& a = g_.attrs<NarrowAttrs>(n);
      const int64_t axis = a.axis - (g_.rank(v) - 2);
      if (axis < 0) return false;
      start[axis] = t_.add(start[axis], a.start);
      v = g_.operand(n, 0);
    }
    const auto size = size_at(g_, v, -1);
    Visible whole;
    if (!size || size_at(g_, v, -2) != size || (g_.op(g_.def(v)) != OpKind::Constant && g_.op(g_.def(v)) != OpKind::Param))
      return false;
    Matcher square(g_, {Dim(*size), Dim(*size)});
    return square.constant(v, negated, whole) && whole.causal && !whole.window && upper(t_.sub(start[0], start[1]), out);
  }
  bool square(NodeId n) const {
    const auto d = g_.dims(g_.result(n));
    return d.size() >= 2 && t_.equal(d[d.size() - 1], shape_.keys) && t_.equal(d[d.size() - 2], shape_.queries);
  }

  const Graph& g_;
  DimTable& t_;
  MaskShape shape_;
  int visited_ = 0;
  std::vector<std::pair<ValueId, bool>> conditions_;
  std::vector<Dim>* bounds_ = nullptr;  // receives every c of key <= query + c, causal or not
};

}  // namespace

Visible match_visible(const Graph& g, ValueId mask, const MaskShape& s, bool negated) {
  Visible out;
  Matcher(g, s).part(mask, negated, 0, out);
  if (out.window && !out.causal) {  // no kind has a window alone: keeps the mask
    out.window.reset();
    out.rest.assign(1, {mask, negated});
  }
  return out;
}

bool hides(DType t, double c) {
  if (t == DType::F16) return c <= -65504 * 0.999;
  return c <= -1e30;
}

std::optional<Visible> match_additive(const Graph& g, ValueId mask, const MaskShape& s, double* hidden) {
  Visible out;
  *hidden = 0;
  Matcher matcher(g, s);
  if (!matcher.additive(mask, 0, out, hidden)) return std::nullopt;
  if (out.window && !out.causal) {
    out.window.reset();
    out.rest = matcher.conditions();
  }  // no kind has a window alone
  return out;
}

}  // namespace rlxc::recognise
