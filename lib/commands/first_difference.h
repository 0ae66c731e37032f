// Where results begin to differ: the first value of the compiled model, in the order of execution, that is not what the model
// computes before any pass, and whose difference reaches an output. Rewrites keep a name for a value of another layout, and
// change values without a change of results (a constant that softmax cancels): neither is a difference.
#pragma once
#include <optional>
#include <string>

#include "commands/tolerances.h"
#include "runtime/data_set.h"

namespace rlxc {

struct FirstDifference {
  ForeignText value;
  std::string op;              // the kind of the node that computes it
  std::vector<int64_t> index;  // of the first element that differs
  double got = 0, expected = 0;
  size_t agreeing = 0;  // values before it that agree
};

// A value of the reference run.
struct ReferenceValue {
  std::vector<int64_t> dims;
  std::vector<double> numbers;
};
enum class ValueVerdict : uint8_t { Agrees, Differs, OtherLayout };  // OtherLayout: other dims, or the same numbers elsewhere
ValueVerdict compare_value(const eval::HostValue& got, const ReferenceValue&, const eval::Tolerance&, int64_t* first);

// Compiles again with each value that has a name in the model as an output, and compares with the reference evaluator, within the
// tolerance of the outputs. nullopt where none differs, where the inputs are not tensors, or where the model does not run in that
// form. O(two runs); values of the
// reference run beyond 1 GiB are not kept.
std::optional<FirstDifference> first_difference(const CompileOptions&, const RunRequest&, const DataSet&, const eval::Tolerance&);

std::string text(const FirstDifference&);

}  // namespace rlxc
