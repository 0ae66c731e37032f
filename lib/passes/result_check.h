// Checks that a pass preserves the results of a module: evaluates it on fixed random inputs before and after.
#pragma once
#include <string>
#include <vector>

#include "eval/eval.h"
#include "passes/pass.h"

namespace rlxc {

class ResultCheck {
 public:
  // Evaluates the module before the first pass with the reference evaluator. Integers are 0 to 3, or all 0 if these do not fit
  // (indices into a short axis).
  ResultCheck(const Module&, uint64_t seed);

  // Reason why the module cannot be evaluated or its results cannot be compared, or empty.
  const std::string& not_comparable() const { return not_comparable_; }

  // The difference since the last call, or empty. Tolerance: 1e-4 of the largest value of the output. Modules that compute in f16
  // or bf16 or on quantized values need a cosine similarity of 0.999, and of 0.98 after passes of the groups precision and
  // quantize. Passes of the group interface change input and output types: their results become the new baseline.
  std::string difference(const Module&, const PassInfo&);

 private:
  std::optional<std::vector<eval::HostValue>> evaluate(const Module&, std::string* reason);

  uint64_t seed_;
  int64_t largest_int_ = 3;
  eval::NamedValues weights_;  // of the last evaluation
  std::vector<eval::HostValue> last_;
  std::string not_comparable_;
};

}  // namespace rlxc
