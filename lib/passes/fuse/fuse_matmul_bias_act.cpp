// Fuses MatMul with its epilogue: a bias row, a residual of the same shape, and an activation that the target supports.
#include <algorithm>

#include "analysis/views.h"
#include "passes/fuse/epilogue.h"
#include "passes/fuse/weight_matmul.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;
using namespace fuse;

struct Tail {
  ValueId bias, residual;
  ValueId biased;  // the value to which the bias is added
  Epilogue act;
  ValueId value;  // the last fused value
  NodeId moved;   // an activation behind layout ops
  std::vector<NodeId> nodes;
};

class MatMulEpilogue {
 public:
  MatMulEpilogue(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx) {}

  int64_t run() {
    int64_t found = 0;
    for (NodeId n : g_.nodes())
      if (is_bare_matmul(n) && is_float(g_, g_.result(n))) found += ctx_.rewrite([&] { return visit(n); });
    for (NodeId n : g_.nodes())
      if (takes_residual(g_, n) && has_kind(n) && is_float(g_, g_.result(n)))
        found += ctx_.rewrite([&] { return visit_moved(n); });
    return found;
  }

 private:
  // Also accepts matmuls of two run-time values.
  bool is_bare_matmul(NodeId n) const { return (g_.op(n) == OpKind::MatMul || is_weight_matmul(g_, n)) && has_kind(n); }
  bool has_kind(NodeId n) const { return ctx_.target.native.test(static_cast<size_t>(kind_with_end(g_.op(n)))); }

  void decline(NodeId n, std::string_view reason, std::string detail, std::string hint = {}) {
    decline_end(ctx_, g_, "matmul_bias_act", n, reason, std::move(detail), std::move(hint));
  }

  // Takes an Add of a row. Records a decline only if a bias stays unfused.
  bool take_bias(NodeId matmul, Tail& t) {
    const ValueId v = t.value;
    const NodeId add = g_.only_user(v);
    if (!add.valid()) {
      for (const auto use : g_.uses(v)) {
        if (g_.op(use.user) != OpKind::Add) continue;
        const ValueId row = other(g_, use.user, v);
        if (row.valid() && is_row(g_, row, v) && is_weight(g_, row))
          decline(matmul, "multi_consumer", std::to_string(g_.use_count(v)) + " readers of the matmul",
                  "read the matmul only through the bias");
      }
      return false;
    }
    if (add == g_.terminator() || g_.op(add) != OpKind::Add) return false;
    const ValueId row = other(g_, add, v);
    if (!row.valid()) return false;
    if (!same_type(g_, g_.result(add), v)) {
      decline(matmul, "bias_shape", "the sum is larger than the matmul");
      return false;
    }
    if (!is_row(g_, row, v)) return false;
    t.bias = row;
    t.biased = v;
    take(add, t);
    return true;
  }

  void take(NodeId n, Tail& t) {
    t.nodes.push_back(n);
    t.value = g_.result(n);
  }

  // Takes a Reshape that keeps the last axis.
  bool take_reshape(Tail& t) {
    const NodeId n = g_.only_user(t.value);
    if (!n.valid() || g_.op(n) != OpKind::Reshape) return false;
    const auto from = g_.dims(t.value), to = g_.dims(g_.result(n));
    if (to.empty() || to.back() != from.back()) return false;
    take(n, t);
    return true;
  }

  bool visit(NodeId n) {
    const size_t first = ctx_.decisions.size();
    Tail t;
    t.value = g_.result(n);
    t.nodes.push_back(n);
    take_bias(n, t);
    Tail ahead = t;
    const bool reshaped = take_reshape(ahead);
    Tail& last = reshaped ? ahead : t;
    if (reshaped && !last.bias.valid()) take_bias(n, last);
    bool any = last.bias.valid();
    if (const auto r = match_residual(g_, last.value)) {
      last.residual = r->residual;
      take(r->node, last);
      any = true;
    }
    if (const auto e = take_epilogue(g_, last.value, n, "matmul_bias_act", ctx_)) {
      last.act = e->act;
      if (g_.operand(e->node, 0) == last.value) take(e->node, last);
      else last.moved = e->node;
      any = true;
    }
    const bool use_ahead = reshaped && (ahead.residual.valid() || ahead.act.has || (ahead.bias.valid() && !t.bias.valid()));
    const Tail& final = reshaped && !use_ahead ? t : last;
    if (!any || (final.nodes.size() == 1 && !final.moved.valid())) return false;
    return emit(n, final, first);
  }

  bool emit(NodeId n, const Tail& t, size_t first_decision) {
    const NodeId root = g_.def(t.value);
    const ValueId matmul = g_.result(n);
    Builder b(g_, nullptr, root);
    const std::vector<Dim> inner(g_.dims(matmul).begin(), g_.dims(matmul).end()),
        outer(g_.dims(t.value).begin(), g_.dims(t.value).end());
    const ValueId bias = t.bias.valid() ? as_row(b, t.bias, t.biased) : ValueId();
    const ValueId residual = t.residual.valid() ? b.reshape(t.residual, inner) : ValueId();
    const ValueId y = with_end(b, n, bias, residual, t.act);
    if (!y.valid()) return false;
    std::vector<NodeId> members = t.nodes;
    if (t.moved.valid()) members.push_back(t.moved);
    std::erase_if(members, [&](NodeId k) { return g_.op(k) == OpKind::Reshape; });
    Decision d = fused(g_, "matmul_bias_act", n, members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g_, matmul));
    if (t.act.has) d.detail = name(t.act.op);
    record_before(ctx_, first_decision, std::move(d));
    merge_origins(g_, g_.def(y), members);
    replace(g_, t.value, b.reshape(y, outer));
    if (t.moved.valid()) bypass(g_, t.moved);
    return true;
  }

  // Fuses a residual added behind layout ops: the kernel reads the residual and writes the sum in the layout of the Add.
  bool visit_moved(NodeId n) {
    const ValueId matmul = g_.result(n), v = after_layout_ops(g_, matmul);
    if (v == matmul) return false;
    const auto r = match_residual(g_, v);
    if (!r) return false;
    const auto layout = layout_before(g_, matmul, v);
    const bool steps = ctx_.target.strides && layout && can_write_layout(g_, n, *layout) && !layout_in_larger(g_, r->residual);
    if (!steps) {
      return decline_end(ctx_, g_, "matmul_bias_act", r->node, "layout",
                         "the matmul " + g_.label(n).line() + " cannot be made in the order of the sum",
                         "add to rows of the matmul before they are moved");
    }
    const size_t first = ctx_.decisions.size();
    const ValueId sum = g_.result(r->node);
    const auto e = take_epilogue(g_, sum, n, "matmul_bias_act", ctx_);
    const bool at_once = e && g_.operand(e->node, 0) == sum;
    const NodeId root = at_once ? e->node : r->node;
    std::vector<NodeId> path, members{n, r->node};
    for (ValueId u = v; u != matmul; u = g_.operand(path.back(), 0)) path.push_back(g_.def(u));
    if (e) members.push_back(e->node);
    Builder b(g_, nullptr, root);
    ValueId residual = r->residual;
    for (NodeId move : path) residual = moved_back(b, move, residual);
    ValueId y = with_residual(b, n, residual, e ? e->act : Epilogue{});
    if (!y.valid()) return false;
    Decision d = fused(g_, "matmul_bias_act", n, members, 2 * static_cast<int64_t>(members.size() - 1) * bytes(g_, matmul));
    if (e) d.detail = name(e->act.op);
    record_before(ctx_, first, std::move(d));
    merge_origins(g_, g_.def(y), members);
    while (!path.empty()) {
      y = moved(b, path.back(), y);
      path.pop_back();
    }
    replace(g_, g_.result(root), y);
    if (e && !at_once) bypass(g_, e->node);
    return true;
  }

  // Applies the layout op n to v; moved_back applies its inverse.
  ValueId moved(Builder& b, NodeId n, ValueId v) const {
    if (g_.op(n) == OpKind::Transpose) return b.transpose(v, g_.attrs<PermAttrs>(n).perm);
    return b.reshape(v, dims_of(g_.result(n)));
  }
  ValueId moved_back(Builder& b, NodeId n, ValueId v) const {
    if (g_.op(n) != OpKind::Transpose) return b.reshape(v, dims_of(g_.operand(n, 0)));
    return b.transpose(v, inverse_permutation(g_.attrs<PermAttrs>(n).perm));
  }
  std::vector<Dim> dims_of(ValueId v) const { return {g_.dims(v).begin(), g_.dims(v).end()}; }

  Graph& g_;
  PassContext& ctx_;
};

}  // namespace

PassResult fuse_matmul_bias_act(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) { found += MatMulEpilogue(g, ctx).run(); });
  return {found > 0, {{"matmul_bias_act", found}}};
}

}  // namespace rlxc
