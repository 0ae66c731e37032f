#include "eval/equivalence.h"

#include "eval/random_weights.h"

namespace rlxc::eval {
namespace {

std::optional<std::vector<HostValue>> results(const Module& m, const EquivalenceOptions& o, std::string* reason) {
  const NamedValues params = random_weights(m, o.evaluation.bindings, o.seed, o.range);
  Options evaluation = o.evaluation;
  evaluation.params = &params;
  Diagnostics diagnostics;
  std::optional<std::vector<HostValue>> out;
  if (random_inputs_fit(m, evaluation, diagnostics)) out = evaluate(m, random_inputs(m, o), diagnostics, evaluation);
  if (!out) *reason = diagnostics.text();
  return out;
}

}  // namespace

std::vector<HostValue> random_inputs(const Module& m, const EquivalenceOptions& o) {
  std::vector<HostValue> out;
  for (NodeId n : m.main().inputs()) {
    const ValueId v = m.main().result(n);
    out.push_back(
        random_value(m, m.main().type(v), o.evaluation.bindings, seed_of(o.seed, m.bytes(m.main().value_name(v))), o.range));
  }
  return out;
}

bool same_results(const Module& before, const Module& after, const EquivalenceOptions& o, std::string* reason) {
  std::string error;
  const auto a = results(before, o, &error);
  if (!a) {
    *reason = "before: " + error;
    return false;
  }
  const auto b = results(after, o, &error);
  if (!b) {
    *reason = "after: " + error;
    return false;
  }
  if (a->size() != b->size()) {
    *reason = std::to_string(b->size()) + " outputs, before " + std::to_string(a->size());
    return false;
  }
  for (size_t i = 0; i < a->size(); ++i) {
    const Comparison c = compare((*b)[i], (*a)[i], o.rtol, o.atol);
    if (c.pass) continue;
    *reason = "output " + std::to_string(i) + " " + before.text(before.main().output_name(i)).quoted() + ": " + c.message +
              "; max abs " + std::to_string(c.max_abs);
    return false;
  }
  return true;
}

bool same_results(const Module& before, const Module& after, uint64_t seed, double rtol, double atol, std::string* reason) {
  EquivalenceOptions o;
  o.seed = seed;
  o.rtol = rtol;
  o.atol = atol;
  return same_results(before, after, o, reason);
}

}  // namespace rlxc::eval
