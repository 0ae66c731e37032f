// Raises x*sigmoid(x), x*sigmoid(a*x), x*hard_sigmoid(x), x*clamp(x+3,0,6)/6 and x*tanh(softplus(x)) to one activation.
#include <cmath>

#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

struct Gate {
  OpKind op{};
  double alpha = 0;
  std::vector<NodeId> nodes;
};

// Matches s = clamp(x+3, 0, 6) as Clamp, or as Min and Max with scalars.
bool is_relu6_of_x_plus_3(const Graph& g, ValueId s, ValueId x, std::vector<NodeId>& nodes) {
  double low = -INFINITY, high = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const NodeId n = g.def(s);
    if (g.op(n) == OpKind::Clamp) {
      low = std::fmax(low, g.attrs<ClampAttrs>(n).min), high = std::fmin(high, g.attrs<ClampAttrs>(n).max);
    } else if (g.op(n) == OpKind::Relu) {
      low = std::fmax(low, 0);
    } else if (const auto a = with_scalar(g, s, OpKind::Max)) {
      low = std::fmax(low, a->c);
    } else if (const auto a = with_scalar(g, s, OpKind::Min)) {
      high = std::fmin(high, a->c);
    } else {
      break;
    }
    nodes.push_back(n);
    s = scalar(g, g.operand(n, 0)) ? g.operand(n, 1) : g.operand(n, 0);
  }
  const auto sum = with_scalar(g, s, OpKind::Add);
  nodes.push_back(g.def(s));
  return low == 0 && high == 6 && sum && sum->x == x && sum->c == 3;
}

// Matches a gate `s` for which x * s is an activation of x.
std::optional<Gate> match_gate(const Graph& g, ValueId x, ValueId s) {
  const NodeId n = g.def(s);
  if (g.operands(n).empty() || !same_type(g, x, s)) return std::nullopt;
  const ValueId in = g.operand(n, 0);
  switch (g.op(n)) {
    case OpKind::Sigmoid:
      if (in == x) return Gate{OpKind::Silu, 0, {n}};
      if (const auto a = scaled(g, in); a && a->x == x) return Gate{OpKind::Swish, a->c, {n, g.def(in)}};
      return std::nullopt;
    case OpKind::HardSigmoid: {
      const auto& a = g.attrs<AlphaBetaAttrs>(n);
      if (in == x && near(g, x, a.alpha, 1.0 / 6) && near(g, x, a.beta, 0.5)) return Gate{OpKind::HardSwish, 0, {n}};
      return std::nullopt;
    }
    case OpKind::Tanh:
      if (defining_op(g, in, OpKind::Softplus).valid() && g.operand(g.def(in), 0) == x)
        return Gate{OpKind::Mish, 0, {n, g.def(in)}};
      return std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<Gate> match_relu6(const Graph& g, NodeId root, ValueId* x) {
  const Product p = product(g, g.result(root), {});
  if (p.factors.size() != 2 || !near(g, g.result(root), p.c, 1.0 / 6)) return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    Gate gate{OpKind::HardSwish, 0, {}};
    if (is_relu6_of_x_plus_3(g, p.factors[i], p.factors[1 - i], gate.nodes) && same_type(g, p.factors[1 - i], g.result(root)))
      return *x = p.factors[1 - i], gate;
  }
  return std::nullopt;
}

bool make_silu(Graph& g, NodeId n, PassContext& ctx) {
  std::optional<Gate> gate;
  ValueId x;
  for (size_t i = 0; i < 2 && !gate && g.op(n) == OpKind::Mul; ++i)
    gate = match_gate(g, x = g.operand(n, i), g.operand(n, 1 - i));
  if (!gate) gate = match_relu6(g, n, &x);
  if (!gate) return false;
  gate->nodes.push_back(n);
  ctx.decisions.push_back(fused(g, name(gate->op), n, gate->nodes));
  Builder b(g, nullptr, n);
  const ValueId y =
      gate->op == OpKind::Swish ? b.create(OpKind::Swish, {x}, AlphaBetaAttrs{gate->alpha, 0}) : b.unary(gate->op, x);
  replace(g, g.result(n), y);
  return true;
}

}  // namespace

PassResult recognise_silu(Module& m, PassContext& ctx) {
  int64_t found = 0;
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if ((g.op(n) == OpKind::Mul || g.op(n) == OpKind::Div) && is_float(g, g.result(n)))
        found += ctx.rewrite([&] { return make_silu(g, n, ctx); });
  });
  return {found > 0, {{"gated_activation", found}}};
}

}  // namespace rlxc
