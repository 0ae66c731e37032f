#include "commands/first_difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

bool has_numbers(const Graph& g, ValueId v) {
  const Type& t = g.type(v);
  return t.kind == TypeKind::Tensor && t.dtype != DType::String && !is_complex(t.dtype) && !has_trait(g.op(g.def(v)), kLeaf);
}

bool is_compared(const Graph& g, ValueId v) { return has_numbers(g, v) && compared_name(g, v).valid(); }

using Reference = std::map<std::string, ReferenceValue, std::less<>>;

std::optional<Reference> reference_values(const CompileOptions& o, const RunRequest& run, const DataSet& set) {
  Diagnostics quiet;
  auto model = load_model(o, quiet);
  if (!model) return std::nullopt;
  fill_missing_weights(*model->module, {}, run.seed, quiet);
  Reference out;
  std::set<std::string, std::less<>> shared;  // names of several values
  uint64_t kept = 0;
  eval::Options options = evaluation_limits(o);
  options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
    if (g.id().raw != 0 || !is_compared(g, v) || value.kind != TypeKind::Tensor) return;
    kept += sizeof(double) * static_cast<uint64_t>(value.tensor.elements());
    const std::string_view name = g.module().bytes(compared_name(g, v));
    if (kept <= kMostKept && !out.emplace(name, ReferenceValue{value.tensor.dims, eval::numbers(value)}).second)
      shared.emplace(name);
  };
  const auto results = eval::evaluate(*model->module, set.inputs, quiet, options);
  if (!results) return std::nullopt;
  for (const std::string& name : shared) out.erase(name);
  const Graph& g = model->module->main();
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (const Symbol name = g.output_name(i); name.valid() && has_numbers(g, g.outputs()[i]))
      out.emplace(g.module().bytes(name), ReferenceValue{(*results)[i].tensor.dims, eval::numbers((*results)[i])});
  return out;
}

// Returns the first of `compared`, in the order of execution, from which a difference reaches an output: it differs, and so does
// every compared value between them.
std::optional<size_t> first_shown(const Graph& g, const std::vector<ValueId>& results, const std::vector<ValueId>& compared,
                                  const std::vector<ValueVerdict>& verdicts) {
  std::vector<size_t> position(g.value_capacity(), compared.size());
  for (size_t i = 0; i < compared.size(); ++i) position[compared[i].raw] = i;
  std::vector<bool> seen(g.value_capacity());
  std::vector<ValueId> open = results;
  std::optional<size_t> found;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!v.valid() || seen[v.raw]) continue;
    seen[v.raw] = true;
    if (const size_t i = position[v.raw]; i < compared.size()) {
      if (verdicts[i] == ValueVerdict::Agrees) continue;
      if (verdicts[i] == ValueVerdict::Differs) found = std::min(found.value_or(i), i);
    }
    for (ValueId operand : g.operands(g.def(v))) open.push_back(operand);
  }
  return found;
}

std::vector<int64_t> index_of(int64_t element, std::span<const int64_t> dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t a = dims.size(); a-- > 0; element /= std::max<int64_t>(dims[a], 1))
    index[a] = element % std::max<int64_t>(dims[a], 1);
  return index;
}

}  // namespace

ValueVerdict compare_value(const eval::HostValue& got, const ReferenceValue& expected, const eval::Tolerance& tolerance,
                           int64_t* first) {
  if (got.tensor.dims != expected.dims) return ValueVerdict::OtherLayout;
  const eval::Tolerance t = for_type(tolerance, got.tensor.dtype);
  std::vector<double> a = eval::numbers(got), b = expected.numbers;
  const auto judged = [&] {
    return eval::judge(eval::tensor_of(DType::F64, expected.dims, a), eval::tensor_of(DType::F64, expected.dims, b), t);
  };
  const eval::Judgement j = judged();
  *first = std::max<int64_t>(j.first_mismatch, 0);
  if (j.pass) return ValueVerdict::Agrees;
  const auto is_nan = [](double x) { return std::isnan(x); };
  if (std::ranges::any_of(a, is_nan) || std::ranges::any_of(b, is_nan)) return ValueVerdict::Differs;
  std::ranges::sort(a);
  std::ranges::sort(b);
  return judged().pass ? ValueVerdict::OtherLayout : ValueVerdict::Differs;
}

std::optional<FirstDifference> first_difference(const CompileOptions& o, const RunRequest& run, const DataSet& set,
                                                const eval::Tolerance& tolerance) {
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
  std::vector<size_t> results;  // outputs of the model among the compared ones
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    const Symbol name = g.output_name(i);
    auto at = std::ranges::find(outputs, v);
    if (at == outputs.end()) {  // a pass may have put a node without a name behind the value
      if (!name.valid() || !has_numbers(g, v) || !reference->contains(g.module().bytes(name))) continue;
      names.emplace_back(name, kind_name(g.op(g.def(v))));
      at = outputs.insert(outputs.end(), v);
    }
    results.push_back(static_cast<size_t>(at - outputs.begin()));
  }
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
  std::vector<ValueVerdict> verdicts;
  std::vector<int64_t> first(got.size());
  for (size_t i = 0; i < got.size(); ++i)
    verdicts.push_back(compare_value(got[i], reference->find(lir->module->bytes(names[i].first))->second, tolerance, &first[i]));
  for (size_t i : results)  // the layout of an output does not change
    if (verdicts[i] == ValueVerdict::OtherLayout &&
        got[i].tensor.dims == reference->find(lir->module->bytes(names[i].first))->second.dims)
      verdicts[i] = ValueVerdict::Differs;
  const Graph& planned = lir->module->main();  // whose values may have other numbers
  const std::vector<ValueId> compared(planned.outputs().begin(), planned.outputs().end());
  std::vector<ValueId> from;
  for (size_t i : results) from.push_back(compared[i]);
  const auto at = first_shown(planned, from, compared, verdicts);
  if (!at) return std::nullopt;
  const std::string_view name = lir->module->bytes(names[*at].first);
  const auto element = static_cast<size_t>(first[*at]);
  return FirstDifference{
      ForeignText(name),
      names[*at].second,
      index_of(first[*at], got[*at].tensor.dims),
      eval::numbers(got[*at])[element],
      reference->find(name)->second.numbers[element],
      static_cast<size_t>(std::count(verdicts.begin(), verdicts.begin() + static_cast<int64_t>(*at), ValueVerdict::Agrees))};
}

std::string text(const FirstDifference& f) {
  std::string index;
  for (int64_t i : f.index) index += (index.empty() ? "" : ",") + std::to_string(i);
  return "first value that differs: " + f.value.line() + " (" + f.op + "), element [" + index + "]: got " + shortest(f.got) +
         ", expected " + shortest(f.expected) + "; " + std::to_string(f.agreeing) + " values before it agree";
}

}  // namespace rlxc
