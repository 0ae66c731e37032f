#include "eval/equivalence.h"

#include <algorithm>
#include <cmath>

namespace rlxc::eval {
namespace {

// Weights as networks start with: matrices and filters within Glorot's bound (Glorot, Bengio: Understanding the difficulty of
// training deep feedforward neural networks, 2010), so that rounding does not grow from layer to layer; vectors are positive,
// since variances and scales of norms are.
RandomRange range_of_weight(const Type& type, const RandomRange& range) {
  RandomRange r = range;
  if (type.dims.size() < 2) return r.low = r.high / 10, r;
  double taps = 1;
  const auto size = [&](size_t i) { return type.dims[i].is_static() ? static_cast<double>(type.dims[i].size()) : 2; };
  for (size_t i = 2; i < type.dims.size(); ++i) taps *= size(i);
  const double bound = std::sqrt(6 / std::max(1.0, (size(0) + size(1)) * taps));
  r.low *= std::min(1.0, bound), r.high *= std::min(1.0, bound);
  return r;
}

std::optional<std::vector<HostValue>> results(const Module& m, const EquivalenceOptions& o, std::string* why) {
  const NamedValues params = random_params(m, o);
  Options evaluation = o.evaluation;
  evaluation.params = &params;
  Diagnostics diagnostics;
  auto out = evaluate(m, random_inputs(m, o), diagnostics, evaluation);
  if (!out) *why = diagnostics.text();
  return out;
}

}  // namespace

std::vector<HostValue> random_inputs(const Module& m, const EquivalenceOptions& o) {
  std::vector<HostValue> out;
  for (NodeId n : m.main().inputs()) {
    const ValueId v = m.main().result(n);
    out.push_back(
        random_value(m, m.main().type(v), o.evaluation.bindings, seed_of(o.seed, m.text(m.main().value_name(v))), o.range));
  }
  return out;
}

NamedValues random_params(const Module& m, const EquivalenceOptions& o) {
  NamedValues out;
  for (size_t g = 0; g < m.graph_count(); ++g) {
    const Graph& graph = m.graph(GraphId(static_cast<uint32_t>(g)));
    for (NodeId n : graph.nodes()) {
      if (graph.op(n) != OpKind::Param || graph.attrs<DataAttrs>(n).data.valid()) continue;
      const ValueId v = graph.result(n);
      const std::string name(m.text(graph.value_name(v)));
      const RandomRange range = range_of_weight(graph.type(v), o.range);
      out[name] = random_value(m, graph.type(v), o.evaluation.bindings, seed_of(o.seed, name), range);
    }
  }
  return out;
}

bool same_results(const Module& before, const Module& after, const EquivalenceOptions& o, std::string* why) {
  std::string error;
  const auto a = results(before, o, &error);
  if (!a) return *why = "before: " + error, false;
  const auto b = results(after, o, &error);
  if (!b) return *why = "after: " + error, false;
  if (a->size() != b->size()) return *why = std::to_string(b->size()) + " outputs, before " + std::to_string(a->size()), false;
  for (size_t i = 0; i < a->size(); ++i) {
    const Comparison c = compare((*b)[i], (*a)[i], o.rtol, o.atol);
    if (c.pass) continue;
    *why = "output " + std::to_string(i) + " \"" + std::string(before.text(before.main().output_name(i))) + "\": " + c.message +
           "; max abs " + std::to_string(c.max_abs);
    return false;
  }
  return true;
}

bool same_results(const Module& before, const Module& after, uint64_t seed, double rtol, double atol, std::string* why) {
  EquivalenceOptions o;
  o.seed = seed, o.rtol = rtol, o.atol = atol;
  return same_results(before, after, o, why);
}

}  // namespace rlxc::eval
