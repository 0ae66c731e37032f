// The reference evaluator: the definition of what a graph computes. Slow and plain; floats are computed in double (f32 results
// rounded once per operation), integers exactly. It serves folding, calibration, `run --engine=reference` and every test.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::eval {

// A value at run time: a tensor, a map, or a sequence or optional of them.
struct HostValue {
  TypeKind kind = TypeKind::Tensor;
  TensorData tensor;
  // Of a sequence; of an optional: one, or none when empty; of a map: the keys [n] in ascending order, and their values [n].
  std::vector<HostValue> items;
};

using NamedValues = std::map<std::string, HostValue, std::less<>>;

struct Options {
  DimBindings bindings;                    // symbols that the inputs do not determine
  uint64_t max_steps = uint64_t{1} << 33;  // element operations, over all loops: beyond is Code::TooLarge
  uint64_t max_bytes = uint64_t{8} << 30;  // of live tensors
  uint64_t* steps = nullptr;               // where the element operations are added
  const NamedValues* params = nullptr;     // Params without data, by name
  // Called with each result as it is computed (calibration, first diverging node).
  std::function<void(const Graph&, ValueId, const HostValue&)> observe;
};

// Evaluates the main graph. `inputs` are in the order of graph.inputs(); their shapes bind the symbols (a contradiction, also of
// a recorded equality, is an error that names the input). Params must have data, or be given by name in `params`. Every type rule
// is applied again at the real sizes; a result that differs from its declared type is an error.
std::optional<std::vector<HostValue>> evaluate(const Module&, std::span<const HostValue> inputs, Diagnostics&,
                                               const Options& = {});

// Evaluates one node on known operands (null for absent ones). Used by constant folding. False with a message when the node
// cannot be evaluated (unsupported, or beyond `options`).
bool evaluate_node(const Module&, const Graph&, NodeId, std::span<const HostValue* const> operands,
                   std::vector<HostValue>* results, std::string* message, const Options& = {});

// Is there an evaluator for this kind?
bool has_evaluator(OpKind);

// Comparison of results: |a-b| <= atol + rtol*|expected|, NaN equals NaN, infinities must agree; integers and bools exact.
struct Comparison {
  bool pass = false;
  double max_abs = 0, max_rel = 0, cosine = 1;
  int64_t mismatches = 0, first_mismatch = -1;
  std::string message;  // "element type f32, expected i64", "shape ...", or empty
};
Comparison compare(const HostValue& actual, const HostValue& expected, double rtol, double atol);

}  // namespace rlxc::eval
