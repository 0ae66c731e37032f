#include "driver/transform_stage.h"

#include <array>
#include <filesystem>
#include <iostream>

#include "backend/target_traits.h"
#include "driver/commands.h"
#include "driver/compile.h"
#include "driver/onnx_out.h"
#include "ir/graphs.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/legalise/decompositions.h"
#include "passes/runner.h"
#include "report/graph_json.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/progress.h"

namespace rlxc {

std::vector<ValueId> expand_by_table(Graph& g, NodeId n) {
  const legalise::Decomposition expand = legalise::decomposition(g.op(n));
  if (!expand) return {};
  legalise::Expansion e(g, n);
  return expand(e);
}

bool run_named_passes(Module& m, std::span<const std::string_view> names, const CompileOptions& o, Diagnostics& d) {
  constexpr int kRounds = 4;
  std::vector<const PassInfo*> passes;
  for (std::string_view name : names) passes.push_back(find_pass(name));
  const TargetTraits traits;
  const PassOptions options = o;
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> notes;
  PassContext context{traits, options, d, decisions, notes};
  RunnerReport report;
  return run_to_fixed_point(m, passes, kRounds, context, RunnerOptions{}, &report);
}

bool lower_to_tensors(Module& m, const CompileOptions& o, Diagnostics& d) {
  bool any = false;
  for (GraphId id : graphs_in_use(m))
    for (NodeId n : m.graph(id).nodes()) any |= has_trait(m.graph(id).op(n), kHir | kSequenceOp);
  constexpr std::array<std::string_view, 7> kPasses{"lower_hir",        "lower_sequence_loops", "dead_code_elimination", "sccp",
                                                    "constant_folding", "lower_sequences",      "dead_code_elimination"};
  return !any || run_named_passes(m, kPasses, o, d);
}

namespace {

std::string names_text(const std::vector<std::string>& names) {
  std::string s;
  for (const std::string& n : names) s += (s.empty() ? "" : ", ") + ForeignText(n).line();
  return s.empty() ? "none" : s;
}

void write_names(JsonWriter& w, std::string_view key, const std::vector<std::string>& names) {
  w.key(key).begin_array(JsonLayout::Line);
  for (const std::string& n : names) w.string(n);
  w.end_array();
}

}  // namespace

bool transform_module(Module& m, const CompileOptions& o, transform::Ledger* ledger, Diagnostics& d) {
  if (o.transforms.empty()) return true;
  note_stage("transform");
  const auto steps = transform::parse_steps(o.transforms, d);
  if (!steps || !lower_to_tensors(m, o, d)) return false;
  return transform::apply_steps(m, *steps, expand_by_table, ledger, d) && verify(m, d);
}

void write_ledger(const transform::Ledger& ledger, JsonWriter& w, const report::ReportContext& context) {
  w.begin_object();
  report::write_header(w, "transform", context);
  w.key("steps").begin_array();
  for (const transform::LedgerStep& s : ledger.steps) {
    w.begin_object().key("step").string(s.text);
    w.key("nodes_before").unsigned_integer(s.nodes_before).key("nodes_after").unsigned_integer(s.nodes_after);
    write_names(w, "inputs", s.inputs);
    write_names(w, "outputs", s.outputs);
    w.key("values").begin_array();
    for (const transform::LedgerValue& v : s.values) {
      w.begin_object(JsonLayout::Line).key("name").string(v.name).key("kind").string(v.kind);
      w.key("reached").boolean(v.reached).key("paths").number(v.paths);
      if (!v.why.empty()) w.key("why").string(v.why);
      w.end_object();
    }
    w.end_array().key("cuts").begin_array();
    for (const transform::LedgerCut& c : s.cuts)
      w.begin_object(JsonLayout::Line).key("node").string(c.node).key("op").string(c.op).end_object();
    w.end_array().end_object();
  }
  w.end_array().end_object().finish();
}

std::string ledger_text(const transform::Ledger& ledger) {
  std::string s;
  for (const transform::LedgerStep& step : ledger.steps) {
    size_t reached = 0;
    for (const transform::LedgerValue& v : step.values) reached += v.reached;
    s += ForeignText(step.text).line() + ": " + std::to_string(step.nodes_before) + " -> " + std::to_string(step.nodes_after) +
         " nodes\n";
    if (!step.inputs.empty()) s += "  inputs:  " + names_text(step.inputs) + "\n";
    s += "  outputs: " + names_text(step.outputs) + "\n";
    if (!step.values.empty()) s += "  reached: " + std::to_string(reached) + " of " + std::to_string(step.values.size()) + "\n";
    for (const transform::LedgerValue& v : step.values) {
      const std::string name = v.kind + " " + ForeignText(v.name).line();
      s += "    " + name + ": " +
           (v.reached ? shortest(v.paths) + (v.paths == 1 ? " path" : " paths") : "not reached: " + v.why) + "\n";
    }
    for (const transform::LedgerCut& c : step.cuts) s += "  ends at " + ForeignText(c.node).line() + " (" + c.op + ")\n";
  }
  return s;
}

ExitCode transform_command(const CompileOptions& o, const std::string& ledger, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  const report::ReportContext context{std::filesystem::path(o.input).filename().string(), model->content_hash,
                                      model->hash_sampled, "", std::string(version())};
  if (auto out = OutputFile::create(o.output, d)) {
    if (o.output.ends_with(".onnx")) {
      if (const auto bytes = onnx_model(*model->module, o, d)) out->write(*bytes);
      else return print_diagnostics(d, t);
    } else if (o.output.ends_with(".json")) {
      JsonWriter w(*out);
      report::write_graph(*model->module, w, context);
      w.flush();
    } else {
      out->write(print(*model->module, {.full_data = true}));
    }
    out->commit();
  }
  if (!ledger.empty())
    if (auto out = OutputFile::create(ledger, d)) {
      JsonWriter w(*out);
      write_ledger(model->transforms, w, context);
      w.flush();
      out->commit();
    }
  if (!o.quiet && d.ok()) std::cerr << ledger_text(model->transforms);
  return print_diagnostics(d, t);
}

}  // namespace rlxc
