#include "passes/recognise/attention_chain.h"

#include <cmath>

namespace rlxc::recognise {
namespace {

using namespace match;

constexpr int kMostSteps = 14;  // between the scores and the softmax

class Finder {
 public:
  Finder(const Graph& g, NodeId softmax, std::string* reason) : g_(g), dims_(g.module().dims), reason_(reason) {
    c_.softmax = softmax;
  }
  std::optional<AttentionChain> find() { return below() && above() ? std::optional(std::move(c_)) : std::nullopt; }

 private:
  // A Reshape between [B,H,..] and [B*H,..].
  bool folds(NodeId n) {
    if (g_.op(n) != OpKind::Reshape) return false;
    auto wide = g_.dims(g_.operand(n, 0)), narrow = g_.dims(g_.result(n));
    if (wide.size() < narrow.size()) std::swap(wide, narrow);
    if (wide.size() != 4 || narrow.size() != 3 || !dims_.equal(wide[2], narrow[1]) || !dims_.equal(wide[3], narrow[2]) ||
        !dims_.equal(dims_.mul(wide[0], wide[1]), narrow[0]))
      return false;
    if (c_.folded && !(dims_.equal(c_.folded->first, wide[0]) && dims_.equal(c_.folded->second, wide[1]))) return false;
    c_.folded = {wide[0], wide[1]};
    return true;
  }

  // From the softmax to the second product, through the exporter's guard Where(IsNan(p), 0, p).
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
    if (const NodeId n = g_.only_user(p); n.valid() && folds(n)) after.push_back(n), p = g_.result(n);
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

  bool is_scores(ValueId v) const {  // a product lies a few elementwise steps up
    for (int i = 0; i < 8; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) == OpKind::MatMul) return true;
      if (!has_trait(g_.op(n), kElementwise) && g_.op(n) != OpKind::Reshape) return false;
      v = g_.op(n) == OpKind::Where ? g_.operand(n, scalar(g_, g_.operand(n, 1)) ? 2 : 1) : g_.operand(n, 0);
    }
    return false;
  }

  // From the softmax up to the first product.
  bool above() {
    ValueId v = g_.operand(c_.softmax, 0);
    for (int i = 0; i < kMostSteps; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) == OpKind::MatMul) {
        c_.scores = n;
        if (!g_.has_one_use(v)) return *reason_ = "multi_consumer", false;
        c_.nodes.insert(c_.nodes.begin(), n);
        return true;
      }
      c_.nodes.insert(c_.nodes.begin(), n);
      const bool fold = folds(n);
      const ValueId next = fold ? g_.operand(n, 0) : step(v);
      if (!next.valid() || (!fold && !same_dims(g_, next, v))) return false;
      if (!g_.has_one_use(g_.result(n))) {
        if (is_scores(next)) *reason_ = "multi_consumer";
        return false;
      }
      v = next;
    }
    return false;
  }

  // Past one scale, soft-cap or mask; masks lie below the scale.
  ValueId step(ValueId v) {
    const NodeId n = g_.def(v);
    if (const auto s = scaled(g_, v)) {
      c_.scale *= s->c;
      has_scale_ = true;
      const NodeId tanh = made_by(g_, s->x, OpKind::Tanh);
      if (!tanh.valid() || c_.scale != s->c || c_.softcap != 0) return s->x;
      const auto inner = scaled(g_, g_.operand(tanh, 0));
      if (!inner || std::abs(inner->c * s->c - 1) >= 1e-4) return s->x;
      c_.softcap = s->c, c_.scale = 1;
      c_.nodes.insert(c_.nodes.begin(), {g_.def(g_.operand(tanh, 0)), tanh});
      return inner->x;
    }
    if (has_scale_) return {};
    switch (g_.op(n)) {
      case OpKind::Add: {
        const bool first = is_scores(g_.operand(n, 0));
        c_.added.push_back({g_.operand(n, first ? 1 : 0), v});
        return g_.operand(n, first ? 0 : 1);
      }
      case OpKind::Max:
        for (size_t i = 0; i < 2; ++i)
          if (const auto least = scalar(g_, g_.operand(n, i)); least && hides(g_.dtype(v), *least) && std::isfinite(*least))
            return c_.least = g_.operand(n, i), g_.operand(n, 1 - i);
        return {};
      case OpKind::Where: {
        if (c_.filled) return {};
        const auto a = scalar(g_, g_.operand(n, 1)), b = scalar(g_, g_.operand(n, 2));
        c_.filled_scores = v;
        if (b && *b <= -1e9) return c_.filled = AdditiveMask{g_.operand(n, 0), false, *b}, g_.operand(n, 1);
        if (a && *a <= -1e9) return c_.filled = AdditiveMask{g_.operand(n, 0), true, *a}, g_.operand(n, 2);
        return {};
      }
      default: return {};
    }
  }

  const Graph& g_;
  DimTable& dims_;
  std::string* reason_;
  bool has_scale_ = false;
  AttentionChain c_;
};

}  // namespace

std::optional<AttentionChain> attention_chain(const Graph& g, NodeId softmax, std::string* reason) {
  const ValueId p = g.result(softmax);
  if (g.attrs<AxisAttrs>(softmax).axis != g.rank(p) - 1 || !is_float(g, p)) return std::nullopt;
  return Finder(g, softmax, reason).find();
}

}  // namespace rlxc::recognise
