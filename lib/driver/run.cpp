#include "driver/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>

#include "backend/backend.h"
#include "backend/target_traits.h"
#include "driver/compile.h"
#include "driver/limits.h"
#include "eval/random.h"
#include "eval/text_bytes.h"
#include "eval/value.h"
#include "runtime/data_set.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "runtime/observed_bounds.h"
#include "runtime/package_call.h"
#include "runtime/run_kernels.h"
#include "support/progress.h"

namespace rlxc {
namespace {

std::string output_label(const Module& m, size_t i) {
  const Symbol s = m.main().output_name(i);
  return s.valid() ? ForeignText(m.text(s)).line() : "output " + std::to_string(i);
}

// Returns the smallest useful relative tolerance: one unit in the last place, or two if expected values were rounded in between.
double resolution(DType t) {
  switch (t) {
    case DType::F16: return 0x1p-9;
    case DType::BF16: return 0x1p-6;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ: return 0x1p-3;
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ: return 0x1p-2;
    default: return 0;
  }
}

// Returns which outputs depend on random numbers. ONNX does not specify the generator, even for a given seed: only type and sizes
// of recorded values are comparable.
std::vector<bool> drawn_outputs(const Module& m) {
  const Graph& g = m.main();
  std::vector<bool> drawn(g.value_capacity()), out;
  for (NodeId n : g.nodes()) {
    bool is_drawn = g.op(n) == OpKind::Random;
    for (ValueId v : g.operands(n)) is_drawn = is_drawn || (v.valid() && drawn[v.raw]);
    for (size_t i = 0; i < g.result_count(n); ++i) drawn[g.result(n, i).raw] = is_drawn;
  }
  for (ValueId v : g.outputs()) out.push_back(drawn[v.raw]);
  return out;
}

// Counts NaNs, which compare equal in any case.
int64_t not_numbers(const eval::HostValue& v) {
  const bool may_have = v.kind == TypeKind::Tensor && is_float(v.tensor.dtype);
  int64_t count = 0;
  for (int64_t i = 0, n = may_have ? v.tensor.elements() : 0; i < n; ++i) count += std::isnan(element_as_double(v.tensor, i));
  return count;
}

// Prints one line for an output. Returns false if it is out of tolerance.
bool compare_output(std::ostream& out, const std::string& label, bool drawn, const eval::HostValue& actual,
                    const eval::HostValue& expected, const RunRequest& run) {
  const eval::Comparison c = eval::compare(actual, expected, std::max(run.rtol, resolution(expected.tensor.dtype)), run.atol);
  const bool judged_by_cosine = run.min_cosine && expected.kind == TypeKind::Tensor && is_float(expected.tensor.dtype);
  const bool comparable = c.message.empty() || c.first_mismatch >= 0;  // type and shape match
  const bool pass = judged_by_cosine ? comparable && c.cosine >= *run.min_cosine : c.pass;
  if (!pass && drawn && comparable)
    return out << "  ok    " << label << ": drawn at random, of the type and the sizes that are expected\n", true;
  out << "  " << (pass ? "ok  " : "FAIL") << "  " << label << ": ";
  if (!c.message.empty()) out << c.message << ": ";
  if (comparable)
    out << "max abs " << c.max_abs << ", max rel " << c.max_rel << ", cosine " << std::setprecision(8) << c.cosine
        << std::setprecision(4);
  if (const int64_t n = not_numbers(expected)) out << ", " << n << " of " << expected.tensor.elements() << " not a number";
  out << '\n';
  return pass;
}

// Returns random inputs of these sizes and the results of the module before any pass. Integers are 0 or 1: flags, or indices
// valid for two or more entries.
std::optional<std::vector<DataSet>> random_sets(const Module& m, const std::vector<DimBindings>& sizes,
                                                const eval::Options& limits, Diagnostics& d) {
  std::vector<DataSet> sets;
  for (const DimBindings& bind : sizes.empty() ? std::vector<DimBindings>(1) : sizes) {
    DataSet& set = sets.emplace_back();
    for (const auto& [symbol, size] : bind) set.name += (set.name.empty() ? "" : ", ") + symbol + "=" + std::to_string(size);
    if (set.name.empty()) set.name = "random inputs";
    eval::Options sized = limits;
    sized.bindings = bind;
    if (!eval::random_inputs_fit(m, sized, d)) return std::nullopt;
    for (size_t i = 0; i < m.main().inputs().size(); ++i) {
      const ValueId v = m.main().result(m.main().inputs()[i]);
      set.inputs.push_back(eval::random_value(m, m.main().type(v), bind, i + 1, {.int_high = 1}));
    }
    note_stage("reference evaluation");
    auto expected = eval::evaluate(m, set.inputs, d, limits);
    if (!expected) return std::nullopt;
    set.expected = std::move(*expected);
  }
  return sets;
}

// A model, compiled and ready for its data sets.
struct Prepared {
  std::vector<DataSet> sets;
  std::vector<std::string> labels;  // of the outputs
  std::vector<bool> drawn;          // outputs that are random and recorded by another program
  std::optional<LoadedModel> model;
  std::optional<Compiled> compiled;
  std::unique_ptr<KernelRunner> kernels;
  eval::Options limits;  // of the reference evaluator
  HostForms forms;

  std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics& d) const {
    note_stage("run");
    const Module& evaluated = compiled ? *compiled->lir.module : *model->module;
    auto results = kernels ? kernels->run(inputs, d) : eval::evaluate(evaluated, inputs, d, limits);
    for (size_t i = 0; results && i < std::min(forms.text.size(), results->size()); ++i)
      if (forms.text[i]) (*results)[i] = eval::text_of_bytes((*results)[i]);
    for (size_t i = 0; results && i < std::min(forms.maps.size(), results->size()); ++i)
      if (forms.maps[i]) (*results)[i] = eval::maps_of_rows((*results)[i].tensor, *forms.maps[i]);
    return results;
  }
};

bool prepare(const CompileOptions& o, const RunRequest& run, Prepared* p, Diagnostics& d) {
  p->limits = evaluation_limits(o);
  p->model = load_model(o, d);
  if (!p->model) return false;
  Module& m = *p->model->module;
  auto sets = run.data.empty() ? random_sets(m, run.sizes, p->limits, d) : read_data_sets(m, run.data, d);
  if (!sets) return false;
  p->sets = std::move(*sets);
  for (size_t i = 0; i < m.main().outputs().size(); ++i) p->labels.push_back(output_label(m, i));
  p->drawn = run.data.empty() ? std::vector<bool>(p->labels.size()) : drawn_outputs(m);
  // For the reference engine, passes run only if a flag depends on them.
  const bool optimised = o.verify || o.verify_each || !o.passes.empty() || !o.stop_after.empty() || o.precision_name != "f32" ||
                         !o.calibration_file.empty() || !o.weights.empty() || o.activations != "model";
  if (run.engine == Engine::Reference && !optimised) return true;
  auto forms = lower_interface(m, run.target, o, d);
  if (!forms) return false;
  p->forms = std::move(*forms);
  for (DataSet& set : p->sets)
    if (p->forms.bytes && !strings_to_bytes(set, d)) return false;
  if (run.engine == Engine::Kernels && find_backend(run.target)->info.static_sizes && !p->sets.empty())
    bind_input_sizes(m, p->sets.front().inputs);
  p->compiled = compile(std::move(*p->model), run.target, o, {}, d);
  if (!p->compiled) return false;
  if (run.engine == Engine::Reference) return true;
  LirModule& lir = p->compiled->lir;
  if (DimBindings bounds = observed_bounds(lir, p->sets, p->limits, d); !bounds.empty()) {
    CompileOptions bounded = o;
    bounded.bounds.merge(bounds);
    auto planned = plan_for(run.target, std::move(lir.module), bounded, nullptr, d);
    if (!planned) return false;
    lir = std::move(*planned);
  }
  if (run.engine == Engine::Interpreter || run.target != "cpu") {
    p->kernels = run.engine == Engine::Interpreter ? make_interpreting_runner(lir, run.target, d, o.max_operations)
                                                   : make_emulated_runner(lir, run.target, d);
    return p->kernels != nullptr;
  }
  EmulationOptions guarded;
  guarded.model_folder = std::filesystem::absolute(o.input).parent_path().string();
  p->kernels = run.sanitize ? make_emulated_runner(lir, run.target, d, guarded) : make_kernel_runner(lir, d, o.max_operations);
  return p->kernels != nullptr;
}

}  // namespace

ExitCode run_model(const CompileOptions& o, const RunRequest& run, std::ostream& out, Diagnostics& d) {
  CompileOptions with_data = o;
  with_data.input_data = run.data;
  // Compile for any contents of the inputs if possible, else for these contents.
  std::optional<Prepared> p;
  Diagnostics general(d.file());
  const bool is_general = run.engine != Engine::Reference && prepare(o, run, &p.emplace(), general);
  if (is_general)
    for (const Diagnostic& said : general.items()) d.add(said);
  else if (!prepare(with_data, run, &p.emplace(), d)) return d.exit();

  bool pass = true;
  out << std::setprecision(4);
  for (const DataSet& set : p->sets) {
    out << ForeignText(set.name).line() << '\n';
    const auto results = p->run(set.inputs, d);
    if (!results) return d.exit();
    for (size_t i = 0; i < std::min(results->size(), set.expected.size()); ++i)
      pass &= compare_output(out, p->labels[i], p->drawn[i], (*results)[i], set.expected[i], run);
    if (set.expected.size() < results->size())
      out << "  " << results->size() - set.expected.size() << " outputs have no expected values\n";
  }
  out << (pass ? "passed" : "failed") << '\n';
  return pass ? ExitCode::Ok : ExitCode::Finding;
}

}  // namespace rlxc
