#include "passes/recognise/attention_chain.h"

#include <cmath>
#include <limits>

namespace rlxc::recognise {
namespace {

using namespace match;

constexpr int kLongestChain = 14;  // limit on nodes between the scores and the softmax

class Finder {
 public:
  Finder(const Graph& g, NodeId softmax, std::string* reason) : g_(g), dims_(g.module().dims), reason_(reason) {
    c_.softmax = softmax;
  }
  std::optional<AttentionChain> find() { return below() && above() ? std::optional(std::move(c_)) : std::nullopt; }

 private:
  // Returns whether n is a Reshape. A Reshape between [B,H,..] and [B*H,..] determines batch and heads.
  bool reshapes(NodeId n) {
    if (g_.op(n) != OpKind::Reshape) return false;
    auto wide = g_.dims(g_.operand(n, 0)), narrow = g_.dims(g_.result(n));
    if (wide.size() < narrow.size()) std::swap(wide, narrow);
    if (wide.size() != 4 || narrow.size() != 3 || !dims_.equal(wide[2], narrow[1]) || !dims_.equal(wide[3], narrow[2]))
      return true;
    if (c_.folded && !(dims_.equal(c_.folded->first, wide[0]) && dims_.equal(c_.folded->second, wide[1]))) return false;
    c_.folded = {wide[0], wide[1]};
    return true;
  }

  // Walks from the softmax down to the second matmul, through guards: Where(IsNan(p), 0, p), or Where(hidden, 0, p) with the
  // mask's condition.
  bool below() {
    ValueId p = g_.result(c_.softmax);
    std::vector<NodeId> after{c_.softmax};
    if (g_.use_count(p) == 2) {
      NodeId where, is_nan;
      for (const auto use : g_.uses(p)) {
        if (g_.op(use.user) == OpKind::Where && use.index == 2) where = use.user;
        if (g_.op(use.user) == OpKind::IsNan) is_nan = use.user;
      }
      if (where.valid() && is_nan.valid() && g_.operand(where, 0) == g_.result(is_nan) && g_.has_one_use(g_.result(is_nan)) &&
          is_scalar(g_, g_.operand(where, 1), 0) && same_dims(g_, g_.result(where), p)) {
        after.insert(after.end(), {is_nan, where});
        p = g_.result(where);
      }
    }
    if (const NodeId n = g_.only_user(p); n.valid() && g_.op(n) == OpKind::Where && same_dims(g_, g_.result(n), p)) {
      zeroed_ = g_.operand(n, 0), zeroed_where_true_ = g_.operand(n, 2) == p;
      if (!is_scalar(g_, g_.operand(n, zeroed_where_true_ ? 1 : 2), 0)) return false;
      after.push_back(n), p = g_.result(n);
    }
    if (const NodeId n = g_.only_user(p); n.valid() && reshapes(n)) after.push_back(n), p = g_.result(n);
    for (const auto use : g_.uses(p)) {
      if (g_.op(use.user) != OpKind::MatMul || use.index != 0 || g_.attrs<MatMulAttrs>(use.user).trans_a) continue;
      if (!g_.has_one_use(p)) {
        if (is_scores(g_.operand(c_.softmax, 0))) *reason_ = "multi_consumer";
        return false;
      }
      c_.output = use.user;
    }
    if (!c_.output.valid() || g_.operand(c_.output, 1) == p) return false;
    c_.nodes = std::move(after);
    c_.nodes.push_back(c_.output);
    return true;
  }

  bool is_scores(ValueId v) const {  // finds a matmul a few elementwise steps above
    for (int i = 0; i < 8; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) == OpKind::MatMul) return true;
      if (!has_trait(g_.op(n), kElementwise) && g_.op(n) != OpKind::Reshape) return false;
      v = g_.op(n) == OpKind::Where ? g_.operand(n, scalar(g_, g_.operand(n, 1)) ? 2 : 1) : g_.operand(n, 0);
    }
    return false;
  }

  // Walks from the softmax up to the first matmul.
  bool above() {
    ValueId v = g_.operand(c_.softmax, 0);
    for (int i = 0; i < kLongestChain; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) == OpKind::MatMul) {
        c_.scores = n;
        if (!g_.has_one_use(v)) return *reason_ = "multi_consumer", false;
        c_.nodes.insert(c_.nodes.begin(), n);
        return zeroes_hidden();
      }
      c_.nodes.insert(c_.nodes.begin(), n);
      const bool reshape = reshapes(n);
      const ValueId next = reshape ? g_.operand(n, 0) : step(v);
      if (!next.valid() || (!reshape && !same_dims(g_, next, v))) return false;
      if (!g_.has_one_use(g_.result(n))) {
        if (is_scores(next)) *reason_ = "multi_consumer";
        return false;
      }
      v = next;
    }
    return false;
  }

  // Checks that the zeroed probabilities are those of masked scores.
  bool zeroes_hidden() {
    if (!zeroed_.valid()) return true;
    if (!c_.filled || c_.filled->negated != zeroed_where_true_ || c_.filled->condition != zeroed_) return false;
    c_.filled->hidden = -std::numeric_limits<double>::infinity();
    return true;
  }

  // Skips one scale, soft-cap or mask.
  ValueId step(ValueId v) {
    const NodeId n = g_.def(v);
    if (const auto s = scaled(g_, v)) {
      c_.scale *= s->c;
      const NodeId tanh = defining_op(g_, s->x, OpKind::Tanh);
      if (!tanh.valid() || c_.scale != s->c || c_.softcap != 0) return s->x;
      const auto inner = scaled(g_, g_.operand(tanh, 0));
      if (!inner || std::abs(inner->c * s->c - 1) >= 1e-4) return s->x;
      c_.softcap = s->c, c_.scale = 1;
      c_.nodes.insert(c_.nodes.begin(), {g_.def(g_.operand(tanh, 0)), tanh});
      return inner->x;
    }
    if (c_.softcap != 0) return {};  // a mask before the cap would be capped
    switch (g_.op(n)) {
      case OpKind::Add: {
        const bool first = is_scores(g_.operand(n, 0)) && same_dims(g_, g_.operand(n, 0), v);
        c_.added.push_back({g_.operand(n, first ? 1 : 0), v, c_.scale});
        return g_.operand(n, first ? 0 : 1);
      }
      case OpKind::Max:
        if (c_.scale != 1) return {};
        for (size_t i = 0; i < 2; ++i)
          if (const auto least = scalar(g_, g_.operand(n, i)); least && hides(g_.dtype(v), *least) && std::isfinite(*least))
            return c_.least = g_.operand(n, i), g_.operand(n, 1 - i);
        return {};
      case OpKind::Where: {
        if (c_.filled) return {};
        c_.filled_scores = v;
        for (size_t hidden : {size_t{2}, size_t{1}})
          if (const auto low = scalar(g_, g_.operand(n, hidden)); low && *low * c_.scale <= -1e9)
            return c_.filled = AdditiveMask{g_.operand(n, 0), hidden == 1, *low * c_.scale}, g_.operand(n, 3 - hidden);
        return {};
      }
      default: return {};
    }
  }

  const Graph& g_;
  DimTable& dims_;
  std::string* reason_;
  ValueId zeroed_;  // condition under which probabilities are set to zero
  bool zeroed_where_true_ = false;
  AttentionChain c_;
};

}  // namespace

std::optional<AttentionChain> attention_chain(const Graph& g, NodeId softmax, std::string* reason) {
  const ValueId p = g.result(softmax);
  if (g.attrs<AxisAttrs>(softmax).axis != g.rank(p) - 1 || !is_float(g, p)) return std::nullopt;
  return Finder(g, softmax, reason).find();
}

}  // namespace rlxc::recognise
