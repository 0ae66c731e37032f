// The query commands: inspect, list, plan, schema.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>

#include "backend/backend.h"
#include "backend/target_traits.h"
#include "codegen/lower.h"
#include "commands/commands.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "driver/pipeline.h"
#include "eval/eval.h"
#include "import/onnx/import.h"
#include "ir/text.h"
#include "options/option_docs.h"
#include "passes/interface/strings_as_bytes.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"
#include "plan/csv.h"
#include "plan/solve.h"
#include "plan/validate.h"
#include "report/context.h"
#include "report/graph_json.h"
#include "report/words.h"
#include "support/json_writer.h"
#include "support/mapped_file.h"
#include "support/output_file.h"
#include "support/parallel.h"
#include "support/schemas.h"
#include "support/text.h"
#include "transform/coverage.h"

namespace rlxc {
namespace {

// Prints rows of strings in aligned columns. The last column is not padded.
void print_table(std::ostream& out, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == width.size()) width.push_back(0);
      width[i] = std::max(width[i], row[i].size());
    }
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i)
      out << row[i] << (i + 1 < row.size() ? std::string(width[i] + 2 - row[i].size(), ' ') : "");
    out << '\n';
  }
}

// Columns of numbers, which may be unknown (null).
constexpr std::string_view kNumberColumns[] = {"exit",           "region_steps", "region_inputs", "launch_ns",
                                               "wait_ns",        "memory_gbps",  "peak_gflops",   "alignment",
                                               "workgroup_size", "warp",         "shared_bytes"};

void write_cell(JsonWriter& w, std::string_view column, const std::string& cell) {
  const bool number = std::ranges::find(kNumberColumns, column) != std::end(kNumberColumns);
  if (!number) w.string(cell);
  else if (cell.empty()) w.null();
  else w.raw(cell);
}

void print_rows(const std::string& topic, const std::vector<std::string>& header,
                const std::vector<std::vector<std::string>>& rows, bool json) {
  if (!json) {
    print_table(std::cout, rows);
    return;
  }
  std::string text;
  JsonWriter w(text);
  w.begin_object();
  report::write_plain_header(w, "list", version());
  w.key("topic").string(topic).key("items").begin_array();
  for (const auto& row : rows) {
    w.begin_object(JsonLayout::Line);
    for (size_t i = 0; i < row.size(); ++i) write_cell(w.key(header[i]), header[i], row[i]);
    w.end_object();
  }
  w.end_array().end_object().finish();
  std::cout << text;
}

// The way a target computes an operation.
std::string_view served_by(OpKind op, const TargetInfo& target) {
  if (has_trait(op, kLeaf | kTerminator)) return "none needed";
  if (has_trait(op, kCollective)) return target.collectives ? "host" : target.annotations ? "compiler" : "-";
  if (target.supports(op)) return target.language ? "kernel" : "operation";
  if (legalise::decomposition(op) || has_trait(op, kHir | kFused) || codegen::has_lowering(op)) return "decomposed";
  if (has_byte_form(op)) return "on bytes";
  return transform::coverage(op, transform::Table::Gradient, false) == "lowered" ? "lowered" : "-";
}

std::string operand_range(OpKind k) {
  const int low = min_inputs(k), high = max_inputs(k);
  if (high < 0) return std::to_string(low) + "+";
  return low == high ? std::to_string(low) : std::to_string(low) + ".." + std::to_string(high);
}

}  // namespace

ExitCode inspect_command(const CompileOptions& o, const std::string& stage, bool after_each, bool json, Terminal t) {
  Diagnostics d(o.input);
  auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  const auto show = [&](const Module& m, const LirModule* lir) {
    if (!json) {
      std::cout << print(m, {.full_data = false, .origins = lir != nullptr, .lir = lir});
    } else if (auto out = OutputFile::create("-", d)) {
      JsonWriter w(*out);
      report::write_graph(m, w, {std::filesystem::path(o.input).filename().string(), "", false, "", std::string(version())});
      out->commit();
    }
  };
  if (stage == "hir") {
    show(*model->module, nullptr);
    return print_diagnostics(d, t);
  }
  CompileOptions stop = o;
  if (stage == "mir") stop.stop_after = "mir";
  const StageSink sink = [&](std::string_view name, bool changed, const Module& m) {
    if (after_each && !json && changed && name != "lir")
      std::cout << "// after " << name << "\n" << print(m, {.full_data = false, .origins = true});
  };
  auto compiled = compile(std::move(*model), o.targets.front(), stop, sink, d);
  if (compiled) show(*compiled->lir.module, &compiled->lir);
  return print_diagnostics(d, t);
}

ExitCode plan_command(const std::string& csv, uint64_t capacity, uint64_t effort, Terminal t) {
  Diagnostics d(csv);
  const auto file = open_model_file(csv, d);
  plan::BufferTable table;
  if (!file || !plan::read_csv({reinterpret_cast<const char*>(file->data()), static_cast<size_t>(file->size())}, &table, d))
    return print_diagnostics(d, t);
  table.problem.capacity = capacity;
  if (!plan::check(table.problem, d)) return print_diagnostics(d, t);
  const plan::Solution s = plan::solve(table.problem, plan::thorough(effort));
  std::vector<plan::Finding> findings;
  run_in_parallel(2, [&](size_t task) {
    if (task == 0) findings = plan::validate(table.problem, s.offsets, s.height);
    else plan::write_csv(table, s.offsets, [](std::string_view text) { std::cout << text; });
  });
  for (const plan::Finding& f : findings) d.error(Code::PlanInvalid, f.text);
  std::cerr << "arena " << s.height << " bytes, lower bound " << s.lower_bound << ", ratio " << std::fixed << std::setprecision(4)
            << (s.lower_bound ? static_cast<double>(s.height) / static_cast<double>(s.lower_bound) : 1.0) << ", by " << s.method
            << (s.optimal ? " (proved minimal)" : "") << '\n';
  if (capacity && s.height > capacity)
    d.error(Code::TooLarge, "no plan within " + std::to_string(capacity) + " bytes was found (--capacity)");
  return print_diagnostics(d, t);
}

ExitCode list_command(const std::string& topic, bool json, bool matrix, bool markdown) {
  if (topic == "options" && markdown) {
    std::cout << options_markdown();
    return ExitCode::Ok;
  }
  std::vector<std::vector<std::string>> rows;
  if (topic == "targets") {
    for (const Backend* b : backends()) {
      const TargetInfo& t = b->info;
      const kernel::Mapping& m = t.mapping;
      const bool grid = t.language && m.workgroups;
      std::vector<std::string> types, units;
      for (DType d : t.dtypes) types.emplace_back(name(d));
      for (const kernel::MatrixUnit& u : m.matrix_units)
        units.push_back(std::string(name(u.operand)) + " " + std::to_string(u.m) + "x" + std::to_string(u.n) + "x" +
                        std::to_string(u.k));
      rows.push_back({std::string(t.name), std::string(t.emits), std::to_string(t.region_steps), std::to_string(t.region_inputs),
                      std::to_string(static_cast<int64_t>(t.machine.launch_ns)),
                      std::isinf(t.machine.wait_ns) ? "" : std::to_string(static_cast<int64_t>(t.machine.wait_ns)),
                      std::to_string(static_cast<int64_t>(t.machine.memory_gbps)),
                      std::to_string(static_cast<int64_t>(t.machine.peak_gflops)), std::to_string(t.alignment),
                      grid ? std::to_string(m.workgroup_size) : "", grid ? std::to_string(m.warp) : "",
                      grid ? std::to_string(m.shared_bytes) : "", join(units, ", "), join(types, " ")});
    }
    if (!json)
      rows.insert(rows.begin(), {"target", "emits", "region steps", "inputs", "launch ns", "wait ns", "GB/s", "GFLOP/s",
                                 "alignment", "lanes", "warp", "shared", "matrix units", "element types"});
    print_rows(topic,
               {"target", "emits", "region_steps", "region_inputs", "launch_ns", "wait_ns", "memory_gbps", "peak_gflops",
                "alignment", "workgroup_size", "warp", "shared_bytes", "matrix_units", "element_types"},
               rows, json);
  } else if (topic == "passes") {
    for (const PassInfo& p : all_passes()) rows.push_back({std::string(p.name), std::string(p.group), std::string(p.doc)});
    print_rows(topic, {"name", "group", "doc"}, rows, json);
  } else if (topic == "onnx") {
    for (const auto& o : onnx_import::imported_operators()) {
      const std::string range =
          !o.refusal.empty() ? ""
                             : std::to_string(o.min_inputs) + (o.max_inputs < 0              ? "+"
                                                               : o.max_inputs > o.min_inputs ? ".." + std::to_string(o.max_inputs)
                                                                                             : "");
      rows.push_back({o.domain.empty() ? "ai.onnx" : std::string(o.domain), std::string(o.name), range,
                      o.op ? std::string(name(*o.op)) : "", std::string(o.refusal)});
    }
    std::ranges::sort(rows);
    print_rows(topic, {"domain", "operator", "inputs", "op", "refused"}, rows, json);
  } else if (topic == "ops") {
    std::map<OpKind, std::vector<std::string>> onnx;
    for (const auto& o : onnx_import::imported_operators())
      if (o.op && o.domain.empty()) onnx[*o.op].emplace_back(o.name);
    for (int k = 0; k < kOpCount; ++k) {
      const auto op = static_cast<OpKind>(k);
      std::vector<std::string> row{std::string(name(op)), std::string(kind_name(op)), operand_range(op)};
      if (matrix) {
        row.push_back(eval::has_evaluator(op) ? "yes" : "-");
        for (const Backend* b : backends()) row.emplace_back(served_by(op, b->info));
        using transform::Table;
        for (Table table : {Table::Gradient, Table::Tangent, Table::Batch})
          row.emplace_back(transform::coverage(op, table, legalise::decomposition(op) != nullptr));
        row.push_back(onnx.contains(op) ? join(onnx[op], " ") : "");
      }
      row.push_back(std::string(doc(op)));
      rows.push_back(std::move(row));
    }
    std::vector<std::string> header{"name", "kind", "operands"};
    if (matrix) {
      header.emplace_back("reference");
      for (const Backend* b : backends()) header.emplace_back(b->info.name);
      header.insert(header.end(), {"gradient", "tangent", "batch", "onnx"});
    }
    header.push_back("doc");
    if (matrix && !json) rows.insert(rows.begin(), header);
    print_rows(topic, header, rows, json);
  } else if (topic == "env") {
    rows = environment_rows();
    rows.insert(
        rows.end(),
        {{"RLXC_THREADS", "N", "threads of a package for cpu (default: the number of processors)"},
         {"RLXC_WEBGPU", "FOLDER", "a folder that has the npm package webgpu, to run packages for wgpu under Node"},
         {"RLXC_STABLEHLO", "FILE", "a Python script that runs packages for tpu in place of their run.py, which needs JAX"},
         {"TMPDIR", "FOLDER", "where packages are built that rlxc runs"},
         {"NO_COLOR", "flag", "no colours on a terminal; FORCE_COLOR: colours everywhere"}});
    print_rows(topic, {"name", "values", "doc"}, rows, json);
  } else if (topic == "options") {
    print_rows(topic, {"option", "key", "environment", "default", "commands", "doc"}, option_rows(), json);
  } else if (topic == "reasons") {
    for (const report::ReasonWord& r : report::reason_words())
      rows.push_back({std::string(r.code), std::string(r.meaning), std::string(r.remedy)});
    print_rows(topic, {"reason", "doc", "remedy"}, rows, json);
  } else if (topic == "patterns") {
    for (const report::PatternWord& p : report::pattern_words())
      rows.push_back({std::string(p.name), std::string(p.pass), std::string(p.meaning)});
    print_rows(topic, {"pattern", "pass", "doc"}, rows, json);
  } else if (topic == "schemas") {
    for (const EmbeddedSchema& s : embedded_schemas()) rows.push_back({std::string(s.name)});
    print_rows(topic, {"name"}, rows, json);
  } else {
    for (Code c : all_codes())
      rows.push_back({code_text(c), std::to_string(static_cast<int>(exit_code(c))), std::string(explain(c))});
    print_rows(topic, {"code", "exit", "doc"}, rows, json);
  }
  return ExitCode::Ok;
}

ExitCode schema_command(const std::string& schema_name, Terminal t) {
  std::vector<std::string_view> names;
  for (const EmbeddedSchema& s : embedded_schemas()) {
    if (s.name == schema_name) {
      std::cout << s.text;
      return ExitCode::Ok;
    }
    names.push_back(s.name);
  }
  Diagnostics d;
  const auto close = closest(schema_name, names);
  d.error(Code::BadFlag, "there is no schema \"" + schema_name + "\"", {},
          close ? "did you mean " + std::string(*close) + "?" : "`rlxc list schemas` shows them");
  return print_diagnostics(d, t);
}

}  // namespace rlxc
