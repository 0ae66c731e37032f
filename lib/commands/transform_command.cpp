// `rlxc transform` and `rlxc simplify`: a model in, a model out.
#include <array>
#include <iostream>

#include "commands/commands.h"
#include "commands/part.h"
#include "commands/progress_line.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/onnx_out.h"
#include "driver/transform_stage.h"
#include "ir/graphs.h"
#include "support/output_file.h"

namespace rlxc {

ExitCode transform_command(const CompileOptions& o, const std::string& ledger, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  if (!write_module(*model->module, o, *model, d)) return print_diagnostics(d, t);
  if (!ledger.empty())
    if (auto out = OutputFile::create(ledger, d)) {
      JsonWriter w(*out);
      write_ledger(model->transforms, w, context_of(*model, o));
      w.flush();
      out->commit();
    }
  if (!o.quiet && d.ok()) {
    clear_progress_line();
    std::cerr << ledger_text(model->transforms) << live_nodes(*model->module) << " nodes -> " << ForeignText(o.output).line()
              << "\n";
  }
  return print_diagnostics(d, t);
}

ExitCode simplify_command(const CompileOptions& o, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  const size_t nodes_before = model ? live_nodes(*model->module) : 0;
  constexpr std::array<std::string_view, 6> kPasses{
      "dead_code_elimination", "sccp", "constant_folding", "algebraic_simplify", "common_subexpression_elimination",
      "dead_code_elimination"};
  if (!model || !lower_to_tensors(*model->module, o, d)) return print_diagnostics(d, t);
  expand_for_onnx(*model->module, o);
  if (!run_named_passes(*model->module, kPasses, o, d)) return print_diagnostics(d, t);
  if (write_onnx(*model->module, o, d) && !o.quiet) {
    clear_progress_line();
    std::cerr << nodes_before << " nodes -> " << live_nodes(*model->module) << " nodes -> " << ForeignText(o.output).line()
              << "\n";
  }
  return print_diagnostics(d, t);
}

}  // namespace rlxc
