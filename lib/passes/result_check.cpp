#include "passes/result_check.h"

#include <algorithm>
#include <cmath>

#include "eval/compare.h"
#include "eval/equivalence.h"
#include "eval/random_weights.h"
#include "eval/value.h"
#include "ir/graphs.h"
#include "support/number.h"

namespace rlxc {
namespace {

constexpr uint64_t kMostCheckedSteps = uint64_t{1} << 44;  // allows evaluations that take minutes
constexpr double kTolerance = 1e-4, kNarrowCosine = 0.999, kRoundedCosine = 0.98;

double largest(const eval::HostValue& v) {
  double most = 0;
  if (v.kind == TypeKind::Tensor && is_float(v.tensor.dtype))
    for (double x : eval::numbers(v))
      if (std::isfinite(x)) most = std::max(most, std::fabs(x));
  return most;
}

// Returns whether all outputs are floats and all values NaN: any two such results compare equal.
bool tells_nothing(const std::vector<eval::HostValue>& outputs) {
  bool any = false;
  for (const eval::HostValue& v : outputs) {
    if (v.kind != TypeKind::Tensor || !is_float(v.tensor.dtype)) return false;
    for (double x : eval::numbers(v))
      if (any = true; !std::isnan(x)) return false;
  }
  return any;
}

bool computes_narrow(const Module& m) {
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      if (g.op(n) == OpKind::Quantize) return true;
      for (size_t r = 0; r < g.result_count(n); ++r)
        if (const DType t = g.dtype(g.result(n, r)); is_float(t) && bits(t) < 32) return true;
    }
  }
  return false;
}

}  // namespace

ResultCheck::ResultCheck(const Module& m, uint64_t seed) : seed_(seed) {
  auto results = evaluate(m, &not_comparable_);
  if (!results) {
    largest_int_ = 0;
    weights_.clear();
    results = evaluate(m, &not_comparable_);
  }
  if (!results) return;
  last_ = std::move(*results);
  not_comparable_ = tells_nothing(last_) ? "all of its outputs are NaN" : "";
}

std::optional<std::vector<eval::HostValue>> ResultCheck::evaluate(const Module& m, std::string* reason) {
  eval::EquivalenceOptions options;
  options.seed = seed_;
  options.range.int_high = largest_int_;
  options.evaluation.max_steps = kMostCheckedSteps;
  weights_ = eval::random_weights(m, {}, seed_, options.range, weights_);
  options.evaluation.params = &weights_;
  Diagnostics d;
  std::optional<std::vector<eval::HostValue>> results;
  if (eval::random_inputs_fit(m, options.evaluation, d))
    results = eval::evaluate(m, eval::random_inputs(m, options), d, options.evaluation);
  if (!results) *reason = d.items().empty() ? "unknown" : d.items()[0].where + ": " + d.items()[0].message;
  return results;
}

std::string ResultCheck::difference(const Module& m, const PassInfo& pass) {
  if (!not_comparable_.empty()) return {};
  std::string reason;
  auto results = evaluate(m, &reason);
  if (!results) return "the module cannot be evaluated any more: " + reason;
  if (pass.group == "interface") {
    last_ = std::move(*results);
    return {};
  }
  if (results->size() != last_.size()) return "the number of outputs is another";
  const bool rounds = pass.group == "precision" || pass.group == "quantize", narrow = rounds || computes_narrow(m);
  for (size_t i = 0; i < last_.size() && reason.empty(); ++i) {
    const eval::HostValue &now = (*results)[i], &before = last_[i];
    eval::Judgement j = eval::judge(now, before, {.rtol = kTolerance, .atol = kTolerance * largest(before)});
    if (!j.pass && narrow) j = eval::judge(now, before, eval::similar(rounds ? kRoundedCosine : kNarrowCosine));
    if (j.pass) continue;
    reason = "output " + std::to_string(i) + " " + m.text(m.main().output_name(i)).quoted() + ": " + j.message;
    if (j.first_mismatch >= 0 && j.not_finite == 0)
      reason += "; max abs " + shortest(j.max_abs) + ", cosine " + shortest(j.cosine) + ", norm error " + shortest(j.norm_error);
  }
  last_ = std::move(*results);
  return reason;
}

}  // namespace rlxc
