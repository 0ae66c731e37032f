// Checks whether two modules compute the same results. Used by tests of passes and --verify-each.
#pragma once
#include <string>

#include "eval/eval.h"
#include "eval/random.h"

namespace rlxc::eval {

struct EquivalenceOptions {
  uint64_t seed = 1;
  double rtol = 1e-4, atol = 1e-5;
  RandomRange range;
  // Symbols without a binding are 2. Random values rarely give the data-dependent dims that a model requires.
  Options evaluation = {.check_data_dependent_dims = false};
};

// Evaluates both modules on the same random inputs and compares the outputs. Random inputs, and Params without data, are seeded
// by name, so equal names get equal values. Returns false with the first difference or error. A failure to evaluate `before` is
// an error too.
bool same_results(const Module& before, const Module& after, const EquivalenceOptions&, std::string* reason);
bool same_results(const Module& before, const Module& after, uint64_t seed, double rtol, double atol, std::string* reason);

// The random inputs of same_results.
std::vector<HostValue> random_inputs(const Module&, const EquivalenceOptions&);

}  // namespace rlxc::eval
