// Does a pass keep what the module computes? The module is evaluated on random inputs, the same every time, and compared with
// what it computed before.
#pragma once
#include <string>
#include <vector>

#include "eval/eval.h"
#include "passes/pass.h"

namespace rlxc {

class ResultCheck {
 public:
  // Evaluates the module as it is before the first pass. Costs what the reference evaluator costs. Integers are 0 to 3, or all 0
  // where these do not fit (indices into a short axis).
  ResultCheck(const Module&, uint64_t seed);

  // Why the module cannot be evaluated, or its results tell nothing (then nothing is compared), or empty.
  const std::string& not_comparable() const { return not_comparable_; }

  // What is different since the last call, or empty. The largest difference may be 1e-4 of the largest value of the output. Where
  // the module computes in f16 or bf16 or on quantised values, rounding differs more: the cosine similarity must be 0.999, and
  // 0.98 after the passes of the groups precision and quantise themselves. Passes of the group interface change the types of
  // inputs and outputs: what follows is compared with what they leave.
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
