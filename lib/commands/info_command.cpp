// rlxc info: what a model takes, gives and costs.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include "commands/commands.h"
#include "driver/compile.h"
#include "driver/load.h"
#include "import/onnx/proto.h"
#include "ir/bind_dims.h"
#include "ir/graphs.h"
#include "report/context.h"
#include "report/module_terms.h"
#include "report/table.h"
#include "support/json_writer.h"
#include "support/mapped_file.h"
#include "support/number.h"
#include "support/schemas.h"
#include "support/text.h"

namespace rlxc {
namespace {

struct Port {
  std::string name, type;
};

struct SymbolFacts {
  std::string name;
  std::vector<std::string> where;  // "input_ids axis 1"
};

struct ModelFacts {
  std::string format;
  std::vector<std::pair<std::string, int64_t>> opsets;  // of an ONNX model, by domain
  uint64_t file_bytes = 0, nodes = 0, parameters = 0, parameter_bytes = 0, without_values = 0;
  std::vector<Port> inputs, outputs;
  std::vector<SymbolFacts> symbols;
  DimBindings sizes;                            // at which work and peak hold: those of --bind, and 1 for other symbols
  std::optional<double> flops;                  // of a run
  std::optional<uint64_t> arena, peak, packed;  // bytes of a compile for cpu
  std::string arena_formula;                    // if the model is symbolic
};

std::vector<std::pair<std::string, int64_t>> opsets_of(const std::string& path) {
  Diagnostics quiet;
  const auto file = open_model_file(path, quiet);
  onnx_import::ModelView view;
  std::vector<std::pair<std::string, int64_t>> out;
  if (!file || !onnx_import::read_model(file->bytes(), &view)) return out;
  for (const onnx_import::OpsetView& o : view.opsets)
    out.emplace_back(o.domain.empty() ? "ai.onnx" : std::string(o.domain), o.version);
  std::ranges::sort(out);
  return out;
}

void count_parameters(const Module& m, ModelFacts* f) {
  for (GraphId id : graphs_in_use(m))
    for (const Graph& g = m.graph(id); NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Param && g.op(n) != OpKind::Constant) continue;
      const Type& t = g.type(g.result(n));
      const auto elements = num_elements(t);
      if (!elements || (g.op(n) == OpKind::Constant && *elements < 2)) continue;  // numbers of an expression
      f->parameters += static_cast<uint64_t>(*elements);
      f->parameter_bytes += byte_size(t).value_or(0);
      f->without_values += !g.attrs<DataAttrs>(n).data.valid();
    }
}

void describe_ports(const Module& m, ModelFacts* f) {
  const Graph& g = m.main();
  std::set<std::string> seen;
  for (NodeId n : g.inputs()) {
    const ValueId v = g.result(n);
    const std::string name = m.text(g.value_name(v)).line();
    f->inputs.push_back({name, text(g.type(v), m.dims)});
    for (size_t axis = 0; axis < g.dims(v).size(); ++axis)
      for (const std::string& s : m.dims.symbols_of(g.dims(v)[axis])) {
        if (seen.insert(s).second) f->symbols.push_back({s, {}});
        std::ranges::find(f->symbols, s, &SymbolFacts::name)->where.push_back(name + " axis " + std::to_string(axis));
      }
  }
  for (size_t i = 0; i < g.outputs().size(); ++i)
    f->outputs.push_back({m.text(g.output_name(i)).line(), text(g.type(g.outputs()[i]), m.dims)});
}

// Work and memory at sizes of all symbols: another load of the model, with these bound.
void measure_at_sizes(CompileOptions o, ModelFacts* f) {
  o.bind = f->sizes;
  o.ranges.clear();
  Diagnostics quiet;
  auto model = load_model(o, quiet);
  if (!model) return;
  double flops = 0;
  for (GraphId id : graphs_in_use(*model->module))
    for (const Graph& g = model->module->graph(id); NodeId n : g.nodes()) flops += node_cost(g, n).flops;
  f->flops = flops;
  const auto compiled = compile(std::move(*model), "cpu", o, {}, quiet);
  if (!compiled || compiled->lir.plans[0].symbolic) return;
  const GraphPlan& plan = compiled->lir.plans[0];
  f->arena = static_cast<uint64_t>(plan.arena_size.size());
  f->peak = plan.lower_bound;
  uint64_t packed = 0;
  for (const GraphPlan& each : compiled->lir.plans)
    packed += each.packed_size.is_static() ? static_cast<uint64_t>(each.packed_size.size()) : 0;
  f->packed = packed;
}

std::string count_with_unit(double n) {
  constexpr std::string_view kUnits[] = {"", " K", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; n >= 1000 && unit + 1 < std::size(kUnits); ++unit) n /= 1000;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f" : "%.3g", n);
  return buffer + std::string(kUnits[unit]);
}

std::string bindings_text(const DimBindings& sizes) {
  std::string out;
  for (const auto& [name, size] : sizes)
    out += (out.empty() ? "" : ",") + ForeignText(name + "=" + std::to_string(size)).shell_word();
  return out;
}

void print_info(const ModelFacts& f, const std::string& path) {
  std::string out = ForeignText(path).line() + ": " + f.format;
  for (const auto& [domain, version] : f.opsets) out += ", " + ForeignText(domain).line() + " opset " + std::to_string(version);
  out += ", " + human_bytes(f.file_bytes) + ", " + std::to_string(f.nodes) + " nodes\n";
  const auto ports = [&](const char* title, const std::vector<Port>& list) {
    out += title;
    size_t width = 0;
    for (const Port& p : list) width = std::max(width, p.name.size());
    for (const Port& p : list) out += "  " + p.name + std::string(width + 2 - p.name.size(), ' ') + p.type + "\n";
  };
  ports("inputs\n", f.inputs);
  ports("outputs\n", f.outputs);
  if (!f.symbols.empty()) out += "symbols\n";
  for (const SymbolFacts& s : f.symbols)
    out += "  " + ForeignText(s.name).line() + "  " + join(s.where, ", ") + "  --bind " +
           ForeignText(s.name + "=N").shell_word() + "\n";
  out += "parameters  " + count_with_unit(static_cast<double>(f.parameters)) + " (" + human_bytes(f.parameter_bytes) + ")";
  if (f.without_values > 0) out += ", " + std::to_string(f.without_values) + " tensors without values";
  out += "\n";
  const std::string at = f.sizes.empty() ? "" : " with --bind " + bindings_text(f.sizes);
  if (f.flops) out += "work        " + count_with_unit(*f.flops) + " flops a run" + at + "\n";
  if (f.arena)
    out += "memory      " + human_bytes(*f.arena) + " of activations (peak of live bytes: " + human_bytes(*f.peak) + ")" +
           (*f.packed ? ", " + human_bytes(*f.packed) + " of prepacked weights" : "") + ", for cpu" + at + "\n";
  std::cout << out;
}

void write_info(const ModelFacts& f, const LoadedModel& model, const CompileOptions& o) {
  std::string out;
  JsonWriter w(out);
  w.begin_object();
  report::write_header(w, "info",
                       {std::filesystem::path(o.input).filename().string(), model.content_hash, model.hash_sampled, "cpu",
                        std::string(version())});
  w.key("model_format").string(model.format).key("opsets").begin_object(JsonLayout::Line);
  for (const auto& [domain, number] : f.opsets) w.key(domain).integer(number);
  w.end_object().key("file_bytes").unsigned_integer(f.file_bytes).key("nodes").unsigned_integer(f.nodes);
  report::ModuleTerms terms(*model.module, w);
  const Graph& g = model.module->main();
  w.key("inputs").begin_array();
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    w.begin_object(JsonLayout::Line).key("name").string(f.inputs[i].name).key("type");
    terms.type(g.type_id(g.result(g.inputs()[i])));
    w.end_object();
  }
  w.end_array().key("outputs").begin_array();
  for (size_t i = 0; i < f.outputs.size(); ++i) {
    w.begin_object(JsonLayout::Line).key("name").string(f.outputs[i].name).key("type");
    terms.type(g.type_id(g.outputs()[i]));
    w.end_object();
  }
  w.end_array().key("symbols").begin_array();
  for (const SymbolFacts& s : f.symbols) {
    w.begin_object(JsonLayout::Line).key("name").string(s.name).key("where").begin_array(JsonLayout::Line);
    for (const std::string& where : s.where) w.string(where);
    w.end_array().end_object();
  }
  w.end_array().key("parameters").begin_object(JsonLayout::Line).key("elements").unsigned_integer(f.parameters);
  w.key("bytes")
      .unsigned_integer(f.parameter_bytes)
      .key("tensors_without_values")
      .unsigned_integer(f.without_values)
      .end_object();
  w.key("at_sizes").begin_object(JsonLayout::Line);
  for (const auto& [name, size] : f.sizes) w.key(name).integer(size);
  w.end_object();
  if (f.flops) w.key("flops").number(*f.flops);
  if (f.arena) w.key("arena_bytes").unsigned_integer(*f.arena).key("peak_bytes").unsigned_integer(*f.peak);
  if (f.packed) w.key("packed_bytes").unsigned_integer(*f.packed);
  w.end_object().finish();
  std::cout << out;
}

}  // namespace

ExitCode info_command(CompileOptions o, bool json, Terminal t) {
  Diagnostics d(o.input);
  o.plan_only = o.allow_missing_weights = true;
  const auto model = load_model(o, d);
  if (!model) return print_diagnostics(d, t);
  const Module& m = *model->module;
  ModelFacts f;
  f.format = model->format == "onnx"        ? "ONNX"
             : model->format == "gguf"      ? "GGUF"
             : model->format == "json"      ? "JSON graph"
             : model->format == "stablehlo" ? "StableHLO"
                                            : "IR text";
  f.file_bytes = model->file_size;
  if (model->format == "onnx") f.opsets = opsets_of(o.input);
  for (GraphId id : graphs_in_use(m))
    for (const Graph& g = m.graph(id); NodeId n : g.nodes()) f.nodes += !has_trait(g.op(n), kLeaf);
  count_parameters(m, &f);
  describe_ports(m, &f);
  f.sizes = o.bind;
  for (const SymbolFacts& s : f.symbols) f.sizes.try_emplace(s.name, 1);
  measure_at_sizes(o, &f);
  if (json) write_info(f, *model, o);
  else print_info(f, o.input);
  return print_diagnostics(d, t);
}

ExitCode eval_command(const std::string& expression, const DimBindings& sizes, Terminal t) {
  Diagnostics d;
  DimTable dims;
  const auto dim = dims.parse(expression);
  if (!dim) {
    d.error(Code::BadFlag, "the expression is malformed: " + quote(expression), {},
            "+ - * ( ) floordiv(a,b) mod(a,b) min(a,b) max(a,b), and names");
    return print_diagnostics(d, t);
  }
  const std::vector<std::string> symbols = dims.symbols_of(*dim);
  std::vector<std::string> unset;
  for (const auto& [name, size] : sizes) {
    if (std::ranges::find(symbols, name) != symbols.end()) continue;
    const auto close = closest(name, std::vector<std::string_view>(symbols.begin(), symbols.end()));
    d.error(Code::BadBinding, "the expression has no symbol " + quote(name), {},
            close ? "did you mean " + std::string(*close) + "?" : "");
  }
  if (!d.ok()) return print_diagnostics(d, t);
  for (const std::string& s : symbols)
    if (!sizes.contains(s)) unset.push_back(s + "=N");
  if (!unset.empty()) {
    d.error(Code::UnboundDim, "sizes of symbols are missing", {},
            "rlxc eval " + ForeignText(expression).shell_word() + " " + join(unset, " "));
  } else if (const auto value = dims.evaluate(*dim, sizes)) {
    std::cout << *value << '\n';
  } else {
    d.error(Code::BadFlag, "the value does not fit 64 bits, or divides by zero");
  }
  return print_diagnostics(d, t);
}

}  // namespace rlxc
