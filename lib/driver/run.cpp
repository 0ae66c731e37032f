#include "driver/run.h"

#include <cmath>
#include <iomanip>

#include "driver/compile.h"
#include "driver/data_set.h"
#include "driver/emulate_package.h"
#include "driver/graph_package.h"
#include "driver/interpret_package.h"
#include "driver/observed_bounds.h"
#include "driver/package_call.h"
#include "driver/run_kernels.h"
#include "driver/target_traits.h"
#include "ir/bind_dims.h"

namespace rlxc {
namespace {

std::string output_label(const Module& m, size_t i) {
  const Symbol s = m.main().output_name(i);
  return s.valid() ? std::string(m.text(s)) : "output " + std::to_string(i);
}

// The least relative tolerance that makes sense: one unit in the last place.
double resolution(DType t) {
  switch (t) {
    case DType::F16: return 0x1p-10;
    case DType::BF16: return 0x1p-7;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ: return 0x1p-3;
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ: return 0x1p-2;
    default: return 0;
  }
}

// One line an output; false if it is out of tolerance.
bool compare_output(std::ostream& out, const std::string& label, const eval::HostValue& actual, const eval::HostValue& expected,
                    const RunRequest& run) {
  const eval::Comparison c = eval::compare(actual, expected, std::max(run.rtol, resolution(expected.tensor.dtype)), run.atol);
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

}  // namespace

ExitCode run_model(const Options& o, const RunRequest& run, std::ostream& out, Diagnostics& d) {
  Options with_data = o;
  with_data.input_data = run.data;
  auto model = load_model(with_data, d);
  if (!model) return d.exit();
  const auto sets = read_data_sets(*model->module, run.data, d);
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
    if (run.engine != Engine::Reference) {
      if (DimBindings bounds = observed_bounds(compiled->lir, *sets, d); !bounds.empty()) {
        bounds.insert(o.bounds.begin(), o.bounds.end());
        with_data.bounds = std::move(bounds);
        auto lir = plan_for(run.target, std::move(compiled->lir.module), with_data, d);
        if (!lir) return d.exit();
        compiled->lir = std::move(*lir);
      }
      kernels = run.engine == Engine::Interpreter ? make_interpreting_runner(compiled->lir, run.target, d)
                : run.target == "cpu"             ? make_kernel_runner(compiled->lir, d)
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
