// Merges norms of one value that differ in scale and shift only (parallel attention and feed-forward, as in GPT-NeoX) into one
// norm without them, if all users are matmuls with weights: the scale is folded into the weights, the shift into the bias. The
// matmuls then share their input (fuse_shared_input_matmul).
#include <algorithm>

#include "passes/match.h"
#include "passes/packed_weights.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "support/checked.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kSharedNorm = "shared_norm";
constexpr size_t kMostReaders = 16;  // limit on visited users of a norm
constexpr size_t kMostNorms = 64;    // limit on norms of one value

// A norm with scale and shift, in the norm or in nodes after it.
struct ScaledNorm {
  ValueId y, gamma, beta;
  std::vector<NodeId> nodes;    // that compute y
  std::vector<NodeId> matmuls;  // all users of y, through reshapes and casts
  std::string_view fault;       // reason to keep scale and shift
  std::string detail;
};

class SharedNorms {
 public:
  SharedNorms(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), order_(g), room_(packed_room(g, ctx)) {}

  int64_t run() {
    int64_t shared = 0;
    std::vector<bool> seen(g_.node_capacity());
    for (NodeId n : g_.nodes()) {
      if (n.raw >= seen.size() || seen[n.raw] || !is_norm(n)) continue;
      const std::vector<NodeId> all = alike(n);
      for (NodeId k : all) seen[k.raw] = true;
      const std::vector<ScaledNorm> values = scaled_by(all);
      if (values.size() > 1 || (values.size() == 1 && has_bare(all))) shared += ctx_.rewrite([&] { return visit(all, values); });
    }
    return shared;
  }

 private:
  bool is_norm(NodeId n) const {
    return (g_.op(n) == OpKind::LayerNorm || g_.op(n) == OpKind::RmsNorm) && is_float(g_, g_.result(n)) &&
           !is_weight(g_, g_.result(n));
  }
  bool is_bare(NodeId n) const { return !g_.operand(n, 1).valid() && !g_.operand(n, 2).valid(); }

  // The norms of the same value that differ from n in scale and shift only, in order.
  std::vector<NodeId> alike(NodeId n) const {
    std::vector<NodeId> all;
    for (const auto use : g_.uses(g_.operand(n, 0)))
      if (use.index == 0 && use.user != g_.terminator() && g_.op(use.user) == g_.op(n) && all.size() < kMostNorms &&
          g_.attr_id(use.user) == g_.attr_id(n) && same_type(g_, g_.result(use.user), g_.result(n)))
        all.push_back(use.user);
    std::ranges::sort(all, {}, [&](NodeId k) { return order_.at(k); });
    return all;
  }

  bool has_bare(std::span<const NodeId> norms) const {
    return std::ranges::any_of(norms, [&](NodeId n) { return is_bare(n); });
  }

  std::vector<ScaledNorm> scaled_by(std::span<const NodeId> norms) const {
    std::vector<ScaledNorm> all;
    for (NodeId n : norms) {
      const ValueId y = g_.result(n);
      if (!is_bare(n)) {
        all.push_back(look_at({y, g_.operand(n, 1), g_.operand(n, 2), {n}, {}, {}, {}}));
      } else if (g_.use_count(y) > 1 && g_.use_count(y) <= kMostReaders) {
        for (const auto use : g_.uses(y))
          if (ScaledNorm s = scaled_after(y, use.user); s.y.valid()) all.push_back(look_at(std::move(s)));
      }
    }
    return all;
  }
  ValueId row_beside(NodeId n, ValueId v) const {
    const ValueId row = other(g_, n, v);
    return row.valid() && is_weight(g_, row) && is_row(g_, row, v) && same_dims(g_, g_.result(n), v) ? row : ValueId();
  }
  ScaledNorm scaled_after(ValueId v, NodeId mul) const {
    if (mul == g_.terminator() || g_.op(mul) != OpKind::Mul) return {};
    ScaledNorm s{g_.result(mul), row_beside(mul, v), {}, {mul}, {}, {}, {}};
    if (!s.gamma.valid()) return {};
    if (const NodeId add = g_.only_user(s.y); add.valid() && g_.op(add) == OpKind::Add)
      if (s.beta = row_beside(add, s.y); s.beta.valid()) s.y = g_.result(add), s.nodes.push_back(add);
    return s;
  }

  bool keeps_rows(NodeId n) const {
    const ValueId x = g_.operand(n, 0), y = g_.result(n);
    if (g_.op(n) == OpKind::Reshape) return g_.rank(x) > 0 && g_.rank(y) > 0 && g_.dims(x).back() == g_.dims(y).back();
    return g_.op(n) == OpKind::Cast && is_float(g_, y);
  }
  bool takes_scale(NodeId n, size_t operand) const {
    if (g_.op(n) != OpKind::MatMul || operand != 0 || g_.attrs<MatMulAttrs>(n).trans_a) return false;
    const ValueId w = g_.operand(n, 1);
    return g_.rank(w) == 2 && is_weight(g_, w) && g_.op(g_.def(w)) != OpKind::Dequantize;
  }

  // Collects the matmuls, or the reason why there are other users.
  ScaledNorm look_at(ScaledNorm s) const {
    const auto fault = [&](std::string_view reason, std::string detail) {
      s.fault = reason, s.detail = std::move(detail);
      return s;
    };
    const NodeId n = s.nodes[0];
    if (g_.op(n) != OpKind::Mul && g_.attrs<NormAttrs>(n).axis + 1 != g_.rank(s.y))
      return fault("axes", "it normalises several axes");
    for (ValueId v : {s.gamma, s.beta})
      if (v.valid() && !(is_weight(g_, v) && is_row(g_, v, s.y)))
        return fault("runtime_scale", "scale and shift are computed when the model runs");
    std::vector<ValueId> values{s.y};
    for (size_t i = 0; i < values.size(); ++i) {
      if (g_.use_count(values[i]) > kMostReaders || values.size() > kMostReaders) return fault("readers", "it has many readers");
      for (const auto use : g_.uses(values[i])) {
        if (use.user == g_.terminator()) return fault("readers", "it is a result of the graph");
        if (keeps_rows(use.user)) values.push_back(g_.result(use.user));
        else if (takes_scale(use.user, use.index)) s.matmuls.push_back(use.user);
        else return fault("readers", g_.label(use.user).line() + " reads it and has no weights that could take its scale");
      }
    }
    return s;
  }

  bool fits(std::span<const ScaledNorm> values) {
    int64_t needed = 0;
    for (const ScaledNorm& s : values)
      for (NodeId p : s.matmuls) needed = checked_add(needed, bytes(g_, g_.operand(p, 1))).value_or(INT64_MAX);
    if (needed > room_) return false;
    room_ -= needed;
    return true;
  }

  bool visit(std::span<const NodeId> norms, std::vector<ScaledNorm> values) {
    for (const ScaledNorm& s : values)
      if (!s.fault.empty()) decline(ctx_, g_, kSharedNorm, s.nodes[0], s.fault, s.detail);
    std::erase_if(values, [](const ScaledNorm& s) { return !s.fault.empty(); });
    if (values.size() + has_bare(norms) < 2) return false;
    if (!fits(values))
      return decline(ctx_, g_, kSharedNorm, values[0].nodes[0], "packed_limit",
                     "copies of the weights with the scales in them do not fit --max-packed", "raise --max-packed");
    std::vector<NodeId> members;
    for (NodeId n : norms)
      if (is_bare(n)) members.push_back(n);
    for (const ScaledNorm& s : values) members.insert(members.end(), s.nodes.begin(), s.nodes.end());
    Builder b(g_, nullptr, norms[0]);
    const ValueId one = b.create(g_.op(norms[0]), {g_.operand(norms[0], 0)}, g_.attrs<NormAttrs>(norms[0]));
    if (!one.valid()) return false;
    ctx_.decisions.push_back(
        fused(g_, kSharedNorm, members[0], members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g_, one)));
    merge_origins(g_, g_.def(one), members);
    for (const ScaledNorm& s : values)
      for (NodeId p : s.matmuls) take(s, p);
    for (const ScaledNorm& s : values) replace(g_, s.y, one);
    for (NodeId n : norms)
      if (g_.alive(n) && is_bare(n)) replace(g_, g_.result(n), one);
    return true;
  }

  // Folds scale and shift into the weights and the bias of a matmul p.
  void take(const ScaledNorm& s, NodeId p) {
    const ValueId y = s.y, gamma = s.gamma, beta = s.beta;
    const ValueId r = g_.result(p), w = g_.operand(p, 1);
    const bool swapped = g_.attrs<MatMulAttrs>(p).trans_b;
    const NodeId add = g_.only_user(r);
    ValueId end = r, bias;
    if (beta.valid() && add.valid() && g_.op(add) == OpKind::Add)
      if (bias = row_beside(add, r); bias.valid()) end = g_.result(add);
    Builder b(g_, nullptr, g_.def(end));
    const Dim terms = g_.dims(y).back(), columns = g_.dims(r).back();
    const auto column = [&](ValueId v) {
      return b.reshape(b.cast(b.expand(as_row(b, v, y), {terms}), g_.dtype(w)), {terms, Dim(1)});
    };
    const auto along_terms = [&](ValueId v) { return swapped ? b.reshape(column(v), {Dim(1), terms}) : column(v); };
    ValueId made = b.matmul(g_.operand(p, 0), gamma.valid() ? b.mul(w, along_terms(gamma)) : w, false, swapped);
    const NodeId sources[] = {p};
    merge_origins(g_, g_.def(made), sources);
    if (beta.valid()) {
      const ValueId shift = b.reshape(b.matmul(b.reshape(column(beta), {Dim(1), terms}), w, false, swapped), {columns});
      made = b.add(made, bias.valid() ? b.add(shift, as_row(b, bias, r)) : shift);
    }
    replace(g_, end, made);
  }

  Graph& g_;
  PassContext& ctx_;
  Order order_;
  int64_t room_;  // remaining bytes for load-time results
};

}  // namespace

PassResult share_norms(Module& m, PassContext& ctx) {
  int64_t shared = 0;
  each_graph(m, [&](Graph& g) { shared += SharedNorms(g, ctx).run(); });
  return {shared > 0, {{"norm", shared}}};
}

}  // namespace rlxc
