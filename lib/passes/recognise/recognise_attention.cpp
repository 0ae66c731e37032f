#include "passes/recognise/recognise_attention.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "passes/recognise/axis_view.h"
#include "passes/recognise/mask_match.h"

namespace rlxc {
namespace {

using namespace match;
using namespace recognise;

// The chain around one Softmax.
struct Chain {
  NodeId softmax, scores, output;  // scores and output are the two MatMuls
  std::vector<NodeId> nodes;       // all of it, in order from the scores to the output
  double scale = 1, softcap = 0;
  std::vector<ValueId> added;          // additive masks
  std::optional<AdditiveMask> filled;  // Where(condition, scores, hidden)
  ValueId softmax_in;
};

// What the attention does about its masks.
struct Mask {
  MaskKind kind = MaskKind::None;
  int64_t window = 0;
  bool finite = false;
  ValueId operand;
};

class AttentionPass {
 public:
  AttentionPass(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), dims_(g.module().dims) {}

  int64_t run() {
    int64_t found = 0;
    for (NodeId n : g_.nodes())
      if (g_.op(n) == OpKind::Softmax) found += ctx_.rewrite([&] { return visit(n); });
    return found;
  }

 private:
  bool visit(NodeId softmax) {
    const ValueId p = g_.result(softmax);
    if (g_.attrs<AxisAttrs>(softmax).axis != g_.rank(p) - 1 || !is_float(g_, p)) return false;
    Chain c;
    c.softmax = softmax;
    std::string reason;
    if (!below(c, &reason) || !above(c, &reason)) {
      if (!reason.empty())
        ctx_.decisions.push_back(declined(g_, "attention", softmax, reason, "the softmax lies between two matrix products",
                                          "use the scores and the probabilities only inside the attention"));
      return false;
    }
    return emit(c);
  }

  // From the softmax to the second product, through the exporter's guard Where(IsNan(p), 0, p).
  bool below(Chain& c, std::string* reason) {
    ValueId p = g_.result(c.softmax);
    std::vector<NodeId> after{c.softmax};
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
    for (const auto use : g_.uses(p)) {
      if (g_.op(use.user) != OpKind::MatMul || use.index != 0 || g_.attrs<MatMulAttrs>(use.user).trans_a) continue;
      if (!g_.has_one_use(p)) {
        if (is_scores(g_.operand(c.softmax, 0))) *reason = "multi_consumer";
        return false;
      }
      c.output = use.user;
    }
    if (!c.output.valid() || g_.operand(c.output, 1) == p) return false;
    c.nodes = std::move(after);
    c.nodes.push_back(c.output);
    return true;
  }

  bool is_scores(ValueId v) const {  // a product lies a few elementwise steps up
    for (int i = 0; i < 6; ++i) {
      const NodeId n = g_.def(v);
      if (g_.op(n) == OpKind::MatMul) return true;
      if (!has_trait(g_.op(n), kElementwise)) return false;
      v = g_.op(n) == OpKind::Where ? g_.operand(n, scalar(g_, g_.operand(n, 1)) ? 2 : 1) : g_.operand(n, 0);
    }
    return false;
  }

  // From the softmax up to the first product.
  bool above(Chain& c, std::string* reason) {
    ValueId v = c.softmax_in = g_.operand(c.softmax, 0);
    bool masks = true;
    for (int i = 0; i < 12; ++i) {
      const NodeId n = g_.def(v);
      const OpKind op = g_.op(n);
      ValueId next;
      if (op == OpKind::MatMul) {
        c.scores = n;
        if (!g_.has_one_use(v)) return *reason = "multi_consumer", false;
        c.nodes.insert(c.nodes.begin(), n);
        return true;
      }
      if (const auto s = scaled(g_, v)) {
        c.scale *= s->c;
        next = s->x;
        masks = false;
        if (const NodeId tanh = made_by(g_, s->x, OpKind::Tanh); tanh.valid() && c.scale == s->c && c.softcap == 0) {
          const auto inner = scaled(g_, g_.operand(tanh, 0));
          if (inner && std::abs(inner->c * s->c - 1) < 1e-4) {
            c.softcap = s->c, c.scale = 1;
            c.nodes.insert(c.nodes.begin(), {tanh, n});
            next = inner->x;
            v = g_.operand(tanh, 0);
          }
        }
      } else if (op == OpKind::Add && masks) {
        const bool first = is_scores(g_.operand(n, 0));
        next = g_.operand(n, first ? 0 : 1);
        c.added.push_back(g_.operand(n, first ? 1 : 0));
      } else if (op == OpKind::Where && masks && !c.filled) {
        const auto a = scalar(g_, g_.operand(n, 1)), b = scalar(g_, g_.operand(n, 2));
        if (b && *b <= -1e9) c.filled = AdditiveMask{g_.operand(n, 0), false, *b}, next = g_.operand(n, 1);
        else if (a && *a <= -1e9) c.filled = AdditiveMask{g_.operand(n, 0), true, *a}, next = g_.operand(n, 2);
      }
      if (!next.valid() || !same_dims(g_, next, v)) return false;
      if (!g_.has_one_use(g_.result(n))) {
        if (is_scores(next)) *reason = "multi_consumer";
        return false;
      }
      c.nodes.insert(c.nodes.begin(), g_.def(v));
      v = next;
    }
    return false;
  }

  // The scores as the op sees them: [B,H,Sq,Sk], with B = 1 or H = 1 for products of fewer axes.
  void sizes(const Chain& c, HeadSizes& q, HeadSizes& k, HeadSizes& v) {
    const ValueId scores = g_.result(c.scores), out = g_.result(c.output);
    const int rank = g_.rank(scores);
    const auto s = g_.dims(scores), o = g_.dims(out);
    Dim batch(1), heads(1);
    if (rank == 4) batch = s[0], heads = s[1];
    if (rank == 3) {
      batch = s[0];
      // Batch and heads may have been folded: the reshape of the result tells the heads.
      const NodeId user = g_.only_user(out);
      if (user.valid() && g_.op(user) == OpKind::Reshape && g_.rank(g_.result(user)) == 4) {
        const auto r = g_.dims(g_.result(user));
        if (dims_.equal(dims_.mul(r[0], r[1]), s[0]) && r[2] == o[1] && r[3] == o[2]) batch = r[0], heads = r[1];
      }
    }
    const size_t n = s.size();
    const auto kd = g_.dims(g_.operand(c.scores, 1));
    const bool trans = g_.attrs<MatMulAttrs>(c.scores).trans_b;
    q = {batch, heads, s[n - 2], kd[n - (trans ? 1 : 2)]};
    k = {batch, heads, s[n - 1], q.width};
    v = {batch, heads, s[n - 1], o[n - 1]};
  }

  std::vector<HeadSource> sources(ValueId v, bool transposed, const HeadSizes& z, bool through_scale) {
    std::vector<Role> roles;
    const int rank = g_.rank(v);
    if (rank >= 3) roles.push_back(Role::Batch);
    if (rank == 4) roles.push_back(Role::Head);
    roles.push_back(transposed ? Role::Element : Role::Row);
    roles.push_back(transposed ? Role::Row : Role::Element);
    return head_sources(g_, v, roles, z, through_scale, rank == 3);
  }

  // The deepest source in this order.
  static const HeadSource* deepest(const std::vector<HeadSource>& list, uint8_t order) {
    const HeadSource* best = nullptr;
    for (const HeadSource& s : list)
      if (s.orders & order) best = &s;
    return best;
  }

  bool emit(Chain& c) {
    const auto decline = [&](std::string_view reason, std::string detail) {
      ctx_.decisions.push_back(declined(g_, "attention", c.softmax, reason, std::move(detail)));
      return false;
    };
    const ValueId scores = g_.result(c.scores), out = g_.result(c.output);
    const ValueId q_in = g_.operand(c.scores, 0), k_in = g_.operand(c.scores, 1), v_in = g_.operand(c.output, 1);
    const int rank = g_.rank(scores);
    if (rank < 2 || rank > 4 || g_.rank(q_in) != rank || g_.rank(k_in) != rank || g_.rank(v_in) != rank || g_.rank(out) != rank)
      return decline("rank", "scores of " + std::to_string(rank) + " axes");
    for (int i = 0; i + 2 < rank; ++i)
      for (ValueId x : {q_in, k_in, v_in})
        if (!dims_.equal(g_.dims(x)[static_cast<size_t>(i)], g_.dims(scores)[static_cast<size_t>(i)]))
          return decline("broadcast", "q, k and v differ in their leading sizes");
    const auto& sa = g_.attrs<MatMulAttrs>(c.scores);
    HeadSizes qz, kz, vz;
    sizes(c, qz, kz, vz);
    const auto q = sources(q_in, sa.trans_a, qz, true), k = sources(k_in, !sa.trans_b, kz, true),
               v = sources(v_in, g_.attrs<MatMulAttrs>(c.output).trans_b, vz, false);

    // One layout for all three: packed if every one can be read so, else heads outside.
    AttentionAttrs a;
    const HeadSource *qs = deepest(q, kOrderBSHD), *ks = deepest(k, kOrderBSHD), *vs = deepest(v, kOrderBSHD);
    const bool packed =
        qs && ks && vs && dims_.equal(ks->heads, vs->heads) && dims_.constant_value(qs->heads) && dims_.constant_value(ks->heads);
    // Attention over channels keeps queries and values as columns: they are turned.
    bool turn_q = false, turn_v = false;
    if (!packed) {
      qs = deepest(q, kOrderBHSD), ks = deepest(k, kOrderBHSD), vs = deepest(v, kOrderBHSD);
      if (!qs) turn_q = (qs = deepest(q, kOrderBHDS)) != nullptr;
      if (!vs) turn_v = (vs = deepest(v, kOrderBHDS)) != nullptr;
      if (!ks || (vs && !dims_.equal(ks->heads, vs->heads))) {
        const HeadSource* t = deepest(k, kOrderBHDS);
        if (t && (!vs || dims_.equal(t->heads, vs->heads))) ks = t, a.k_transposed = !(t->orders & kOrderBHSD);
      }
      if (ks && vs && !dims_.equal(ks->heads, vs->heads)) {  // only one of them is known to be repeated: read both in full
        vs = v.empty() ? nullptr : &v.front();
        turn_v = vs && !(vs->orders & kOrderBHSD);
        ks = k.empty() ? nullptr : &k.front();
        a.k_transposed = ks && !(ks->orders & kOrderBHSD);
      }
    }
    if (!qs || !ks || !vs || !dims_.equal(ks->heads, vs->heads) || !dims_.equal(qs->heads, qz.heads))
      return decline("layout", "the axes of q, k or v are not batch, heads, rows and elements");

    Mask mask;
    if (!resolve_mask(c, MaskShape{qz.rows, kz.rows}, mask))
      return decline("mask_shape", "the mask does not broadcast to [batch,heads,queries,keys]");

    const double scale = c.scale * qs->scale * ks->scale;
    a.scale = scale;
    if (scale == 0) return decline("scale", "the scores are multiplied by 0");
    if (const auto w = dims_.constant_value(qz.width); w && std::abs(scale * std::sqrt(static_cast<double>(*w)) - 1) < 1e-6)
      a.scale = 0;
    a.softcap = c.softcap;
    a.mask = mask.kind, a.window = mask.window, a.finite_mask = mask.finite;
    a.layout = packed ? AttentionLayout::Packed : AttentionLayout::BHSD;
    a.num_heads = dims_.constant_value(qs->heads).value_or(0);
    a.num_kv_heads = dims_.constant_value(ks->heads).value_or(0);

    // The result: a Transpose to [B,S,H,D] that follows becomes the packed layout.
    ValueId result = out;
    NodeId user = g_.only_user(out);
    if (rank == 3 && qz.heads != Dim(1)) {
      c.nodes.push_back(user);
      result = g_.result(user);
      user = g_.only_user(result);
    }
    if (g_.rank(result) == 4 && user.valid() && g_.op(user) == OpKind::Transpose &&
        g_.attrs<PermAttrs>(user).perm == std::vector<int64_t>{0, 2, 1, 3}) {
      a.out_layout = AttentionLayout::Packed;
      c.nodes.push_back(user);
      result = g_.result(user);
    }
    const NodeId root = g_.def(result);
    Builder b(g_, nullptr, root);
    const auto rows = [&](const HeadSource& s, const HeadSizes& z, bool turn) {
      const ValueId x = as_layout(b, s, z, a.layout, turn);
      return turn ? b.transpose(x, {0, 1, 3, 2}) : x;
    };
    const ValueId qv = rows(*qs, qz, turn_q), kv = as_layout(b, *ks, kz, a.layout, a.k_transposed), vv = rows(*vs, vz, turn_v);
    const ValueId y = b.create(OpKind::Attention, {qv, kv, vv, mask.operand}, a);
    if (!y.valid()) {
      for (ValueId x : {qv, kv, vv})
        if (x.valid()) sweep(g_, g_.def(x));
      return decline("type", b.error());
    }
    Decision d = fused(g_, "attention", c.softmax, c.nodes, 4 * bytes(g_, scores));
    d.detail = std::string(enum_names(a.mask)[static_cast<size_t>(a.mask)]) + " mask, " +
               std::string(enum_names(a.layout)[static_cast<size_t>(a.layout)]) + " layout";
    ctx_.decisions.push_back(std::move(d));
    place(result, y);
    return true;
  }

  // Puts the attention in the place of `result`; a Reshape that follows reads it directly.
  void place(ValueId result, ValueId y) {
    Builder b(g_, nullptr, g_.def(result));
    const std::vector<Dim> want(g_.dims(result).begin(), g_.dims(result).end());
    const NodeId next = g_.only_user(result);
    if (want.size() != g_.dims(y).size() && next.valid() && g_.op(next) == OpKind::Reshape) {
      b.insert_before(next);
      const ValueId flat = g_.result(next);
      const ValueId same = b.reshape(y, {g_.dims(flat).begin(), g_.dims(flat).end()});
      replace(g_, flat, same);
      return;
    }
    replace(g_, result, b.reshape(y, want));
  }

  bool fits_scores(ValueId mask, const Chain& c) const {
    const auto m = g_.dims(mask), s = g_.dims(g_.result(c.scores));
    if (m.size() > s.size()) return false;
    for (size_t i = 0; i < m.size(); ++i) {
      const Dim d = m[m.size() - 1 - i];
      if (d != Dim(1) && !dims_.equal(d, s[s.size() - 1 - i])) return false;
    }
    // a mask of three axes over [B*H,..] has no place in [B,H,..]
    return s.size() != 3 || m.size() < 3 || m[0] == Dim(1);
  }

  bool resolve_mask(const Chain& c, const MaskShape& shape, Mask& mask) {
    for (ValueId v : c.added)
      if (!fits_scores(v, c)) return false;
    if (c.filled && (!fits_scores(c.filled->condition, c) || !c.added.empty())) return false;
    if (c.filled) return keep_mask(match_visible(g_, c.filled->condition, shape, c.filled->negated), c.filled->hidden, c, mask);
    if (c.added.empty()) return true;
    if (c.added.size() == 1) {
      double hidden = 0;
      std::optional<Visible> visible = match_additive_constant(g_, c.added[0], shape, &hidden);
      if (const auto a = match_additive(g_, c.added[0])) {
        hidden = a->hidden;
        visible = match_visible(g_, a->condition, shape, a->negated);
      }
      if (visible && keep_mask(*visible, hidden, c, mask)) return true;
    }
    Builder b(g_, nullptr, c.softmax);
    mask = {MaskKind::Bias, 0, false, c.added[0]};
    for (size_t i = 1; i < c.added.size(); ++i) mask.operand = b.add(mask.operand, c.added[i]);
    return mask.operand.valid();
  }

  bool keep_mask(const Visible& v, double hidden, const Chain& c, Mask& mask) {
    for (const auto& [value, negated] : v.rest)
      if (!fits_scores(value, c)) return false;
    if (v.causal) {
      mask.kind = v.window ? MaskKind::SlidingWindow : MaskKind::Causal;
      mask.window = v.window.value_or(0);
    }
    if (v.rest.empty()) return true;
    if (!v.causal) mask.kind = MaskKind::Custom;
    mask.finite = std::isfinite(hidden);
    ValueId& made = operands_[v.rest];
    if (!made.valid()) {
      Builder b(g_, nullptr, c.softmax);
      for (const auto& [value, negated] : v.rest) {
        const ValueId part = negated ? b.unary(OpKind::Not, value) : value;
        made = made.valid() ? b.create(OpKind::And, {made, part}) : part;
      }
    }
    mask.operand = made;
    return made.valid();
  }

  Graph& g_;
  PassContext& ctx_;
  DimTable& dims_;
  std::map<std::vector<std::pair<ValueId, bool>>, ValueId>
      operands_;  // of masks that several attentions share, by the parts they are made of
};

}  // namespace

PassResult recognise_attention(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) { found += AttentionPass(g, ctx).run(); });
  return {found > 0, {{"attention", found}}};
}

}  // namespace rlxc
