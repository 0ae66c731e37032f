// Raises x*0.5*(1+erf(x/sqrt(2))) and the tanh form to Gelu and GeluApprox, for any order of the factors.
#include <algorithm>
#include <cmath>

#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

// The Add 1 + f(..), f = Erf or Tanh, among the operands of a tree of Mul and Div nodes.
NodeId find_sum(const Graph& g, NodeId root, OpKind* f) {
  std::vector<std::pair<NodeId, int>> work{{root, 0}};
  while (!work.empty()) {
    const auto [n, depth] = work.back();
    work.pop_back();
    if (const auto sum = with_scalar(g, g.result(n), OpKind::Add)) {
      const OpKind op = g.op(g.def(sum->x));
      if ((op == OpKind::Erf || op == OpKind::Tanh) && near(g, sum->x, sum->c, 1)) return *f = op, n;
    }
    if (depth == 3 || (g.op(n) != OpKind::Mul && g.op(n) != OpKind::Div)) continue;
    for (ValueId v : g.operands(n)) work.push_back({g.def(v), depth + 1});
  }
  return {};
}

bool is_product(const Graph& g, ValueId root, ValueId stop, double c, std::vector<ValueId> factors) {
  Product p = product(g, root, stop);
  std::ranges::sort(factors, {}, &ValueId::raw);
  return p.factors == factors && near(g, root, p.c, c);
}

// Matches sqrt(2/pi) * (x + 0.044715 x^3), or sqrt(2/pi) * x * (1 + 0.044715 x^2). Returns x, or invalid.
ValueId tanh_argument(const Graph& g, ValueId inner) {
  const double k = std::sqrt(2 / M_PI);
  const Product outer = product(g, inner, {});
  for (ValueId sum : outer.factors) {
    const NodeId add = defining_op(g, sum, OpKind::Add);
    if (!add.valid()) continue;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId a = g.operand(add, i), b = g.operand(add, 1 - i);
      if (is_product(g, inner, sum, k, {sum}) && is_product(g, b, a, 0.044715, {a, a, a})) return a;
      if (is_scalar(g, a, 1)) {
        const Product square = product(g, b, {});
        if (square.factors.size() == 2 && square.factors[0] == square.factors[1] && near(g, b, square.c, 0.044715)) {
          const ValueId x = square.factors[0];
          if (is_product(g, inner, sum, k, {sum, x})) return x;
        }
      }
    }
  }
  return {};
}

void collect(const Graph& g, NodeId root, ValueId x, std::vector<NodeId>& out) {  // nodes between root and x
  out.push_back(root);
  for (size_t i = 0; i < out.size() && out.size() < 24; ++i)
    for (ValueId v : g.operands(out[i])) {
      const NodeId d = g.def(v);
      if (v != x && !has_trait(g.op(d), kLeaf) && !scalar(g, v) && std::ranges::find(out, d) == out.end()) out.push_back(d);
    }
}

bool try_gelu(Graph& g, NodeId root, PassContext& ctx) {
  OpKind f{};
  const NodeId sum = find_sum(g, root, &f);
  if (!sum.valid() || sum == root) return false;
  const ValueId inner = g.operand(g.def(with_scalar(g, g.result(sum), OpKind::Add)->x), 0);
  ValueId x;
  if (f == OpKind::Erf) {
    const auto arg = scaled(g, inner);
    if (arg && near(g, inner, arg->c, std::sqrt(0.5))) x = arg->x;
  } else {
    x = tanh_argument(g, inner);
  }
  const ValueId y = g.result(root);
  if (!x.valid() || !same_type(g, x, y)) return false;
  Product p = product(g, y, x);
  if (p.factors.size() != 2 || !near(g, y, p.c, 0.5)) return false;
  const ValueId s = g.result(sum);
  if (!(p.factors[0] == x && p.factors[1] == s) && !(p.factors[0] == s && p.factors[1] == x)) return false;
  std::vector<NodeId> members;
  collect(g, root, x, members);
  ctx.decisions.push_back(fused(g, "gelu", root, members));
  Builder b(g, nullptr, root);
  replace(g, y, b.unary(f == OpKind::Erf ? OpKind::Gelu : OpKind::GeluApprox, x));
  return true;
}

}  // namespace

PassResult recognise_gelu(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if ((g.op(n) == OpKind::Mul || g.op(n) == OpKind::Div) && is_float(g, g.result(n)))
        found += ctx.rewrite([&] { return try_gelu(g, n, ctx); });
  });
  return {found > 0, {{"gelu", found}}};
}

}  // namespace rlxc
