#include "commands/first_difference.h"

#include <map>

#include "codegen/lowering_cache.h"
#include "commands/built_model.h"
#include "commands/missing_weights.h"
#include "driver/compile.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "eval/value.h"
#include "support/number.h"

namespace rlxc {
namespace {

constexpr uint64_t kMostKept = uint64_t{1} << 30;

// The name under which a value is compared: its own or, for a node with one result, that of the node.
Symbol compared_name(const Graph& g, ValueId v) {
  const Symbol own = g.value_name(v);
  return own.valid() || g.result_count(g.def(v)) != 1 ? own : g.node_name(g.def(v));
}

bool is_compared(const Graph& g, ValueId v) {
  const Type& t = g.type(v);
  return t.kind == TypeKind::Tensor && t.dtype != DType::String && !is_complex(t.dtype) && !has_trait(g.op(g.def(v)), kLeaf) &&
         compared_name(g, v).valid();
}

using Reference = std::map<std::string, std::vector<double>, std::less<>>;

std::optional<Reference> reference_values(const CompileOptions& o, const RunRequest& run, const DataSet& set) {
  Diagnostics quiet;
  auto model = load_model(o, quiet);
  if (!model) return std::nullopt;
  fill_missing_weights(*model->module, {}, run.seed, quiet);
  Reference out;
  uint64_t kept = 0;
  eval::Options options = evaluation_limits(o);
  options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
    if (g.id().raw != 0 || !is_compared(g, v) || value.kind != TypeKind::Tensor) return;
    kept += sizeof(double) * static_cast<uint64_t>(value.tensor.elements());
    if (kept <= kMostKept) out.emplace(g.module().bytes(compared_name(g, v)), eval::numbers(value));
  };
  return eval::evaluate(*model->module, set.inputs, quiet, options) ? std::optional(std::move(out)) : std::nullopt;
}

std::vector<int64_t> index_of(int64_t element, std::span<const int64_t> dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t a = dims.size(); a-- > 0; element /= std::max<int64_t>(dims[a], 1))
    index[a] = element % std::max<int64_t>(dims[a], 1);
  return index;
}

}  // namespace

std::optional<FirstDifference> first_difference(const CompileOptions& o, const RunRequest& run, const DataSet& set,
                                                const Tolerance& tolerance) {
  for (const eval::HostValue& v : set.inputs)
    if (v.kind != TypeKind::Tensor || v.tensor.dtype == DType::String) return std::nullopt;
  const auto reference = reference_values(o, run, set);
  Diagnostics quiet;
  auto model = reference ? load_model(o, quiet) : std::nullopt;
  if (!model) return std::nullopt;
  fill_missing_weights(*model->module, {}, run.seed, quiet);
  CompileOptions own = o;
  own.whole_states = true;
  auto compiled = compile(std::move(*model), run.target, own, {}, quiet);
  if (!compiled) return std::nullopt;
  Graph& g = compiled->lir.module->main();
  std::vector<ValueId> outputs;
  for (NodeId n : compiled->lir.plans[0].schedule)
    for (size_t i = 0; n != g.terminator() && i < g.result_count(n); ++i)
      if (const ValueId v = g.result(n, i); is_compared(g, v) && reference->contains(g.module().bytes(compared_name(g, v))))
        outputs.push_back(v);
  std::vector<std::pair<Symbol, std::string>> names;
  for (ValueId v : outputs) names.emplace_back(compared_name(g, v), kind_name(g.op(g.def(v))));
  g.set_outputs(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) g.set_output_name(i, names[i].first);
  auto& lowerings = compiled->lowerings;
  if (lowerings) lowerings = std::make_unique<codegen::LoweringCache>(lowerings->row());
  const auto lir = plan_for(run.target, std::move(compiled->lir.module), own, lowerings.get(), quiet);
  if (!lir) return std::nullopt;
  std::vector<eval::HostValue> got;
  if (run.engine == Engine::Reference) {
    auto results = eval::evaluate(*lir->module, set.inputs, quiet, evaluation_limits(o));
    if (!results) return std::nullopt;
    got = std::move(*results);
  } else {
    const auto runner = make_runner(*lir, o, run, lowerings.get(), quiet);
    auto results = runner ? runner->run(set.inputs, quiet) : std::nullopt;
    if (!results) return std::nullopt;
    got = std::move(*results);
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> numbers = eval::numbers(got[i]);
    const std::string_view name = lir->module->bytes(names[i].first);
    const std::vector<double>& expected = reference->find(name)->second;
    if (numbers.size() != expected.size()) continue;  // another layout of the same value
    const std::vector<int64_t> flat{static_cast<int64_t>(numbers.size())};
    const auto c = eval::compare(eval::tensor_of(DType::F64, flat, numbers), eval::tensor_of(DType::F64, flat, expected),
                                 tolerance.rtol, tolerance.atol);
    if (tolerance.cosine ? c.cosine >= *tolerance.cosine : c.pass) continue;
    const auto at = static_cast<size_t>(std::max<int64_t>(c.first_mismatch, 0));
    return FirstDifference{ForeignText(name), names[i].second, index_of(static_cast<int64_t>(at), got[i].tensor.dims),
                           numbers[at],       expected[at],    i};
  }
  return std::nullopt;
}

std::string text(const FirstDifference& f) {
  std::string index;
  for (int64_t i : f.index) index += (index.empty() ? "" : ",") + std::to_string(i);
  return "first value that differs: " + f.value.line() + " (" + f.op + "), element [" + index + "]: got " + shortest(f.got) +
         ", expected " + shortest(f.expected) + "; " + std::to_string(f.compared) + " values before it agree";
}

}  // namespace rlxc
