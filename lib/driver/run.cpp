#include "driver/run.h"

#include <cmath>
#include <iomanip>

#include "driver/compile.h"
#include "driver/data_set.h"
#include "driver/emulate_package.h"
#include "driver/graph_package.h"
#include "driver/package_call.h"
#include "driver/run_kernels.h"
#include "driver/target_traits.h"
#include "eval/random.h"
#include "ir/bind_dims.h"

namespace rlxc {
namespace {

std::string output_label(const Module& m, size_t i) {
  const Symbol s = m.main().output_name(i);
  return s.valid() ? std::string(m.text(s)) : "output " + std::to_string(i);
}

// One line an output; false if it is out of tolerance.
bool compare_output(std::ostream& out, const std::string& label, const eval::HostValue& actual, const eval::HostValue& expected,
                    const RunRequest& run) {
  const eval::Comparison c = eval::compare(actual, expected, run.rtol, run.atol);
  const bool judged_by_cosine = run.cosine && expected.kind == TypeKind::Tensor && is_float(expected.tensor.dtype);
  const bool comparable = c.message.empty() || c.first_mismatch >= 0;  // of one type and shape
  const bool pass = judged_by_cosine ? comparable && c.cosine >= run.min_cosine : c.pass;
  out << "  " << (pass ? "ok  " : "FAIL") << "  " << label << ": ";
  if (!c.message.empty()) out << c.message << ": ";
  if (comparable)
    out << "max abs " << c.max_abs << ", max rel " << c.max_rel << ", cosine " << std::setprecision(8) << c.cosine
        << std::setprecision(4);
  out << '\n';
  return pass;
}

// Random inputs of the sizes, and what the module makes of them before any pass. Integers are 0 or 1: flags, and indices into
// whatever has two entries.
std::optional<std::vector<DataSet>> random_sets(const Module& m, const std::vector<DimBindings>& sizes, Diagnostics& d) {
  std::vector<DataSet> sets;
  for (const DimBindings& bind : sizes.empty() ? std::vector<DimBindings>(1) : sizes) {
    DataSet& set = sets.emplace_back();
    for (const auto& [symbol, size] : bind) set.name += (set.name.empty() ? "" : ", ") + symbol + "=" + std::to_string(size);
    if (set.name.empty()) set.name = "random inputs";
    for (size_t i = 0; i < m.main().inputs().size(); ++i) {
      const ValueId v = m.main().result(m.main().inputs()[i]);
      set.inputs.push_back(eval::random_value(m, m.main().type(v), bind, i + 1, {.int_high = 1}));
    }
    auto expected = eval::evaluate(m, set.inputs, d);
    if (!expected) return std::nullopt;
    set.expected = std::move(*expected);
  }
  return sets;
}

}  // namespace

ExitCode run_model(const Options& o, const RunRequest& run, std::ostream& out, Diagnostics& d) {
  Options with_data = o;
  with_data.input_data = run.data;
  auto model = load_model(with_data, d);
  if (!model) return d.exit();
  const auto sets = run.data.empty() ? random_sets(*model->module, run.sizes, d) : read_data_sets(*model->module, run.data, d);
  if (!sets) return d.exit();
  if (run.engine == Engine::Kernels && needs_static_sizes(run.target) && !sets->empty()) {
    const Graph& g = model->module->main();
    DimBindings sizes;
    for (size_t i = 0; i < std::min(g.inputs().size(), sets->front().inputs.size()); ++i)
      add_sizes(model->module->dims, g.type(g.result(g.inputs()[i])), sets->front().inputs[i].tensor.dims, &sizes);
    bind_dims(*model->module, sizes);
  }
  std::vector<std::string> labels;
  for (size_t i = 0; i < model->module->main().outputs().size(); ++i) labels.push_back(output_label(*model->module, i));

  std::function<std::optional<std::vector<eval::HostValue>>(const std::vector<eval::HostValue>&)> execute;
  std::optional<Compiled> compiled;
  std::unique_ptr<KernelRunner> kernels;
  // Passes run for the reference engine only when a flag asks for one of their effects.
  const bool optimised =
      o.verify || o.verify_each || !o.passes.empty() || !o.stop_after.empty() || o.precision != "f32" || !o.calibration.empty();
  if (run.engine == Engine::Reference && !optimised) {
    execute = [&](const std::vector<eval::HostValue>& inputs) { return eval::evaluate(*model->module, inputs, d); };
  } else {
    compiled = compile(std::move(*model), run.target, o, {}, d);
    if (!compiled) return d.exit();
    if (run.engine == Engine::Kernels) {
      kernels = run.target == "cpu" && !run.sanitize ? make_kernel_runner(compiled->lir, d)
                                                     : make_emulated_runner(compiled->lir, run.target, d);
      if (!kernels) return d.exit();
      execute = [&](const std::vector<eval::HostValue>& inputs) { return kernels->run(inputs, d); };
    } else {
      execute = [&](const std::vector<eval::HostValue>& inputs) { return eval::evaluate(*compiled->lir.module, inputs, d); };
    }
  }

  bool pass = true;
  out << std::setprecision(4);
  for (const DataSet& set : *sets) {
    out << set.name << '\n';
    const auto results = execute(set.inputs);
    if (!results) return d.exit();
    for (size_t i = 0; i < std::min(results->size(), set.expected.size()); ++i)
      pass &= compare_output(out, labels[i], (*results)[i], set.expected[i], run);
    if (set.expected.size() < results->size())
      out << "  " << results->size() - set.expected.size() << " outputs have no expected values\n";
  }
  out << (pass ? "passed" : "failed") << '\n';
  return pass ? ExitCode::Ok : ExitCode::Finding;
}

}  // namespace rlxc
