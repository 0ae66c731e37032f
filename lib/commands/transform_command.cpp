// `rlxc transform` and `rlxc simplify`: a model in, a model out.
#include <array>
#include <filesystem>
#include <iostream>

#include "commands/commands.h"
#include "commands/part.h"
#include "commands/progress_line.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/onnx_out.h"
#include "driver/transform_stage.h"
#include "driver/undivided_model.h"
#include "ir/graphs.h"
#include "support/mapped_file.h"
#include "support/output_file.h"

namespace rlxc {

ExitCode transform_command(const CompileOptions& o, const std::string& ledger, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  if (!annotate_shardings(*model, o, "cpu", d)) return print_diagnostics(d, t);
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

namespace {

struct NodeCounts {
  size_t before = 0, after = 0;
};

std::optional<NodeCounts> simplify_once(const CompileOptions& o, Diagnostics& d) {
  auto model = load_model(o, d);
  if (!model) return std::nullopt;
  NodeCounts nodes{live_nodes(*model->module), 0};
  constexpr std::array<std::string_view, 6> kPasses{
      "dead_code_elimination", "sccp", "constant_folding", "algebraic_simplify", "common_subexpression_elimination",
      "dead_code_elimination"};
  if (!lower_to_tensors(*model->module, o, d)) return std::nullopt;
  expand_for_onnx(*model->module, o);
  if (!run_named_passes(*model->module, kPasses, o, d) || !write_onnx(*model->module, o, d)) return std::nullopt;
  nodes.after = live_nodes(*model->module);
  return nodes;
}

// Operators that stand for several nodes, or for parts of one, may simplify further when the written model is read again.
void simplify_again(const CompileOptions& o, NodeCounts* nodes) {
  constexpr int kMostRounds = 4;
  constexpr uintmax_t kMostBytes = uintmax_t{64} << 20;
  CompileOptions again;
  again.input = again.output = o.output;
  again.opset = o.opset, again.dialect = o.dialect, again.embed_weights = o.embed_weights;
  again.allow_missing_weights = true;
  again.max_nodes = o.max_nodes, again.max_operations = o.max_operations;
  const auto contents = [&](Diagnostics& d) {
    const auto file = open_model_file(o.output, d);
    return file ? std::string(reinterpret_cast<const char*>(file->data()), file->size()) : std::string();
  };
  std::error_code error;
  for (int i = 0; i < kMostRounds; ++i) {
    const uintmax_t size = std::filesystem::file_size(o.output, error);
    if (error || size > kMostBytes) return;
    Diagnostics d;  // what the model lacks has been said
    const std::string before = contents(d);
    const auto made = simplify_once(again, d);
    if (!made) return;
    nodes->after = made->after;
    if (contents(d) == before) return;
  }
}

}  // namespace

ExitCode simplify_command(const CompileOptions& o, Terminal t) {
  Diagnostics d(o.input);
  if (auto nodes = simplify_once(o, d)) {
    if (o.output != "-") simplify_again(o, &*nodes);
    if (!o.quiet) {
      clear_progress_line();
      std::cerr << nodes->before << " nodes -> " << nodes->after << " nodes -> " << ForeignText(o.output).line() << "\n";
    }
  }
  return print_diagnostics(d, t);
}

}  // namespace rlxc
