// The interface of evaluators of single ops: operands, attributes with static dims, inferred result types, and the budget. The
// op's type rule has checked operand counts, types and dims with the actual sizes before.
#pragma once
#include <functional>
#include <set>
#include <unordered_map>

#include "eval/tensor.h"

namespace rlxc::eval {

// State of one evaluation, shared by bodies.
struct Run {
  Run(const Module& m, const Options& o)
      : module(m), options(o), bindings(o.bindings), memory(o.memory ? o.memory : std::make_shared<MemoryMeter>(o.max_bytes)) {}

  const Module& module;
  const Options& options;
  DimBindings bindings;                      // known symbols; a symbol determined by results only has the value of the latest one
  std::set<std::string, std::less<>> fixed;  // symbols determined by inputs or options
  uint64_t steps = 0;
  std::shared_ptr<MemoryMeter> memory;
  Module scratch;                                                 // types and dims of the current node, all static
  std::unordered_map<int64_t, std::vector<std::string>> symbols;  // by dim seen so far
  std::unordered_map<std::string, uint64_t> execution_of;         // by symbol: the execution of a graph that determined it last
  std::vector<uint64_t> executions;                               // of graphs in progress, the innermost last
  uint64_t next_execution = 0;

  // The first error.
  Code code = Code::BadShape;
  std::string where, error, help;
  bool fail(Code c, std::string message, std::string_view what_to_do = {}) {
    if (!error.empty()) return false;
    code = c;
    error = std::move(message);
    help = what_to_do;
    return false;
  }
};

constexpr double kNodeOperations = 1000;  // cost of a node without elements, in element operations

struct Context {
  Run& run;
  const Graph& graph;
  NodeId node;
  OpKind op;
  const Attrs& attrs;                    // dims are static
  std::span<const HostValue* const> in;  // null for absent operands
  std::span<const Type> types;           // of the results; empty for control flow and sequences
  std::vector<HostValue>& out;

  template <class A>
  const A& a() const {
    return std::get<A>(attrs);
  }
  bool has(size_t i) const { return i < in.size() && in[i] != nullptr; }
  const TensorData& t(size_t i) const { return in[i]->tensor; }
  const std::vector<int64_t>& dims(size_t i) const { return in[i]->tensor.dims; }
  int64_t size(Dim d) const { return run.scratch.dims.constant_value(d).value_or(0); }
  std::vector<int64_t> sizes(std::span<const Dim>) const;
  std::vector<int64_t> result_dims(size_t i = 0) const { return sizes(types[i].dims); }

  bool fail(std::string message) { return run.fail(Code::BadShape, std::move(message)); }
  bool unsupported(std::string message) { return run.fail(Code::UnsupportedAttribute, std::move(message)); }
  // Counts element operations. Returns false if the budget is exceeded.
  bool charge(double count) {
    const uint64_t steps = count > 1e18 ? uint64_t{1} << 60 : static_cast<uint64_t>(count);
    run.steps += steps;
    if (run.steps > run.options.max_steps)
      return run.fail(Code::TooLarge, "needs more than " + std::to_string(run.options.max_steps) + " operations on elements",
                      "--max-operations N allows more");
    if (run.options.steps) *run.options.steps += steps;
    return true;
  }
  bool charge_iteration(const Graph& body) { return charge(kNodeOperations * (1 + static_cast<double>(body.live_nodes()))); }

  // Allocates an uninitialised tensor. Returns false, with the error set, if the memory limit is exceeded.
  bool make(DType, std::vector<int64_t> dims, TensorData* out);
  bool make_result(size_t i, TensorData* out) { return make(types[i].dtype, result_dims(i), out); }
  bool put(TensorData d) {
    out.push_back({TypeKind::Tensor, std::move(d), {}});
    return true;
  }
  // Appends a result with these elements.
  template <class V>
  bool put(DType t, std::vector<int64_t> dims, const std::vector<V>& values) {
    TensorData d;
    if (!make(t, std::move(dims), &d)) return false;
    store(d, 0, d.elements(), values.data());
    return put(std::move(d));
  }
  template <class V>
  bool put_result(size_t i, const std::vector<V>& values) {
    return put(types[i].dtype, result_dims(i), values);
  }

  std::vector<double> doubles(size_t i) const { return load_all<double>(t(i)); }
  std::vector<double> optional_doubles(size_t i) const { return has(i) ? doubles(i) : std::vector<double>(); }
  std::vector<int64_t> ints(size_t i) const;
};

using Evaluator = bool (*)(Context&);
struct Entry {
  OpKind op;
  Evaluator run;
};

// Evaluators by family.
std::span<const Entry> movement_evaluators();
std::span<const Entry> scatter_evaluators();
std::span<const Entry> linear_evaluators();
std::span<const Entry> reduce_evaluators();
std::span<const Entry> norm_evaluators();
std::span<const Entry> attention_evaluators();
std::span<const Entry> conv_evaluators();
std::span<const Entry> pool_evaluators();
std::span<const Entry> recurrent_evaluators();
std::span<const Entry> quant_evaluators();
std::span<const Entry> fft_evaluators();
std::span<const Entry> resize_evaluators();
std::span<const Entry> fused_evaluators();
std::span<const Entry> hir_evaluators();
std::span<const Entry> control_evaluators();
std::span<const Entry> sequence_evaluators();
std::span<const Entry> dynamic_evaluators();
std::span<const Entry> string_evaluators();
std::span<const Entry> map_evaluators();
bool eval_elementwise(Context&);  // every kind with a definition in ops/elementwise.h
bool eval_cast(Context&);
bool eval_where(Context&);
bool eval_region(Context&);
bool eval_concat_region(Context&);
bool eval_norm_region(Context&);
bool eval_reduce_region(Context&);
// Puts the value of the last step and of those of `also`; `cores`: values of the first steps.
bool put_steps_after(Context&, std::span<const RegionStep>, std::span<const int64_t> also, std::vector<TensorData> cores);
// Puts the result of a q_attention: `sums` of q and k, and product() of the probabilities and v.
bool put_attention(Context&, TensorData sums, const std::function<bool(const TensorData& left, TensorData* sums)>& product);

// Fails if two dims have known, different values.
bool sizes_agree(Run&, Dim, Dim);
// Runs a graph (main or body) on its inputs. Defined in evaluate.cpp, used by control flow.
bool run_graph(Run&, const Graph&, std::vector<HostValue> inputs, std::vector<HostValue>* outputs);

// Number of elements before, on and after an axis.
struct Split {
  int64_t outer = 1, n = 1, inner = 1;
};
Split split_at(std::span<const int64_t> dims, int64_t axis);

}  // namespace rlxc::eval
