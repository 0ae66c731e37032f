// Checks that two modules with equal inputs compute the same on random values.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "eval/equivalence.h"
#include "eval/random_weights.h"

namespace rlxc::testing {

struct Tolerance {
  double rtol = 1e-4, atol = 1e-5;
};

inline constexpr int64_t kTestSize = 3;  // value of symbolic dims

inline eval::EquivalenceOptions equivalence_options(const Module& m, uint64_t seed, Tolerance t = {}) {
  eval::EquivalenceOptions o;
  o.seed = seed, o.rtol = t.rtol, o.atol = t.atol, o.range = {-2, 2, 0, 3};
  for (const std::string& s : m.dims.symbol_names()) o.evaluation.bindings[s] = kTestSize;
  return o;
}

inline std::vector<eval::HostValue> results_of(const Module& m, const eval::EquivalenceOptions& options) {
  const auto params = eval::random_weights(m, options.evaluation.bindings, options.seed, options.range);
  auto evaluation = options.evaluation;
  evaluation.params = &params;
  Diagnostics d;
  const auto results = eval::evaluate(m, eval::random_inputs(m, options), d, evaluation);
  REQUIRE_MESSAGE(results.has_value(), d.text());
  return *results;
}
inline std::vector<eval::HostValue> results_of(const Module& m, uint64_t seed) {
  return results_of(m, equivalence_options(m, seed));
}

// Returns the largest absolute value of a float tensor, 0 for other types. Tolerances may be relative to it, because norms of
// nearly constant rows amplify rounding errors.
inline double largest_value(const TensorData& t) {
  double largest = 0;
  for (int64_t k = 0; is_float(t.dtype) && k < t.elements(); ++k)
    if (const double v = std::abs(element_as_double(t, k)); v < 1e30) largest = std::max(largest, v);
  return largest;
}

inline void same_results(const Module& before, const Module& after, uint64_t seed = 1, Tolerance t = {}) {
  std::string why;
  CHECK_MESSAGE(eval::same_results(before, after, equivalence_options(before, seed, t), &why), "seed " << seed << ": " << why);
}

}  // namespace rlxc::testing
