#include "driver/transform_stage.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "backend/target_traits.h"
#include "driver/pass_options.h"
#include "ir/graphs.h"
#include "ir/verify.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"
#include "passes/runner.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/progress.h"
#include "support/schemas.h"

namespace rlxc {

report::ReportContext context_of(const LoadedModel& model, const CompileOptions& o) {
  return {std::filesystem::path(o.input).filename().string(), model.content_hash, model.hash_sampled, "", std::string(version())};
}

std::vector<ValueId> expand_by_table(Graph& g, NodeId n) {
  const legalise::Decomposition expand = legalise::decomposition(g.op(n));
  if (!expand) return {};
  legalise::Expansion e(g, n);
  return expand(e);
}

bool run_named_passes(Module& m, std::span<const std::string_view> names, const PassOptions& o, Diagnostics& d, int rounds,
                      std::vector<PrecisionNote>* precision) {
  std::vector<const PassInfo*> passes;
  for (std::string_view name : names) passes.push_back(find_pass(name));
  const TargetTraits traits;
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> notes;
  PassContext context{traits, o, d, decisions, precision ? *precision : notes};
  RunnerReport report;
  return run_to_fixed_point(m, passes, rounds, context, RunnerOptions{}, &report);
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

// Parameters whose contents passes do not see, so that none is folded into its users. Constants of these names become parameters.
class HiddenParams {
 public:
  HiddenParams(Graph& g, const std::set<std::string_view>& named) : g_(g) {
    for (NodeId n : g.nodes()) {
      if (g.op(n) == OpKind::Constant && named.contains(g.module().bytes(g.value_name(g.result(n))))) n = as_param(n);
      if (g.op(n) != OpKind::Param) continue;
      data_[g.value_name(g.result(n))] = g.attr_id(n);
      g.set_attrs(n, g.module().attrs.intern(DataAttrs{}));
    }
  }
  ~HiddenParams() {
    for (NodeId n : g_.nodes())
      if (const auto at = data_.find(g_.value_name(g_.result(n))); g_.op(n) == OpKind::Param && at != data_.end())
        g_.set_attrs(n, at->second);
  }
  HiddenParams(const HiddenParams&) = delete;
  HiddenParams& operator=(const HiddenParams&) = delete;

 private:
  NodeId as_param(NodeId n) {
    const ValueId old = g_.result(n);
    const std::string name(g_.module().bytes(g_.value_name(old)));
    g_.set_value_name(old, {});
    const ValueId made = Builder(g_, nullptr, n).param(name, g_.type(old), g_.attrs<DataAttrs>(n).data);
    g_.replace_all_uses(old, made);
    g_.erase(n);
    return g_.def(made);
  }

  Graph& g_;
  std::map<Symbol, AttrId> data_;
};

// Raises chains of primitives to operations whose gradients need less memory. Values that steps name stay: they are outputs
// meanwhile.
bool recognise(Module& m, const transform::Steps& steps, const CompileOptions& o, Diagnostics& d) {
  std::set<std::string_view> named(steps.stopped.begin(), steps.stopped.end());
  for (const transform::Step& s : steps.list) {
    named.insert(s.loss);
    named.insert(s.wrt.begin(), s.wrt.end());
  }
  named.erase("");
  Graph& g = m.main();
  const size_t outputs = g.outputs().size();
  std::vector<std::pair<ValueId, Symbol>> kept;
  for (NodeId n : g.nodes())
    for (size_t r = 0; r < g.result_count(n); ++r) {
      const ValueId v = g.result(n, r);
      const Symbol own = g.value_name(v).valid() ? g.value_name(v) : g.result_count(n) == 1 ? g.node_name(n) : Symbol();
      const bool by_node = g.node_name(n).valid() && g.result_count(n) == 1 && named.contains(m.bytes(g.node_name(n)));
      if (!has_trait(g.op(n), kLeaf) && own.valid() && (named.contains(m.bytes(own)) || by_node))
        kept.emplace_back(v, by_node ? g.node_name(n) : own);
    }
  for (const auto& [v, name] : kept) g.add_output(v, m.symbol("kept"));
  {
    const HiddenParams hidden(g, named);
    if (!run_named_passes(m, kRecognisingPasses, o, d)) return false;
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    const ValueId v = g.outputs()[outputs + i];
    if (!g.value_name(v).valid()) g.set_value_name(v, kept[i].second);
  }
  const std::vector<ValueId> after(g.outputs().begin(), g.outputs().begin() + static_cast<std::ptrdiff_t>(outputs));
  g.set_outputs(after);
  return true;
}

}  // namespace

bool transform_module(Module& m, const CompileOptions& o, transform::Ledger* ledger, Diagnostics& d) {
  if (o.transforms.empty()) return true;
  note_stage("transform");
  const auto steps = transform::parse_steps(o.transforms, d);
  if (!steps) return false;
  const bool derives = std::ranges::any_of(steps->list, [](const auto& s) { return s.kind != transform::StepKind::Vmap; });
  if (!steps->stopped.empty() && !derives && !o.train) {
    d.error(Code::BadFlag, "--stop-gradient says where derivatives end, and none are taken", {}, "--grad, --jvp or --train");
    return false;
  }
  if (!lower_to_tensors(m, o, d)) return false;
  const bool differentiates = std::ranges::any_of(steps->list, [](const auto& s) { return s.kind == transform::StepKind::Grad; });
  if (differentiates && !recognise(m, *steps, o, d)) return false;
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

}  // namespace rlxc
