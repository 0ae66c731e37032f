// The evaluation loop: binds symbols, runs nodes in order, frees values after their last use, and enforces the budget.
#include <algorithm>
#include <array>

#include "eval/collective.h"
#include "eval/context.h"
#include "eval/value.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"
#include "ir/infer.h"
#include "ir/size_message.h"
#include "ops/elementwise.h"
#include "support/checked.h"
#include "support/progress.h"

namespace rlxc::eval {
namespace {

constexpr int kMaxBodyDepth = 64;  // of nested bodies

bool eval_constant(Context& c) {
  const DataId id = c.a<DataAttrs>().data;
  if (!id.valid()) return c.fail("has no data");
  return c.put(c.run.module.data[id]);
}

bool eval_dim_value(Context& c) {
  std::vector<Int> values;
  for (Dim d : c.a<DimsAttrs>().dims) values.push_back(c.size(d));
  return c.put_result(0, values);
}

// The memory that a node takes besides its operands and results.
enum class Working : uint8_t {
  Blocks,   // of a fixed size
  Results,  // results as numbers of 8 bytes
  First,    // operand 0 and the results as such numbers
  All,      // all operands and the results as such numbers
  Tables    // a number for each position of each axis
};

struct OpEvaluator {
  Evaluator run = nullptr;
  Working working = Working::Blocks;
};

const std::array<OpEvaluator, kOpCount>& evaluators() {
  static const auto table = [] {
    std::array<OpEvaluator, kOpCount> t{};
    for (int k = 0; k < kOpCount; ++k)
      if (ops::has_meaning(static_cast<OpKind>(k))) t[static_cast<size_t>(k)].run = eval_elementwise;
    const auto add = [&](Working working, std::span<const Entry> family) {
      for (const Entry& e : family) t[static_cast<size_t>(e.op)] = {e.run, working};
    };
    const Entry core[] = {{OpKind::Constant, eval_constant},
                          {OpKind::DimValue, eval_dim_value},
                          {OpKind::Cast, eval_cast},
                          {OpKind::Where, eval_where},
                          {OpKind::ElementwiseRegion, eval_region},
                          {OpKind::ConcatRegion, eval_concat_region},
                          {OpKind::NormRegion, eval_norm_region},
                          {OpKind::ReduceRegion, eval_reduce_region}};
    for (auto family : {std::span<const Entry>(core), scatter_evaluators(), control_evaluators(), sequence_evaluators(),
                        string_evaluators(), map_evaluators()})
      add(Working::Blocks, family);
    add(Working::Tables, movement_evaluators());
    for (auto family : {linear_evaluators(), fused_evaluators()}) add(Working::First, family);
    for (auto family : {reduce_evaluators(), norm_evaluators(), attention_evaluators(), conv_evaluators(), pool_evaluators(),
                        recurrent_evaluators(), quant_evaluators(), fft_evaluators(), resize_evaluators(), hir_evaluators(),
                        dynamic_evaluators()})
      add(Working::All, family);
    for (OpKind op : {OpKind::Expand, OpKind::Reshape, OpKind::BitCast, OpKind::ReshapeTo, OpKind::Concat})
      t[static_cast<size_t>(op)].working = Working::Blocks;
    for (OpKind op : {OpKind::Reduce, OpKind::Iota, OpKind::Random}) t[static_cast<size_t>(op)].working = Working::Results;
    return t;
  }();
  return table;
}

// The bytes of Working for these operands and results.
double working_bytes(Working working, std::span<const HostValue* const> operands, std::span<const Type> results) {
  constexpr double kNumber = 8;
  double count = 0;
  if (working == Working::Blocks) return 0;
  const bool is_table = working == Working::Tables;
  const size_t read = working == Working::All       ? operands.size()
                      : working == Working::Results ? 0
                                                    : std::min<size_t>(operands.size(), 1);
  for (const HostValue* v : operands.first(read)) {
    if (!v) continue;
    if (!is_table) count += static_cast<double>(v->tensor.elements());
    for (int64_t n : v->tensor.dims) count += is_table ? static_cast<double>(n) : 0;
  }
  for (const Type& t : results) {
    if (!is_table) count += static_cast<double>(num_elements(t).value_or(0));
    for (Dim d : t.dims) count += is_table && d.is_static() ? static_cast<double>(d.size()) : 0;
  }
  return kNumber * count;
}

template <class A, class F>
void for_each_dim(A& attrs, F f) {
  std::visit(
      [&](auto& a) {
        a.reflect(a, [&](std::string_view, auto& field) {
          using Field = std::remove_cvref_t<decltype(field)>;
          if constexpr (std::is_same_v<Field, Dim>) f(field);
          if constexpr (std::is_same_v<Field, std::vector<Dim>>)
            for (auto& d : field) f(d);
        });
      },
      attrs);
}

// Binds all dims of `attrs`, as constants of the scratch module. Returns false if a symbol is not bound.
bool bind_attrs(Run& run, const Attrs& attrs, Attrs* bound, const Attrs** use) {
  bool all_static = true;
  for_each_dim(attrs, [&](Dim d) { all_static &= d.is_static(); });
  *use = all_static ? &attrs : bound;
  if (all_static) return true;
  *bound = attrs;
  bool ok = true;
  for_each_dim(*bound, [&](Dim& d) {
    const auto v = d.is_static() ? d.size() : run.module.dims.evaluate(d, run.bindings);
    if (!v) ok = run.fail(Code::UnboundDim, "size " + run.module.dims.text(d) + " is not known");
    else d = run.scratch.dims.constant(*v);
  });
  return ok;
}

const std::vector<std::string>& symbols_of(Run& run, Dim d) {
  const auto [it, fresh] = run.symbols.try_emplace(d.raw());
  if (fresh) it->second = run.module.dims.symbols_of(d);
  return it->second;
}

std::string declared(Run& run, const HostValue& v, const Type& t) {
  return "computed " + show(v.tensor.dtype, v.tensor.dims) + ", declared " + text(t, run.module.dims);
}

// Checks a value against its declared type and binds symbols that it determines, permanently if `fix`.
bool bind_type(Run& run, const Type& t, const HostValue& v, bool fix) {
  if (v.kind != t.kind) return run.fail(Code::BadType, "is not of the kind " + text(t, run.module.dims));
  if (t.kind == TypeKind::Map && !(is_map(v) && type_of(v) == t))
    return run.fail(Code::BadType, "is not of the type " + text(t, run.module.dims));
  if (t.kind != TypeKind::Tensor) return true;
  const auto& actual = v.tensor.dims;
  if (v.tensor.dtype != t.dtype) return run.fail(Code::BadType, declared(run, v, t));
  if (t.ranked && actual.size() != t.dims.size()) return run.fail(Code::BadShape, declared(run, v, t));
  for (size_t i = 0; i < t.dims.size(); ++i) {
    const Dim d = t.dims[i];
    if (d.is_static() ? d.size() != actual[i] : false) return run.fail(Code::BadShape, declared(run, v, t));
    if (d.is_static()) continue;
    const auto& symbols = symbols_of(run, d);
    if (symbols.size() == 1 && !run.fixed.contains(symbols[0]) && symbol_name(run.module.dims, d)) {
      run.bindings[symbols[0]] = actual[i];
      if (fix) run.fixed.insert(symbols[0]);
      else if (!run.executions.empty()) run.execution_of[symbols[0]] = run.executions.back();
      continue;
    }
    for (const auto& s : symbols)
      if (!run.fixed.contains(s)) goto next;
    if (const auto size = run.module.dims.evaluate(d, run.bindings); size && *size != actual[i])
      return run.fail(Code::BadShape, declared(run, v, t) + ", where " + run.module.dims.text(d) + " = " + std::to_string(*size));
  next:;
  }
  return true;
}

bool too_large(Run& run) {
  return run.fail(Code::TooLarge,
                  "the memory that it takes exceeds the limit of " + std::to_string(run.memory->limit()) + " bytes",
                  "--max-memory BYTES allows more");
}

bool compute(Run& run, const Graph& g, NodeId n, std::span<const HostValue* const> operands, std::vector<HostValue>* results) {
  note_node(run.module.bytes(g.node_name(n)));
  const OpKind op = g.op(n);
  const auto [f, how] = evaluators()[static_cast<size_t>(op)];
  if (!f) return run.fail(Code::UnsupportedOp, "cannot be evaluated");
  Attrs bound;
  const Attrs* attrs = &run.module.attrs[g.attr_id(n)];  // conditions of an If may use symbols that only its branch defines
  if (op != OpKind::If && !bind_attrs(run, *attrs, &bound, &attrs)) return false;
  std::vector<Type> types;
  bool tensors = true;
  for (const HostValue* v : operands) tensors &= !v || v->kind == TypeKind::Tensor;
  for (size_t i = 0; i < g.result_count(n); ++i) tensors &= g.type(g.result(n, i)).kind == TypeKind::Tensor;
  if (!has_trait(op, kBody | kLeaf) && (tensors || !has_trait(op, kSequenceOp))) {
    std::vector<Type> in(operands.size());
    std::vector<const Type*> pointers(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i]) continue;
      const TensorData& d = operands[i]->tensor;
      if (operands[i]->kind != TypeKind::Tensor)
        return run.fail(Code::BadType, "operand " + std::to_string(i) + " must be a tensor");
      in[i] = tensor_type(d.dtype, {d.dims.begin(), d.dims.end()});
      pointers[i] = &in[i];
    }
    std::string message;
    auto inferred = infer(run.scratch, op, *attrs, pointers, {}, &message);
    if (!inferred) return run.fail(Code::BadShape, message);
    types = std::move(*inferred);
    // Also for results without elements: tables along an axis have its length.
    for (const Type& t : types) {
      double size = static_cast<double>(bits(t.dtype)) / 8;
      for (Dim d : t.dims) size *= d.is_static() ? static_cast<double>(std::max<int64_t>(d.size(), 1)) : 1;
      if (size > static_cast<double>(run.memory->limit())) return too_large(run);
    }
  }
  // Asked for before it is taken. What is beyond counts as too large.
  const double working = working_bytes(how, operands, types);
  const auto held = working < 0x1p62 ? MemoryMeter::hold(run.memory, static_cast<uint64_t>(working)) : nullptr;
  if (!held) return too_large(run);
  Context c{run, g, n, op, *attrs, operands, types, *results};
  const bool ok = f(c);
  if (!ok) return run.fail(Code::BadShape, "failed");
  for (size_t i = 0; i < results->size(); ++i)
    if (!bind_type(run, g.type(g.result(n, i)), (*results)[i], false)) return false;
  return true;
}

bool well_formed(const HostValue& v) {
  if (v.kind == TypeKind::Map && !is_map(v)) return false;
  if (v.kind != TypeKind::Tensor) {
    for (const auto& item : v.items)
      if (!well_formed(item)) return false;
    return true;
  }
  const TensorData& d = v.tensor;
  const auto n = checked_product(d.dims);
  if (!n) return false;
  const auto stored = d.splat ? std::min<int64_t>(*n, 1) : *n;
  if (d.dtype == DType::String) return d.strings.size() == static_cast<uint64_t>(stored);
  const auto bytes = byte_size(d.dtype, static_cast<uint64_t>(stored));
  return bytes && d.bytes.size() >= *bytes;
}

bool param_value(Run& run, const Graph& g, NodeId n, HostValue* out) {
  const DataId id = g.attrs<DataAttrs>(n).data;
  const auto name = run.module.bytes(g.value_name(g.result(n)));
  if (id.valid()) out->tensor = run.module.data[id];
  else if (run.options.params) {
    const auto it = run.options.params->find(name);
    if (it == run.options.params->end()) return run.fail(Code::MissingWeights, "parameter has no data");
    *out = it->second;
  } else return run.fail(Code::MissingWeights, "parameter has no data");
  if (!well_formed(*out)) return run.fail(Code::BadTensor, "the data does not fill the tensor");
  return bind_type(run, g.type(g.result(n)), *out, false);
}

}  // namespace

bool sizes_agree(Run& run, Dim a, Dim b) {
  const DimTable& t = run.module.dims;
  const auto x = t.evaluate(a, run.bindings), y = t.evaluate(b, run.bindings);
  if (!x || !y || *x == *y) return true;
  if (run.where.empty()) run.where = refusing_node(run.module, run.bindings);
  return run.fail(Code::BadBinding, unequal_sizes(t, a, b, *x, *y));
}

// Solves symbols that occur only inside expressions, then checks all dims of inputs with uses.
bool solve_inputs(Run& run, const Graph& g, const std::vector<std::vector<HostValue>>& values) {
  std::vector<ValueId> read;
  std::vector<KnownSize> sizes;
  for (NodeId n : g.inputs())
    if (const ValueId v = g.result(n); g.use_count(v) > 0) {
      read.push_back(v);
      add_sizes(g.type(v), values[v.raw][0].tensor.dims, &sizes);
    }
  solve_dims(run.module.dims, sizes, &run.bindings);
  for (const auto& [symbol, size] : run.bindings) run.fixed.insert(symbol);
  if (const std::string missing = undetermined_size(run.module.dims, sizes, run.bindings); !missing.empty())
    return run.fail(Code::UnboundDim, missing);
  for (ValueId v : read)
    if (!bind_type(run, g.type(v), values[v.raw][0], true)) {
      run.where = "input " + run.module.text(g.value_name(v)).quoted();
      return false;
    }
  return true;
}

namespace {

// A value by rank of the device, or one for all devices.
using PerDevice = std::vector<HostValue>;

// Computes a node for each device whose operands differ. `results`: by result.
bool compute_per_device(Run& run, const Graph& g, NodeId n, const std::vector<PerDevice>& values,
                        std::vector<PerDevice>* results) {
  results->assign(g.result_count(n), {});
  size_t devices = 1;
  for (ValueId v : g.operands(n))
    if (v.valid()) devices = std::max(devices, values[v.raw].size());
  std::vector<const HostValue*> operands;
  std::vector<HostValue> computed;
  for (size_t rank = 0; rank < devices; ++rank) {
    computed.clear();
    operands.clear();
    for (ValueId v : g.operands(n))
      operands.push_back(v.valid() ? &values[v.raw][values[v.raw].size() == 1 ? 0 : rank] : nullptr);
    const bool ok =
        g.op(n) == OpKind::Param ? param_value(run, g, n, &computed.emplace_back()) : compute(run, g, n, operands, &computed);
    if (!ok) return false;
    for (size_t i = 0; i < computed.size(); ++i) (*results)[i].push_back(std::move(computed[i]));
  }
  return true;
}

bool exchange(Run& run, const Graph& g, NodeId n, const std::vector<PerDevice>& values, std::vector<PerDevice>* results) {
  if (run.executions.size() > 1) return run.fail(Code::UnsupportedOp, "cannot be evaluated in a body of control flow");
  static const PerDevice none;
  const ValueId v = g.operand(n, 0);
  const PerDevice& operand = v.valid() ? values[v.raw] : none;
  results->assign(1, {});
  if (!eval_collective(run, g, n, operand, results->data())) return false;
  return std::ranges::all_of(results->front(), [&](const HostValue& r) { return bind_type(run, g.type(g.result(n)), r, false); });
}

// The output of a program is the same on all devices.
bool same_on_all(Run& run, const Graph& g, size_t output, const PerDevice& value) {
  for (size_t rank = 1; rank < value.size(); ++rank)
    if (!compare(value[rank], value[0], 0, 0).pass) {
      run.where = "output " + run.module.text(g.output_name(output)).quoted();
      return run.fail(Code::BadGraph, "differs between device 0 and device " + std::to_string(rank));
    }
  return true;
}

// Checks the equalities that depend on a data-dependent dim of this execution of a graph, when its nodes have been evaluated.
// Those with a dim of a body that has ended are left out: other iterations and branches have dims of their own.
bool data_dependent_sizes_agree(Run& run) {
  const uint64_t here = run.executions.back();
  for (const auto& [a, b] : run.module.dims.equalities()) {
    bool own = false, known = true;
    for (Dim d : {a, b})
      for (const std::string& s : symbols_of(run, d)) {
        if (run.fixed.contains(s)) continue;
        const auto it = run.execution_of.find(s);
        known &= it != run.execution_of.end() && std::ranges::count(run.executions, it->second) > 0;
        own |= known && it->second == here;
      }
    if (own && known && !sizes_agree(run, a, b)) return false;
  }
  return true;
}

}  // namespace

bool run_graph(Run& run, const Graph& g, std::vector<HostValue> inputs, std::vector<HostValue>* outputs) {
  if (inputs.size() != g.inputs().size())
    return run.fail(Code::BadArity,
                    "takes " + std::to_string(g.inputs().size()) + " inputs, got " + std::to_string(inputs.size()));
  run.executions.push_back(run.next_execution++);
  if (run.executions.size() > kMaxBodyDepth)
    return run.fail(Code::TooLarge, "bodies are nested more than " + std::to_string(kMaxBodyDepth) + " deep");
  const bool is_main = run.executions.size() == 1;
  std::vector<PerDevice> values(g.value_capacity());
  std::vector<uint32_t> uses(g.value_capacity());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId v = g.result(g.inputs()[i]);
    const bool unread = g.use_count(v) == 0;  // unused inputs may have wrong sizes
    const bool bound = bind_type(run, g.type(v), inputs[i], is_main);
    if (!bound && unread) run.error.clear();
    if (!well_formed(inputs[i]) || (!bound && !unread)) {
      if (run.where.empty()) run.where = "input " + run.module.text(g.value_name(v)).quoted();
      return run.fail(Code::BadTensor, "the data does not fill the tensor");
    }
    values[v.raw].push_back(std::move(inputs[i]));
    uses[v.raw] = static_cast<uint32_t>(g.use_count(v));
    if (run.options.observe) run.options.observe(g, v, values[v.raw][0]);
  }
  if (is_main) {
    if (!solve_inputs(run, g, values)) return false;
    for (const auto& [a, b] : run.module.dims.equalities())
      if (!sizes_agree(run, a, b)) return false;
  }
  std::vector<PerDevice> results;
  for (NodeId n : g.nodes()) {
    if (g.op(n) == OpKind::Input) continue;
    const bool ok =
        has_trait(g.op(n), kCollective) ? exchange(run, g, n, values, &results) : compute_per_device(run, g, n, values, &results);
    if (!ok) {
      if (run.where.empty()) run.where = "node " + g.label(n).quoted() + " (" + std::string(name(g.op(n))) + ")";
      return false;
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId v = g.result(n, i);
      uses[v.raw] = static_cast<uint32_t>(g.use_count(v));
      if (run.options.observe) run.options.observe(g, v, results[i][0]);
      if (uses[v.raw] > 0) values[v.raw] = std::move(results[i]);
    }
    for (ValueId v : g.operands(n))
      if (v.valid() && --uses[v.raw] == 0) values[v.raw].clear();
  }
  if (run.options.check_data_dependent_dims && !data_dependent_sizes_agree(run)) return false;
  outputs->clear();
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    if (v.valid() && !same_on_all(run, g, i, values[v.raw])) return false;
    outputs->push_back(v.valid() ? values[v.raw][0] : HostValue());
  }
  run.executions.pop_back();
  return true;
}

std::optional<std::vector<HostValue>> evaluate(const Module& m, std::span<const HostValue> inputs, Diagnostics& diagnostics,
                                               const Options& options) {
  Run run(m, options);
  for (const auto& [name, size] : options.bindings) run.fixed.insert(name);
  std::vector<HostValue> outputs;
  if (run_graph(run, m.main(), {inputs.begin(), inputs.end()}, &outputs)) return outputs;
  diagnostics.error(run.code, run.error, run.where, run.help);
  return std::nullopt;
}

bool evaluate_node(const Module& m, const Graph& g, NodeId n, std::span<const HostValue* const> operands,
                   std::vector<HostValue>* results, std::string* message, const Options& options) {
  Run run(m, options);
  results->clear();
  const bool ok =
      g.op(n) == OpKind::Param ? param_value(run, g, n, &results->emplace_back()) : compute(run, g, n, operands, results);
  if (!ok) *message = run.error;
  return ok;
}

bool has_evaluator(OpKind op) {
  return op == OpKind::Input || op == OpKind::Param || has_trait(op, kCollective) ||
         evaluators()[static_cast<size_t>(op)].run != nullptr;
}

std::vector<int64_t> Context::sizes(std::span<const Dim> dims) const {
  std::vector<int64_t> out;
  for (Dim d : dims) out.push_back(size(d));
  return out;
}

bool Context::make(DType t, std::vector<int64_t> dims, TensorData* out) {
  auto d = MemoryMeter::allocate(run.memory, t, std::move(dims));
  if (!d) return too_large(run);
  *out = std::move(*d);
  return true;
}

std::vector<int64_t> Context::ints(size_t i) const {
  const auto values = load_all<Int>(t(i));
  std::vector<int64_t> out;
  for (Int v : values) out.push_back(v.v);
  return out;
}

Split split_at(std::span<const int64_t> dims, int64_t axis) {
  const auto k = static_cast<size_t>(axis);
  return {product(dims.first(k)), dims[k], product(dims.subspan(k + 1))};
}

}  // namespace rlxc::eval
