// Raises MatMul, scale, mask, Softmax, MatMul to one Attention: scale before or after the matmul, soft-cap, additive, bool and
// causal masks, grouped heads repeated by Expand. Transposes and Reshapes of q, k, v and the result become layouts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "passes/passes.h"
#include "passes/recognise/attention_chain.h"
#include "passes/recognise/axis_view.h"

namespace rlxc {
namespace {

using namespace match;
using namespace recognise;

// How the attention applies its masks.
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
    std::string reason;
    if (auto c = attention_chain(g_, softmax, &reason)) return emit(*c);
    if (!reason.empty())
      ctx_.decisions.push_back(declined(g_, "attention", softmax, reason, "the softmax lies between two matmuls",
                                        "use the scores and the probabilities only inside the attention"));
    return false;
  }

  // The operands as [B,H,rows,width], with B = 1 or H = 1 for matmuls of lower rank. A single head of keys and values serves all
  // queries.
  void sizes(const AttentionChain& c, HeadSizes& q, HeadSizes& k, HeadSizes& v) {
    const ValueId scores = g_.result(c.scores), out = g_.result(c.output);
    const int rank = g_.rank(scores);
    const auto s = g_.dims(scores), o = g_.dims(out);
    const auto kd = g_.dims(g_.operand(c.scores, 1));
    Dim batch(1), heads(1);
    if (rank == 4) batch = s[0], heads = s[1];
    if (rank == 3) batch = s[0];
    if (rank == 3 && c.folded) {
      batch = c.folded->first, heads = c.folded->second;
    } else if (rank == 3) {
      // Batch and heads may be folded; a Reshape of the result separates them.
      const NodeId user = g_.only_user(out);
      if (user.valid() && g_.op(user) == OpKind::Reshape && g_.rank(g_.result(user)) == 4) {
        const auto r = g_.dims(g_.result(user));
        if (dims_.equal(dims_.mul(r[0], r[1]), s[0]) && r[2] == o[1] && r[3] == o[2]) batch = r[0], heads = r[1];
      }
      if (moves_rows_out(out, batch)) std::swap(batch, heads);
    }
    const size_t n = s.size();
    const bool trans = g_.attrs<MatMulAttrs>(c.scores).trans_b;
    const Dim shared = rank == 4 && kd[1] == Dim(1) ? Dim(1) : heads;
    q = {batch, heads, s[n - 2], kd[n - (trans ? 1 : 2)]};
    k = {batch, shared, s[n - 1], q.width};
    v = {batch, shared, s[n - 1], o[o.size() - 1]};
  }

  // Returns whether the user transposes [N,Sq,D] to [Sq,N,D] with static N. Each row then holds all N contiguously, as it does
  // its heads.
  bool moves_rows_out(ValueId v, Dim n) const {
    const NodeId user = g_.only_user(v);
    return n.is_static() && user.valid() && g_.op(user) == OpKind::Transpose &&
           g_.attrs<PermAttrs>(user).perm == std::vector<int64_t>{1, 0, 2};
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

  // The deepest source with this order.
  static const HeadSource* deepest(const std::vector<HeadSource>& list, uint8_t order) {
    const HeadSource* best = nullptr;
    for (const HeadSource& s : list)
      if (s.orders & order) best = &s;
    return best;
  }

  // Returns whether the leading dims of a matmul's operands equal those of its result; the right operand may have a single head.
  bool leads_fit(NodeId matmul) const {
    const auto y = g_.dims(g_.result(matmul)), a = g_.dims(g_.operand(matmul, 0)), b = g_.dims(g_.operand(matmul, 1));
    for (size_t i = 0; i + 2 < y.size(); ++i)
      if (!dims_.equal(a[i], y[i]) || !(dims_.equal(b[i], y[i]) || (i == 1 && b[i] == Dim(1)))) return false;
    return true;
  }

  bool emit(AttentionChain& c) {
    const auto decline = [&](std::string_view reason, std::string detail) {
      ctx_.decisions.push_back(declined(g_, "attention", c.softmax, reason, std::move(detail)));
      return false;
    };
    const ValueId scores = g_.result(c.scores), out = g_.result(c.output);
    const ValueId q_in = g_.operand(c.scores, 0), k_in = g_.operand(c.scores, 1), v_in = g_.operand(c.output, 1);
    for (NodeId matmul : {c.scores, c.output}) {
      const int rank = g_.rank(g_.result(matmul));
      if (rank < 2 || rank > 4 || g_.rank(g_.operand(matmul, 0)) != rank || g_.rank(g_.operand(matmul, 1)) != rank)
        return decline("rank", "a matmul of " + std::to_string(rank) + " axes");
      if (!leads_fit(matmul)) return decline("broadcast", "q, k and v differ in their leading sizes");
    }
    if (g_.rank(out) != g_.rank(scores) && !c.folded) return decline("rank", "matmuls of different axes");
    if (!dims_.equal(g_.dims(g_.result(c.softmax)).back(), g_.dims(scores).back()))
      return decline("mask_shape", "the softmax runs over other rows than those of the scores");
    const auto& sa = g_.attrs<MatMulAttrs>(c.scores);
    HeadSizes qz, kz, vz;
    sizes(c, qz, kz, vz);
    const auto q = sources(q_in, sa.trans_a, qz, true), k = sources(k_in, !sa.trans_b, kz, true),
               v = sources(v_in, g_.attrs<MatMulAttrs>(c.output).trans_b, vz, false);

    // One layout for all three: packed if all have a packed source, else heads first.
    AttentionAttrs a;
    const HeadSource *qs = deepest(q, kOrderBSHD), *ks = deepest(k, kOrderBSHD), *vs = deepest(v, kOrderBSHD);
    const bool packed =
        qs && ks && vs && dims_.equal(ks->heads, vs->heads) && dims_.constant_value(qs->heads) && dims_.constant_value(ks->heads);
    // Attention over channels has queries and values as columns; they are transposed.
    bool turn_q = false, turn_v = false;
    if (!packed) {
      qs = deepest(q, kOrderBHSD), ks = deepest(k, kOrderBHSD), vs = deepest(v, kOrderBHSD);
      if (!qs) turn_q = (qs = deepest(q, kOrderBHDS)) != nullptr;
      if (!vs) turn_v = (vs = deepest(v, kOrderBHDS)) != nullptr;
      if (!ks || (vs && !dims_.equal(ks->heads, vs->heads))) {
        const HeadSource* t = deepest(k, kOrderBHDS);
        if (t && (!vs || dims_.equal(t->heads, vs->heads))) ks = t, a.k_transposed = !(t->orders & kOrderBHSD);
      }
      if (ks && vs && !dims_.equal(ks->heads, vs->heads)) {  // only one is known to be repeated: read both in full
        vs = v.empty() ? nullptr : &v.front();
        turn_v = vs && !(vs->orders & kOrderBHSD);
        ks = k.empty() ? nullptr : &k.front();
        a.k_transposed = ks && !(ks->orders & kOrderBHSD);
      }
    }
    if (!qs || !ks || !vs || !dims_.equal(ks->heads, vs->heads) || !dims_.equal(qs->heads, qz.heads))
      return decline("layout", "the axes of q, k or v are not batch, heads, rows and elements");

    Mask mask;
    if (!resolve_mask(c, qz, MaskShape{qz.rows, kz.rows}, mask))
      return decline("mask_shape", "the mask does not broadcast to [batch,heads,queries,keys]");

    const double scale = c.scale * qs->scale * ks->scale;
    a.scale = scale;
    if (scale == 0) return decline("scale", "the scores are multiplied by 0");
    if (const auto w = dims_.constant_value(qz.width); w && std::abs(scale * std::sqrt(static_cast<double>(*w)) - 1) < 1e-6)
      a.scale = 0;
    a.softcap = c.softcap;
    a.mask = mask.kind, a.window = mask.window, a.finite_mask = mask.finite;
    a.layout = packed ? packed_layout(g_, {qs, ks, vs}) : AttentionLayout::BHSD;
    a.num_heads = dims_.constant_value(qs->heads).value_or(0);
    a.num_kv_heads = dims_.constant_value(ks->heads).value_or(0);

    // A following Transpose to [B,S,H,D] becomes the packed layout.
    ValueId result = out;
    NodeId user = g_.only_user(out);
    if (g_.rank(out) == 3 && user.valid() && g_.op(user) == OpKind::Reshape &&
        equal_dims(g_.dims(g_.result(user)), {qz.batch, qz.heads, qz.rows, vz.width})) {
      c.nodes.push_back(user);
      result = g_.result(user);
      user = g_.only_user(result);
    }
    if ((g_.rank(result) == 4 && user.valid() && g_.op(user) == OpKind::Transpose &&
         g_.attrs<PermAttrs>(user).perm == std::vector<int64_t>{0, 2, 1, 3}) ||
        (g_.rank(result) == 3 && qz.batch == Dim(1) && moves_rows_out(result, qz.heads))) {
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
        if (x.valid()) erase_dead(g_, g_.def(x));
      return decline("type", b.error());
    }
    Decision d = fused(g_, "attention", c.softmax, c.nodes, 4 * bytes(g_, scores));
    d.detail = std::string(enum_names(a.mask)[static_cast<size_t>(a.mask)]) + " mask, " +
               std::string(enum_names(a.layout)[static_cast<size_t>(a.layout)]) + " layout";
    ctx_.decisions.push_back(std::move(d));
    place(result, y);
    return true;
  }

  // Replaces `result` by the attention; a following Reshape reads it directly.
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

  bool equal_dims(std::span<const Dim> a, const std::vector<Dim>& b) const {
    return std::ranges::equal(a, b, [&](Dim x, Dim y) { return dims_.equal(x, y); });
  }

  // Returns whether the last two axes of the scores are queries and keys.
  bool is_plain(ValueId scores, const MaskShape& shape) const {
    const auto s = g_.dims(scores);
    return s.size() >= 2 && s.size() <= 4 && dims_.equal(s[s.size() - 2], shape.queries) && dims_.equal(s.back(), shape.keys);
  }
  // Returns whether the mask is [B*H,..] over folded heads. It is unfolded to broadcast to [B,H,Sq,Sk].
  bool is_folded(ValueId mask, ValueId scores) const {
    return g_.rank(scores) == 3 && g_.rank(mask) == 3 && g_.dims(mask)[0] != Dim(1);
  }
  bool fits_scores(ValueId mask, ValueId scores) const {
    const auto m = g_.dims(mask), s = g_.dims(scores);
    if (m.size() > s.size()) return false;
    for (size_t i = 0; i < m.size(); ++i) {
      const Dim d = m[m.size() - 1 - i];
      if (d != Dim(1) && !dims_.equal(d, s[s.size() - 1 - i])) return false;
    }
    return true;
  }
  bool broadcasts(ValueId mask, ValueId scores, const MaskShape& shape) const {
    return fits_scores(mask, scores) && is_plain(scores, shape) && !is_folded(mask, scores);
  }

  bool resolve_mask(const AttentionChain& c, const HeadSizes& q, const MaskShape& shape, Mask& mask) {
    for (const AppliedMask& m : c.added)
      if (!fits_scores(m.mask, m.scores)) return false;
    if (c.filled && !broadcasts(c.filled->condition, c.filled_scores, shape)) return false;
    if (c.added.empty() && c.filled)
      return keep_mask(match_visible(g_, c.filled->condition, shape, c.filled->negated), c.filled->hidden, c.filled_scores, shape,
                       mask);
    if (c.added.empty()) return true;
    if (const auto [m, scores, factor] = c.added[0];
        c.added.size() == 1 && factor > 0 && !c.filled && broadcasts(m, scores, shape)) {
      double hidden = 0;
      const std::optional<Visible> visible = match_additive(g_, m, shape, &hidden);
      hidden *= factor;
      if (c.least.valid()) hidden = std::max(hidden, -std::numeric_limits<double>::max());
      if (visible && keep_mask(*visible, hidden, scores, shape, mask)) return true;
    }
    return sum_masks(c, q, shape, mask);
  }

  // Reshapes a mask of folded heads; moves the Reshape above elementwise nodes, so that they can fuse with later steps.
  ValueId unfolded(Builder& b, ValueId v, const std::vector<Dim>& to, int depth = 0) {
    const NodeId n = g_.def(v);
    const auto fits = [&](ValueId x) { return x.valid() && (g_.rank(x) == 0 || same_dims(g_, x, v)); };
    if (depth == 4 || !has_trait(g_.op(n), kElementwise) || g_.op(n) == OpKind::ElementwiseRegion || !g_.has_one_use(v) ||
        !std::ranges::all_of(g_.operands(n), fits))
      return b.reshape(v, to);
    std::vector<ValueId> operands(g_.operands(n).begin(), g_.operands(n).end());
    for (ValueId& x : operands)
      if (g_.rank(x) > 0) x = unfolded(b, x, to, depth + 1);
    return b.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
  }

  // Sums all masks into one additive mask. Masks of scores in another shape are summed in that shape first.
  bool sum_masks(const AttentionChain& c, const HeadSizes& q, const MaskShape& shape, Mask& mask) {
    Builder b(g_, nullptr, c.softmax);
    mask = {MaskKind::Bias, 0, false, {}};
    const auto add = [&](ValueId sum, ValueId part) { return sum.valid() ? b.add(sum, part) : part; };
    ValueId other, other_scores;
    for (const auto& [mask_value, scores, factor] : c.added) {
      const auto d = g_.dims(mask_value);
      const ValueId value = factor == 1 ? mask_value : b.mul(mask_value, b.scalar(g_.dtype(mask_value), factor));
      if (is_plain(scores, shape)) {
        mask.operand = add(mask.operand, is_folded(value, scores) ? unfolded(b, value, {q.batch, q.heads, d[1], d[2]}) : value);
      } else {
        if (other.valid() && !same_dims(g_, scores, other_scores)) return false;
        other = add(other, value), other_scores = scores;
      }
    }
    if (other.valid()) {
      const auto d = g_.dims(other_scores);
      const ValueId all = b.expand(other, {d.begin(), d.end()});
      mask.operand = add(mask.operand, b.reshape(all, {q.batch, q.heads, shape.queries, shape.keys}));
    }
    if (c.filled) {
      const ValueId hidden = b.scalar(g_.dtype(mask.operand), c.filled->hidden);
      mask.operand = b.create(OpKind::Where, {c.filled->condition, c.filled->negated ? hidden : mask.operand,
                                              c.filled->negated ? mask.operand : hidden});
    }
    if (c.least.valid()) mask.operand = b.create(OpKind::Max, {mask.operand, c.least});
    return mask.operand.valid();
  }

  bool keep_mask(const Visible& v, double hidden, ValueId scores, const MaskShape& shape, Mask& mask) {
    for (const auto& [value, negated] : v.rest)
      if (!broadcasts(value, scores, shape)) return false;
    if (v.causal) {
      mask.kind = v.window ? MaskKind::SlidingWindow : MaskKind::Causal;
      mask.window = v.window.value_or(0);
    }
    if (v.rest.empty()) return true;
    if (!v.causal) mask.kind = MaskKind::Custom;
    mask.finite = std::isfinite(hidden);
    ValueId& made = operands_[v.rest];
    if (!made.valid()) {
      Builder b(g_, nullptr, g_.def(scores));
      for (const auto& [value, negated] : v.rest) {
        const ValueId truth = b.cast(value, DType::Bool), part = negated ? b.unary(OpKind::Not, truth) : truth;
        made = made.valid() ? b.create(OpKind::And, {made, part}) : part;
      }
    }
    mask.operand = made;
    return made.valid();
  }

  Graph& g_;
  PassContext& ctx_;
  DimTable& dims_;
  std::map<std::vector<std::pair<ValueId, bool>>, ValueId> operands_;  // masks shared by several attentions, by their conditions
};

}  // namespace

PassResult recognise_attention(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) { found += AttentionPass(g, ctx).run(); });
  return {found > 0, {{"attention", found}}};
}

}  // namespace rlxc
