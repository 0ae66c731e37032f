#include "transform/paths.h"

#include <algorithm>

namespace rlxc::transform {
namespace {

// Integer results of these carry derivatives when an operand that carries some is quantized, or becomes so here.
bool passes_integers(OpKind op) {
  return op == OpKind::Quantize || op == OpKind::QMatMul || op == OpKind::QConv || has_trait(op, kMovement) ||
         op == OpKind::Max || op == OpKind::Min || op == OpKind::Pool || op == OpKind::Relu || op == OpKind::Clamp;
}

bool carries(const Graph& g, NodeId n, ValueId v, const std::vector<bool>& reached) {
  if (g.op(n) == OpKind::StopGradient) return false;
  if (is_float_tensor(g, v)) return true;
  if (g.type(v).kind != TypeKind::Tensor || !is_integer(g.dtype(v)) || !passes_integers(g.op(n))) return false;
  if (g.op(n) == OpKind::Quantize) return true;
  const ValueId first = g.operand(n, 0), second = g.operand(n, 1);
  const auto quantized = [&](ValueId x) { return x.valid() && reached[x.raw] && !is_float_tensor(g, x); };
  const bool two = g.op(n) == OpKind::QMatMul || g.op(n) == OpKind::QConv || g.op(n) == OpKind::Concat;
  return quantized(first) || (two && quantized(second));
}

}  // namespace

bool is_float_tensor(const Graph& g, ValueId v) { return g.type(v).kind == TypeKind::Tensor && is_float(g.dtype(v)); }
DType derivative_dtype(const Graph& g, ValueId v) { return is_float(g.dtype(v)) ? g.dtype(v) : DType::F32; }

bool are_values(const Graph& g, std::initializer_list<std::span<const ValueId>> lists) {
  return std::ranges::all_of(lists, [&](std::span<const ValueId> list) {
    return std::ranges::all_of(list, [&](ValueId v) { return v.valid() && v.raw < g.value_capacity(); });
  });
}

Between between(const Graph& g, std::span<const ValueId> targets, std::span<const ValueId> sources,
                std::span<const ValueId> fixed, Follow follow) {
  Between out;
  std::vector<bool> stops(g.value_capacity());
  out.reached.assign(g.value_capacity(), false);
  out.needed.assign(g.value_capacity(), false);
  for (ValueId v : fixed) stops[v.raw] = true;
  for (ValueId v : sources) stops[v.raw] = out.reached[v.raw] = true;
  for (ValueId v : targets) out.needed[v.raw] = true;
  std::vector<NodeId> order;
  for (NodeId n : g.nodes()) order.push_back(n);
  for (auto n = order.rbegin(); n != order.rend(); ++n) {
    bool wanted = false;
    for (size_t r = 0; r < g.result_count(*n); ++r) wanted |= out.needed[g.result(*n, r).raw] && !stops[g.result(*n, r).raw];
    if (wanted)
      for (ValueId v : g.operands(*n))
        if (v.valid()) out.needed[v.raw] = true;
  }
  for (NodeId n : order) {
    const auto from = [&](ValueId v) { return v.valid() && out.reached[v.raw]; };
    if (std::ranges::none_of(g.operands(n), from)) continue;
    bool joins = false;
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      if (!out.needed[v.raw] || stops[v.raw]) continue;
      if (follow == Follow::Derivatives && !carries(g, n, v, out.reached)) continue;
      out.reached[v.raw] = joins = true;
    }
    if (joins) out.nodes.push_back(n);
  }
  return out;
}

std::vector<double> count_paths(const Graph& g, const Between& all, std::span<const ValueId> targets) {
  std::vector<double> paths(all.reached.size());
  for (ValueId v : targets)
    if (all.reached[v.raw]) paths[v.raw] = 1;
  for (auto n = all.nodes.rbegin(); n != all.nodes.rend(); ++n) {
    double through = 0;
    for (size_t r = 0; r < g.result_count(*n); ++r) through += paths[g.result(*n, r).raw];
    for (ValueId v : g.operands(*n))
      if (v.valid() && all.reached[v.raw]) paths[v.raw] += through;
  }
  return paths;
}

std::vector<Cut> cuts(const Graph& g, const Between& all, std::span<const ValueId> fixed) {
  std::vector<bool> stops(g.value_capacity());
  for (ValueId v : fixed) stops[v.raw] = true;
  std::vector<Cut> out;
  for (NodeId n : g.nodes()) {
    const auto from = [&](ValueId v) { return v.valid() && all.reached[v.raw]; };
    if (std::ranges::none_of(g.operands(n), from)) continue;
    bool lost = false, kept = false;
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      (all.reached[v.raw] || stops[v.raw] ? kept : lost) |= all.needed[v.raw];
    }
    if (!lost || kept) continue;
    const bool converts = g.op(n) == OpKind::Cast && is_integer(g.dtype(g.result(n)));
    out.push_back({n, converts});
  }
  return out;
}

void warn_of_steps(Diagnostics& d, const Graph& g, const Between& all, std::span<const ValueId> fixed) {
  constexpr size_t kMost = 8;  // that are named
  std::vector<std::string> flat, rounding;
  const auto note = [&](std::vector<std::string>* list, NodeId n) {
    list->push_back(g.label(n).quoted() + " (" + std::string(name(g.op(n))) + ")");
  };
  for (NodeId n : all.nodes) {
    const OpKind op = g.op(n);
    if (op == OpKind::Floor || op == OpKind::Ceil || op == OpKind::Sign) note(&flat, n);
    if (op == OpKind::Round) note(&rounding, n);
  }
  // Truth values that go on as floats. Those that choose among values are as they should be.
  for (const Cut& c : cuts(g, all, fixed)) {
    const ValueId v = g.result(c.node);
    if (c.converts || g.type(v).kind != TypeKind::Tensor || g.dtype(v) != DType::Bool) continue;
    const auto uses = g.uses(v);
    if (std::any_of(uses.begin(), uses.end(), [&](Graph::Use u) {
          return g.op(u.user) == OpKind::Cast && is_float_tensor(g, g.result(u.user)) && all.needed[g.result(u.user).raw];
        }))
      note(&flat, c.node);
  }
  const auto warn = [&](const std::vector<std::string>& list, const std::string& what) {
    std::string names;
    for (size_t i = 0; i < std::min(list.size(), kMost); ++i) names += (i ? ", " : "") + list[i];
    if (list.size() > kMost) names += " and " + std::to_string(list.size() - kMost) + " others";
    if (!list.empty()) d.warning(Code::UnsupportedOp, what + names);
  };
  warn(flat, "constant between steps, so that derivatives through them are 0: ");
  warn(rounding, "derivatives pass straight through rounding, as if it were the identity: ");
}

void add_conversion(Diagnostics& d, const Graph& g, NodeId n) {
  d.error(Code::UnsupportedOp,
          "the gradient ends at " + g.label(n).quoted() + " (" + std::string(name(g.op(n))) + "), which makes " +
              std::string(name(g.dtype(g.result(n)))) + " of a float",
          {}, "--stop-gradient " + g.label(n).quoted() + " takes what it gives as constant");
}

void add_unknown(Diagnostics& d, std::string_view derivative, const Graph& g, NodeId n, bool has_rule,
                 const std::string& inside) {
  d.error(Code::UnsupportedOp, "the " + std::string(derivative) + " of " + g.label(n).quoted() + " (" +
                                   std::string(name(g.op(n))) +
                                   (!has_rule        ? ") is not known"
                                    : inside.empty() ? ") is not known for its attributes or sizes"
                                                     : ") is not known: " + inside));
}

}  // namespace rlxc::transform
