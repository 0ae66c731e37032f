#include "fuzz/differential.h"

#include <algorithm>
#include <cmath>

#include "driver/compile.h"
#include "driver/load.h"
#include "eval/equivalence.h"
#include "eval/random_weights.h"
#include "eval/value.h"
#include "ir/graphs.h"
#include "runtime/interpret_package.h"

namespace rlxc {
namespace {

constexpr double kTolerance = 1e-2, kLargest = 1e4, kLeastCosine = 0.99;
constexpr uint64_t kOperations = 1 << 20;

// Returns whether kernels and the evaluator must agree: numeric tensors only, no random numbers.
bool is_comparable(const Module& m) {
  bool all = true;
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) {
      all &= g.op(n) != OpKind::Random;
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const Type& t = g.type(g.result(n, r));
        all &= t.kind == TypeKind::Tensor && t.dtype != DType::String && !is_complex(t.dtype);
      }
    }
  }
  return all;
}

bool lacks_data(const Module& m) {
  for (GraphId id : graphs_in_use(m))
    for (const Graph& g = m.graph(id); NodeId n : g.nodes())
      if (g.op(n) == OpKind::Param && !g.attrs<DataAttrs>(n).data.valid()) return true;
  return false;
}

bool is_tame(const eval::HostValue& v) {
  const std::vector<double> numbers = eval::numbers(v);
  return std::ranges::all_of(numbers, [](double x) { return std::fabs(x) <= kLargest; });
}

std::string compare(std::string_view what, const std::vector<eval::HostValue>& actual,
                    const std::vector<eval::HostValue>& expected) {
  if (actual.size() != expected.size()) return std::string(what) + ": another number of results";
  for (size_t i = 0; i < actual.size(); ++i) {
    const eval::Comparison c = eval::compare(actual[i], expected[i], kTolerance, kTolerance);
    // Rounding may flip an integer or a condition.
    const bool comparable = c.message.empty() || c.first_mismatch >= 0;
    if (comparable && (c.pass || !is_float(expected[i].tensor.dtype) || c.cosine >= kLeastCosine)) continue;
    return std::string(what) + ": output " + std::to_string(i) + ": " + c.message + ", cosine " + std::to_string(c.cosine);
  }
  return {};
}

}  // namespace

std::string first_difference(const CompileOptions& o) {
  Diagnostics d;
  auto model = load_model(o, d);
  if (!model || !is_comparable(*model->module)) return {};
  eval::EquivalenceOptions random;
  random.evaluation.max_steps = kOperations;
  random.evaluation.max_bytes = 1 << 26;
  if (!eval::random_inputs_fit(*model->module, random.evaluation, d)) return {};
  const auto params = eval::random_weights(*model->module, {}, random.seed, random.range);
  random.evaluation.params = &params;
  const auto inputs = eval::random_inputs(*model->module, random);
  const auto expected = eval::evaluate(*model->module, inputs, d, random.evaluation);
  if (!expected || !std::ranges::all_of(*expected, is_tame)) return {};

  CompileOptions f32 = o;
  f32.precision_name = "f32";
  const auto compiled = compile(std::move(*model), "cpu", f32, {}, d);
  if (!compiled) return {};
  random.evaluation.max_steps *= 16;  // fused ops count more
  Diagnostics after;
  const auto optimised = eval::evaluate(*compiled->lir.module, inputs, after, random.evaluation);
  if (!optimised) return after.exit() == ExitCode::Limit ? "" : "after the passes: " + after.text();
  if (std::string reason = compare("after the passes", *optimised, *expected); !reason.empty()) return reason;

  if (lacks_data(*compiled->lir.module)) return {};  // kernels need the weights' data
  Diagnostics of_kernels;
  const auto runner = make_interpreting_runner(compiled->lir, "cpu", of_kernels, kOperations * 1000);
  const auto results = runner ? runner->run(inputs, of_kernels) : std::nullopt;
  if (results) return compare("kernels", *results, *expected);
  for (const Diagnostic& item : of_kernels.items())
    if (item.message.starts_with("kernel ") && item.message.find("stopped after") == std::string::npos &&
        item.message.find("cannot be interpreted") == std::string::npos)  // a kernel of an operation file
      return item.message;
  return {};
}

}  // namespace rlxc
