#include "commands/host_steps.h"

#include <algorithm>
#include <map>
#include <set>

#include "codegen/lower.h"
#include "commands/built_model.h"
#include "commands/part.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/transform_stage.h"
#include "eval/value.h"
#include "ir/bind_dims.h"
#include "passes/legalise/decompositions.h"
#include "support/text.h"

namespace rlxc {
namespace {

bool is_numeric(const Graph& g, ValueId v) {
  return !v.valid() || (g.type(v).kind == TypeKind::Tensor && g.dtype(v) != DType::String);
}

// Whether no kernels compute the node, or a node of its bodies.
bool needs_host(const Graph& g, NodeId n) {
  for (ValueId v : g.operands(n))
    if (!is_numeric(g, v)) return true;
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (!is_numeric(g, g.result(n, r))) return true;
  const OpKind op = g.op(n);
  if (!has_trait(op, kBody | kLeaf | kTerminator | kFused | kHir | kCollective))
    return !codegen::has_lowering(op) && !legalise::decomposition(op);
  for (GraphId id : g.bodies(n)) {
    const Graph& body = g.module().graph(id);
    for (NodeId inner : body.nodes())
      if (!has_trait(body.op(inner), kLeaf) && needs_host(body, inner)) return true;
  }
  return false;
}

struct Step {
  bool host = false;
  size_t nodes = 0;
  std::vector<ValueId> in, out;
};

// Steps alternate between kernels and the host. A node is in the first step behind those of its operands.
std::vector<Step> divide(const Module& m) {
  const Graph& g = m.main();
  std::vector<size_t> step_of(g.node_capacity(), 0);
  std::vector<Step> steps;
  for (NodeId n : g.nodes()) {
    if (has_trait(g.op(n), kLeaf)) continue;
    const bool host = needs_host(g, n);
    size_t at = host ? 1 : 0;  // odd ones are the host's
    for (ValueId v : g.operands(n))
      if (v.valid() && !has_trait(g.op(g.def(v)), kLeaf)) at = std::max(at, step_of[g.def(v).raw]);
    at += at % 2 != (host ? 1u : 0u);
    step_of[n.raw] = at;
    if (steps.size() <= at) steps.resize(at + 1);
    steps[at].host = host;
    ++steps[at].nodes;
  }
  std::vector<std::set<ValueId>> in(steps.size()), out(steps.size());
  for (NodeId n : g.nodes()) {
    if (has_trait(g.op(n), kLeaf)) continue;
    for (ValueId v : g.operands(n)) {
      if (!v.valid()) continue;
      const NodeId from = g.def(v);
      if (has_trait(g.op(from), kLeaf)) {
        if (g.op(from) == OpKind::Input) in[step_of[n.raw]].insert(v);
      } else if (step_of[from.raw] != step_of[n.raw]) {
        in[step_of[n.raw]].insert(v);
        out[step_of[from.raw]].insert(v);
      }
    }
  }
  for (ValueId v : g.outputs())
    if (!has_trait(g.op(g.def(v)), kLeaf)) out[step_of[g.def(v).raw]].insert(v);
  for (size_t i = 0; i < steps.size(); ++i) {
    steps[i].in.assign(in[i].begin(), in[i].end());
    steps[i].out.assign(out[i].begin(), out[i].end());
  }
  return steps;
}

// Loads the model for each step, because parts of a module are made in place. Ids of a module depend on its options alone, so
// steps agree on them.
class SteppedRun {
 public:
  SteppedRun(const CompileOptions& o, const RunRequest& run, Diagnostics& d) : options_(o), request_(run), d_(d) {}

  std::optional<std::vector<eval::HostValue>> run(const DataSet& set, std::string* summary_text) {
    auto model = load_model(options_, d_);
    if (!model) return std::nullopt;
    bind_inputs(*model->module, set);  // sizes that are constants need not reach a step by its inputs
    model = load();
    if (!model) return std::nullopt;
    Module& m = *model->module;
    const Graph& g = m.main();
    for (size_t i = 0; i < std::min(g.inputs().size(), set.inputs.size()); ++i) keep(m, g.result(g.inputs()[i]), set.inputs[i]);
    const std::vector<Step> steps = divide(m);
    if (std::ranges::any_of(steps, &Step::host)) *summary_text += summary(g, steps);
    for (const Step& step : steps)
      if (!step.out.empty() && !compute(m, step)) return std::nullopt;
    std::vector<eval::HostValue> results;
    for (ValueId v : g.outputs()) {
      const auto* constant = std::get_if<DataAttrs>(&m.attrs[g.attr_id(g.def(v))]);
      if (constant && has_trait(g.op(g.def(v)), kLeaf)) results.push_back(eval::host_value(m.data[constant->data]));
      else results.push_back(values_.at(v));
    }
    return results;
  }

 private:
  std::optional<LoadedModel> load() {
    Diagnostics repeated;
    auto model = load_model(options_, repeated);
    if (!model) d_ = std::move(repeated);
    if (!model || !lower_to_tensors(*model->module, options_, d_)) return std::nullopt;
    return model;
  }

  void bind_inputs(const Module& m, const DataSet& set) {
    std::vector<KnownSize> sizes;
    const Graph& g = m.main();
    for (size_t i = 0; i < std::min(g.inputs().size(), set.inputs.size()); ++i)
      if (set.inputs[i].kind == TypeKind::Tensor) add_sizes(g.type(g.result(g.inputs()[i])), set.inputs[i].tensor.dims, &sizes);
    DimBindings found;
    solve_dims(m.dims, sizes, &found);
    for (const auto& [symbol, size] : found)
      if (size > 0) options_.bind.emplace(symbol, size);
  }

  void keep(const Module& m, ValueId v, eval::HostValue value) {
    if (value.kind == TypeKind::Tensor) add_sizes(m.main().type(v), value.tensor.dims, &sizes_);
    solve_dims(m.dims, sizes_, &bindings_);
    values_[v] = std::move(value);
  }

  bool compute(const Module& base, const Step& step) {
    auto part = load();
    std::vector<ValueId> order;
    if (!part || !cut_part(*part->module, step.in, step.out, options_, d_, &order)) return false;
    bind_dims(*part->module, bindings_);
    DataSet set;
    for (ValueId v : order) set.inputs.push_back(values_.at(v));
    std::optional<std::vector<eval::HostValue>> results;
    if (step.host) {
      eval::Options limits = evaluation_limits(options_);
      limits.bindings = bindings_;
      results = eval::evaluate(*part->module, set.inputs, d_, limits);
    } else if (auto built = build_model(std::move(*part), options_, request_, {set}, d_)) {
      results = built->kernels->run(set.inputs, d_);
    }
    for (size_t i = 0; results && i < step.out.size(); ++i) keep(base, step.out[i], std::move((*results)[i]));
    return results.has_value();
  }

  std::string summary(const Graph& g, const std::vector<Step>& steps) const {
    size_t all = 0, of_host = 0;
    std::set<std::string> kinds;
    for (const Step& s : steps) {
      all += s.nodes;
      of_host += s.host ? s.nodes : 0;
    }
    for (NodeId n : g.nodes())
      if (!has_trait(g.op(n), kLeaf) && needs_host(g, n)) kinds.emplace(name(g.op(n)));
    return std::to_string(of_host) + " of " + std::to_string(all) +
           " nodes have no kernels and run in the reference evaluator (" +
           join(std::vector<std::string>(kinds.begin(), kinds.end()), ", ") + ")";
  }

  CompileOptions options_;
  const RunRequest& request_;
  Diagnostics& d_;
  std::map<ValueId, eval::HostValue> values_;
  std::vector<KnownSize> sizes_;
  DimBindings bindings_;
};

}  // namespace

std::optional<std::vector<eval::HostValue>> run_in_steps(const CompileOptions& o, const RunRequest& run, const DataSet& set,
                                                         std::string* summary_text, Diagnostics& d) {
  return SteppedRun(o, run, d).run(set, summary_text);
}

}  // namespace rlxc
