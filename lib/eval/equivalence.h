// Do two modules compute the same? The check behind the tests of passes and --verify-each.
#pragma once
#include <string>

#include "eval/eval.h"
#include "eval/random.h"

namespace rlxc::eval {

struct EquivalenceOptions {
  uint64_t seed = 1;
  double rtol = 1e-4, atol = 1e-5;
  RandomRange range;
  Options evaluation;  // bindings: sizes of the symbols (2 where none is given)
};

// Evaluates both on the same random inputs and compares the outputs. Inputs, and Params without data, are random by name:
// equal names get equal values, in either module. False, with the first difference or error, when they differ. A module that
// cannot be evaluated before counts as an error as well.
bool same_results(const Module& before, const Module& after, const EquivalenceOptions&, std::string* reason);
bool same_results(const Module& before, const Module& after, uint64_t seed, double rtol, double atol, std::string* reason);

// The random inputs that same_results would use.
std::vector<HostValue> random_inputs(const Module&, const EquivalenceOptions&);

}  // namespace rlxc::eval
