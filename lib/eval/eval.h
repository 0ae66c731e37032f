// The reference evaluator, which defines correct results. Slow and simple: floats are computed in double (f32 results rounded
// once per op), integers exactly. Used for folding, calibration, `run --engine=reference` and all tests.
#pragma once
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::eval {

// A run-time value: a tensor, a map, or a sequence or optional of these.
struct HostValue {
  TypeKind kind = TypeKind::Tensor;
  TensorData tensor;
  // Sequence: elements. Optional: one, or none if empty. Map: keys [n] in ascending order, and values [n].
  std::vector<HostValue> items;
};

using NamedValues = std::map<std::string, HostValue, std::less<>>;

// Counts the memory of live tensors, and of what is held with them, against a limit. Evaluations may share one.
class MemoryMeter {
 public:
  explicit MemoryMeter(uint64_t limit) : limit_(limit) {}
  uint64_t limit() const { return limit_; }
  bool has_room(uint64_t bytes) const { return bytes <= limit_ - std::min(limit_, live_.load()); }
  // Counts bytes that are taken elsewhere, for as long as the result lives. Null beyond the limit.
  static std::shared_ptr<void> hold(const std::shared_ptr<MemoryMeter>&, uint64_t bytes);
  // Allocates an uninitialised tensor with valid dims. Nullopt beyond the limit.
  static std::optional<TensorData> allocate(const std::shared_ptr<MemoryMeter>&, DType, std::vector<int64_t> dims);

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> live_ = 0;
};

struct Options {
  DimBindings bindings = {};                 // symbols that inputs do not determine
  uint64_t max_steps = uint64_t{1} << 33;    // element operations in total; Code::TooLarge beyond
  uint64_t max_bytes = uint64_t{7} << 29;    // limit on live tensors, and on what evaluating a node takes besides
  std::shared_ptr<MemoryMeter> memory = {};  // shared with other evaluations, instead of max_bytes
  uint64_t* steps = nullptr;                 // counter to which element operations are added
  const NamedValues* params = nullptr;       // Params without data, by name
  bool check_data_dependent_dims = true;     // those that the model requires to be equal to another
  // Called with each computed result (calibration, first diverging node).
  std::function<void(const Graph&, ValueId, const HostValue&)> observe = {};
};

// Evaluates the main graph. `inputs` are in the order of graph.inputs(); their shapes bind the symbols, and contradictions, also
// of recorded equalities, are errors that name the input or node. Params need data or an entry in `params`. Applies every type
// rule again with actual sizes; a result that differs from its declared type is an error.
std::optional<std::vector<HostValue>> evaluate(const Module&, std::span<const HostValue> inputs, Diagnostics&,
                                               const Options& = {});

// Evaluates one node on given operands (null for absent ones), for constant folding. Returns false with a message if it cannot be
// evaluated (unsupported, or beyond the limits of `options`).
bool evaluate_node(const Module&, const Graph&, NodeId, std::span<const HostValue* const> operands,
                   std::vector<HostValue>* results, std::string* message, const Options& = {});

// Returns whether there is an evaluator for this kind.
bool has_evaluator(OpKind);

// Compares results: |a-b| <= atol + rtol*|expected|, NaN equals NaN, infinities must agree; integers and bools exactly.
struct Comparison {
  bool pass = false;
  double max_abs = 0, max_rel = 0, cosine = 1;
  int64_t mismatches = 0, first_mismatch = -1;
  std::string message;  // "element type f32, expected i64", "shape ...", or empty
};
Comparison compare(const HostValue& actual, const HostValue& expected, double rtol, double atol);

}  // namespace rlxc::eval
