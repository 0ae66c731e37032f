#include "commands/run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "commands/built_model.h"
#include "commands/first_difference.h"
#include "commands/host_steps.h"
#include "commands/missing_weights.h"
#include "commands/progress_line.h"
#include "commands/tolerances.h"
#include "driver/check_options.h"
#include "driver/limits.h"
#include "driver/load.h"
#include "driver/training_stage.h"
#include "eval/random.h"
#include "eval/value.h"
#include "export/onnx/export.h"
#include "import/gguf/import.h"
#include "runtime/data_set.h"
#include "runtime/npy.h"
#include "runtime/package_call.h"
#include "runtime/sequence_edges.h"
#include "support/output_file.h"
#include "support/progress.h"

namespace rlxc {
namespace {

std::string output_label(const Module& m, size_t i) {
  const Symbol s = m.main().output_name(i);
  return s.valid() ? m.text(s).line() : "output " + std::to_string(i);
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

OutputReport compare_output(std::string label, bool drawn, const eval::HostValue& actual, const eval::HostValue& expected,
                            const eval::Tolerance& tolerance) {
  OutputReport o{std::move(label), {}, OutputReport::Verdict::Passed};
  const eval::Judgement& j = o.figures = eval::judge(actual, expected, for_type(tolerance, expected.tensor.dtype));
  const bool comparable = j.message.empty() || j.first_mismatch >= 0;  // type and shape match
  o.has_figures = comparable && j.not_finite == 0;
  if (!j.pass && drawn && o.has_figures) {
    o.verdict = OutputReport::Verdict::Random;
    o.text = "drawn at random, of the type and the sizes that are expected";
    return o;
  }
  if (!j.pass) o.verdict = OutputReport::Verdict::Failed;
  std::ostringstream out;
  out << std::setprecision(4) << j.message;
  if (o.has_figures)
    out << (j.message.empty() ? "" : ": ") << "max abs " << j.max_abs << ", max rel " << j.max_rel << ", cosine "
        << std::setprecision(8) << j.cosine << std::setprecision(4) << ", norm error " << j.norm_error;
  if (const int64_t n = not_numbers(expected)) out << ", " << n << " of " << expected.tensor.elements() << " not a number";
  o.text = out.str();
  return o;
}

std::string_view mark(OutputReport::Verdict v) {
  return v == OutputReport::Verdict::Failed ? "FAIL" : v == OutputReport::Verdict::NotCompared ? "--  " : "ok  ";
}

// Whether there is room for the outputs whose sizes follow from the inputs, twice: to compare them.
bool outputs_fit(const Module& m, std::span<const eval::HostValue> inputs, const eval::Options& limits, Diagnostics& d) {
  const DimBindings sizes = input_sizes(m, inputs);
  double bytes = 0;
  for (size_t i = 0; i < m.main().outputs().size(); ++i) {
    const Type& t = m.main().type(m.main().outputs()[i]);
    double own = t.kind == TypeKind::Tensor ? bits(t.dtype) / 8.0 : 0;
    for (Dim dim : t.dims) own *= static_cast<double>(m.dims.evaluate(dim, sizes).value_or(0));
    bytes += 2 * std::max(own, 0.0);
    if (bytes < 0x1p62 && limits.memory->has_room(static_cast<uint64_t>(bytes))) continue;
    d.error(Code::TooLarge,
            "two copies of the outputs, to be compared, exceed the memory limit of " + std::to_string(limits.memory->limit()) +
                " bytes",
            "output " + output_label(m, i), "--max-memory BYTES allows more");
    return false;
  }
  return true;
}

// Returns random inputs of these sizes and the results of the module before any pass.
std::optional<std::vector<DataSet>> random_sets(const LoadedModel& model, const std::vector<DimBindings>& sizes, uint64_t seed,
                                                const eval::Options& limits, Diagnostics& d) {
  const Module& m = *model.module;
  std::vector<DataSet> sets;
  for (const DimBindings& bind : sizes.empty() ? std::vector<DimBindings>(1) : sizes) {
    DataSet& set = sets.emplace_back();
    for (const auto& [symbol, size] : bind) set.name += (set.name.empty() ? "" : ", ") + symbol + "=" + std::to_string(size);
    if (set.name.empty()) set.name = "random inputs";
    eval::Options sized = limits;
    sized.bindings = bind;
    if (!eval::random_inputs_fit(m, sized, d)) return std::nullopt;
    set.inputs = random_inputs(m, model.training, bind, seed);
    if (!outputs_fit(m, set.inputs, limits, d)) return std::nullopt;
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
  std::unique_ptr<BuiltModel> built;
  eval::Tolerance tolerance;
  eval::Options limits;  // of the reference evaluator
  HostForms forms;
  SequenceEdges edges;
  std::vector<IndexInput> index_inputs;  // for the reference evaluator; packages have their own

  const Module& module() const { return built ? *built->compiled.lir.module : *model->module; }

  std::optional<std::vector<eval::HostValue>> run(const std::vector<eval::HostValue>& inputs, Diagnostics& d) const {
    note_stage("run");
    if (!check_index_inputs(module(), index_inputs, inputs, d)) return std::nullopt;
    auto results = built && built->kernels ? built->kernels->run(inputs, d) : eval::evaluate(module(), inputs, d, limits);
    if (!results) return results;
    results = host_results(forms, std::move(*results));
    return edges.any() ? edges.nested(std::move(*results)) : std::move(results);
  }
};

// Loads the model and its data.
bool load(const CompileOptions& o, const RunRequest& run, Prepared* p, Diagnostics& d) {
  p->limits = evaluation_limits(o);
  p->model = load_model(o, d);
  if (!p->model) return false;
  Module& m = *p->model->module;
  for (const DimBindings& sizes : run.sizes)
    for (const auto& [symbol, size] : sizes) knows_symbol(m, symbol, "--size", d);
  if (!d.ok()) return false;
  if (run.data.empty()) fill_missing_weights(m, {}, run.seed, d);
  auto sets = run.data.empty() ? random_sets(*p->model, run.sizes, run.seed, p->limits, d) : read_data_sets(m, run.data, d);
  if (!sets) return false;
  p->tolerance = tolerance_of(o, run, m);
  p->sets = std::move(*sets);
  for (size_t i = 0; i < m.main().outputs().size(); ++i) p->labels.push_back(output_label(m, i));
  p->drawn = run.data.empty() ? std::vector<bool>(p->labels.size()) : drawn_outputs(m);
  return true;
}

bool prepare(const CompileOptions& o, const RunRequest& run, Prepared* p, Diagnostics& d) {
  if (!load(o, run, p, d)) return false;
  Module& m = *p->model->module;
  if (run.engine == Engine::Reference && p->model->gguf) p->index_inputs = gguf_import::index_inputs(m, *p->model->gguf);
  // For the reference engine, passes run only if a flag depends on them.
  const bool optimised = o.verify || o.verify_each || !o.passes.empty() || !o.stop_after.empty() || o.precision_name != "f32" ||
                         !o.mesh.empty() || !o.calibration_file.empty() || !o.weights.empty() || o.activations != "model";
  if (run.engine == Engine::Reference && !optimised) return true;
  if (run.engine != Engine::Reference) p->edges = SequenceEdges::apply(m, &p->sets);
  auto forms = lower_interface(m, run.target, o, d);
  if (!forms) return false;
  p->forms = std::move(*forms);
  for (DataSet& set : p->sets)
    if (!strings_to_bytes(set, p->forms.text_inputs, d)) return false;
  p->built = build_model(std::move(*p->model), o, run, p->sets, d);
  return p->built != nullptr;
}

// Whether the errors say no more than that nodes or data have no form for kernels.
bool lacks_kernels(const Diagnostics& d) {
  return !d.ok() && std::ranges::all_of(d.items(), [](const Diagnostic& i) {
    return i.severity != Severity::Error || i.code == Code::UnsupportedOnTarget;
  });
}

// The name of an output as a file or an array of an archive.
std::string file_name_of(const Module& m, size_t i, bool archive) {
  const std::string name(m.bytes(m.main().output_name(i)));
  return archive && !name.empty() && name.find('/') == name.npos ? name : "output_" + std::to_string(i);
}

// Writes the outputs of one data set. `folder`: of the set below the path, or empty.
bool save_outputs(const Module& m, const std::vector<eval::HostValue>& results, const RunRequest& run, const std::string& folder,
                  Diagnostics& d) {
  namespace fs = std::filesystem;
  const bool archive = run.save_outputs.ends_with(".npz");
  const fs::path path = fs::path(run.save_outputs) / folder;
  NamedArrays arrays;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].kind != TypeKind::Tensor) {
      d.error(Code::UnsupportedAttribute, "--save-outputs writes tensors, and this output is a sequence or a map",
              "output " + std::to_string(i));
      return false;
    }
    arrays.emplace_back(file_name_of(m, i, archive), results[i].tensor);
  }
  if (archive) return write_file(run.save_outputs, npz_bytes(arrays), d);
  std::error_code error;
  fs::create_directories(path, error);
  for (const auto& [name, tensor] : arrays) {
    const std::string bytes = run.save_as == "pb" ? onnx_export::tensor_file(tensor, name) : npy_bytes(tensor);
    if (!write_file((path / (name + "." + run.save_as)).string(), bytes, d)) return false;
  }
  return true;
}

}  // namespace

ExitCode run_model(const CompileOptions& o, const RunRequest& run, std::ostream& out, Diagnostics& d, RunReport* report) {
  RunReport unread;
  RunReport& r = report ? *report : unread;
  if (!check_targets(std::span(&run.target, 1), d)) return d.exit();
  check_options(o, std::span(&run.target, 1), d);
  if (!run.sizes.empty() && !run.data.empty())
    d.warning(Code::BadFlag, "--size has no effect with --data, whose files have sizes of their own");
  CompileOptions with_data = o;
  with_data.input_data = run.data;
  // Compile for any contents of the inputs if possible, else for these contents, else in steps.
  std::optional<Prepared> p;
  Diagnostics general(d.file()), specific(d.file());
  bool in_steps = false;
  const bool is_general = run.engine != Engine::Reference && prepare(o, run, &p.emplace(), general);
  if (is_general) {
    d.add(general);
  } else if (!prepare(with_data, run, &p.emplace(), specific)) {
    Diagnostics again(d.file());
    in_steps = lacks_kernels(specific) && o.mesh.empty() && load(with_data, run, &p.emplace(), again);
    if (!in_steps) d.add(specific);
    if (!in_steps) return d.exit();
  }
  for (const Diagnostic& item : specific.items())
    if (!in_steps) d.add(item);

  if (!run.save_outputs.empty() && run.save_outputs.ends_with(".npz") && p->sets.size() > 1) {
    d.error(Code::BadFlag, "--save-outputs: there are several data sets, and a file NAME.npz holds one", {}, "give a folder");
    return d.exit();
  }
  const eval::Tolerance& tolerance = p->tolerance;
  const Module& m = p->module();
  const DataSet* first_failed = nullptr;
  r = {o.input, tolerance.text(), {}, {}};
  for (const DataSet& set : p->sets) {
    std::string host_steps;
    const auto results = in_steps ? run_in_steps(with_data, run, set, &host_steps, d) : p->run(set.inputs, d);
    if (!results) return d.exit();
    clear_progress_line();
    out << ForeignText(set.name).line() << '\n';
    if (!host_steps.empty()) out << "  " << host_steps << '\n';
    r.sets.push_back({set.name, {}});
    SetReport& of_set = r.sets.back();
    for (size_t i = 0; i < results->size(); ++i) {
      const bool is_missing = i >= set.expected.size() || std::ranges::count(set.missing, i) > 0;
      const OutputReport& output = of_set.outputs.emplace_back(
          is_missing ? OutputReport{p->labels[i], "not compared, as there is no output_" + std::to_string(i) + ".pb or .npy"}
                     : compare_output(p->labels[i], p->drawn[i], (*results)[i], set.expected[i], tolerance));
      out << "  " << mark(output.verdict) << "  " << output.name << ": " << output.text << '\n';
      if (output.verdict == OutputReport::Verdict::Failed && !first_failed) first_failed = &set;
    }
    if (!run.save_outputs.empty() && !save_outputs(m, *results, run, p->sets.size() > 1 ? set.name : "", d)) return d.exit();
  }
  if (first_failed && !in_steps && !p->edges.any())
    if (const auto difference = first_difference(is_general ? o : with_data, run, *first_failed, tolerance)) {
      r.first_difference = text(*difference);
      out << "  " << r.first_difference << '\n';
    }
  const size_t missing = r.count(OutputReport::Verdict::NotCompared);
  if (missing == r.outputs()) {
    out << "nothing was compared\n";
    return run.save_outputs.empty() && missing > 0 ? ExitCode::NotCompared : ExitCode::Ok;
  }
  out << (first_failed ? "failed" : missing > 0 ? "incomplete" : "passed") << " (" << tolerance.text() << ")\n";
  return first_failed ? ExitCode::Finding : missing > 0 ? ExitCode::NotCompared : ExitCode::Ok;
}

}  // namespace rlxc
