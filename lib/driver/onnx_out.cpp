#include "driver/onnx_out.h"

#include <array>
#include <filesystem>

#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/transform_stage.h"
#include "export/onnx/export.h"
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "support/output_file.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kEmbedded = uint64_t{1} << 30;  // bytes of weights that are copied without being asked to

// Again and again: expansions never lead back to their own kind.
void expand_for_onnx(Module& m) {
  for (bool more = true; more;) {
    more = false;
    for (GraphId id : graphs_in_use(m)) {
      Graph& g = m.graph(id);
      for (NodeId n : g.nodes()) {
        if (onnx_export::is_exportable(g, n)) continue;
        const legalise::Decomposition expand = legalise::decomposition(g.op(n));
        more |= expand && legalise::expand_node(g, n, expand);
      }
    }
  }
}

uint64_t weight_bytes(const Module& m) {
  uint64_t total = 0;
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (const Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes())
      if (const auto* a = std::get_if<DataAttrs>(&m.attrs[g.attr_id(n)]); a && a->data.valid())
        total += m.data[a->data].size_bytes();
  return total;
}

}  // namespace

std::optional<std::string> onnx_model(Module& m, const CompileOptions& o, Diagnostics& d) {
  if (!lower_to_tensors(m, o, d)) return std::nullopt;
  expand_for_onnx(m);
  if (!run_named_passes(m, std::array<std::string_view, 1>{"dead_code_elimination"}, o, d)) return std::nullopt;
  std::error_code error;
  const bool beside = o.output != "-" && fs::absolute(o.output).parent_path() == fs::absolute(o.input).parent_path();
  onnx_export::ExportOptions options;
  options.embed = o.embed_weights || !beside || weight_bytes(m) <= kEmbedded;
  options.producer_version = std::string(version());
  return onnx_export::export_onnx(m, options, d);
}

ExitCode simplify_command(const CompileOptions& o, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  constexpr std::array<std::string_view, 6> kPasses{
      "dead_code_elimination", "sccp", "constant_folding", "algebraic_simplify", "common_subexpression_elimination",
      "dead_code_elimination"};
  if (!model || !lower_to_tensors(*model->module, o, d) || !run_named_passes(*model->module, kPasses, o, d))
    return print_diagnostics(d, t);
  const auto bytes = onnx_model(*model->module, o, d);
  if (bytes) write_file(o.output, *bytes, d);
  return print_diagnostics(d, t);
}

}  // namespace rlxc
