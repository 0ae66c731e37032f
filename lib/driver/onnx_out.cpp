#include "driver/onnx_out.h"

#include <algorithm>
#include <filesystem>

#include "driver/compile.h"
#include "driver/transform_stage.h"
#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "support/number.h"
#include "support/output_file.h"
#include "support/schemas.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;
using onnx_export::ExportOptions;

constexpr int64_t kFunctions = 15;                 // opset of the first version of the format with functions in models
constexpr uint64_t kEmbedded = uint64_t{1} << 30;  // bytes of weights that are copied into a model without being asked to

uint64_t weight_bytes(const Module& m) {
  uint64_t total = 0;
  for (GraphId id : graphs_in_use(m))
    for (const Graph& g = m.graph(id); NodeId n : g.nodes())
      if (const auto* a = std::get_if<DataAttrs>(&m.attrs[g.attr_id(n)]); a && a->data.valid())
        total += m.data[a->data].size_bytes();
  return total;
}

// Again and again: expansions never lead back to their own kind.
void expand_within(Module& m, GraphId first, const onnx_export::OperatorSet& operators) {
  std::vector<GraphId> graphs{first};
  for (size_t i = 0; i < graphs.size(); ++i) {
    Graph& g = m.graph(graphs[i]);
    for (bool more = true; more;) {
      more = false;
      for (NodeId n : g.nodes()) {
        const bool exportable = onnx_export::is_exportable(g, n, operators);
        const legalise::Decomposition expand = exportable ? nullptr : legalise::decomposition(g.op(n));
        more |= expand && legalise::expand_node(g, n, expand);
      }
    }
    for (NodeId n : g.nodes()) graphs.insert(graphs.end(), g.bodies(n).begin(), g.bodies(n).end());
  }
}

// Gives each node without an operator a graph of nodes that have one.
class Bodies {
 public:
  Bodies(Module& m, ExportOptions* options, Fused fused)
      : m_(m), options_(options), functions_(fused == Fused::Functions && options->operators.opset >= kFunctions) {}

  void run() {
    const std::vector<GraphId> graphs = graphs_in_use(m_);
    for (GraphId id : graphs)
      for (NodeId n : m_.graph(id).nodes())
        if (const Graph& g = m_.graph(id); !is_exportable(g, n) && legalise::decomposition(g.op(n))) add(g, n);
  }

 private:
  bool is_exportable(const Graph& g, NodeId n) const { return onnx_export::is_exportable(g, n, options_->operators); }

  // Nodes of equal kind, attributes and types share a graph.
  std::string key_of(const Graph& g, NodeId n) const {
    std::string key = std::to_string(static_cast<int>(g.op(n))) + ":" + std::to_string(g.attr_id(n).raw);
    for (ValueId v : g.operands(n)) key += "," + (v.valid() ? std::to_string(g.type_id(v).raw) : std::string());
    for (GraphId b : g.bodies(n)) key += ";" + std::to_string(b.raw);
    return key;
  }

  void add(const Graph& g, NodeId n) {
    onnx_export::Body& body = bodies_[key_of(g, n)];
    if (!body.graph.valid()) {
      body.graph = expanded(g, n);
      if (functions_ && body.graph.valid() && is_closed(g, n)) {
        body.domain = "rlxc";
        const size_t number = ++numbers_[g.op(n)];
        body.function = std::string(kind_name(g.op(n))) + (number == 1 ? "" : "_" + std::to_string(number));
      }
    }
    if (body.graph.valid()) options_->bodies[{g.id(), n}] = body;
  }

  // Invalid if it has no expansion into nodes that have operators.
  GraphId expanded(const Graph& of, NodeId n) {
    Graph& g = m_.graph(m_.make_graph(std::string(name(of.op(n))) + std::to_string(m_.graph_count())));
    Builder b(g);
    std::vector<ValueId> operands;
    for (ValueId v : of.operands(n))
      operands.push_back(v.valid() ? b.input("x" + std::to_string(operands.size()), of.type(v)) : ValueId());
    const std::vector<GraphId> bodies(of.bodies(n).begin(), of.bodies(n).end());
    const NodeId whole = b.create_node(of.op(n), operands, m_.attrs[of.attr_id(n)], bodies);
    if (!whole.valid()) return {};
    std::vector<ValueId> results;
    for (size_t r = 0; r < g.result_count(whole); ++r) results.push_back(g.result(whole, r));
    g.set_outputs(results);
    expand_within(m_, g.id(), options_->operators);
    erase_all_dead(g);
    return g.id();
  }

  static void erase_all_dead(Graph& g) {
    std::vector<NodeId> order;
    for (NodeId n : g.nodes()) order.push_back(n);
    for (auto n = order.rbegin(); n != order.rend(); ++n) {
      bool used = g.op(*n) == OpKind::Input;
      for (size_t r = 0; r < g.result_count(*n); ++r) used |= g.use_count(g.result(*n, r)) > 0;
      if (!used) g.erase(*n);
    }
  }

  // Can a function compute all its sizes from those of its operands?
  bool is_closed(const Graph& g, NodeId n) const {
    std::vector<std::string> known, needed;
    const auto need = [&](const Type& t) {
      for (Dim d : t.dims)
        for (std::string& s : m_.dims.symbols_of(d)) needed.push_back(std::move(s));
    };
    for (ValueId v : g.operands(n)) {
      if (!v.valid()) continue;
      if (g.type(v).kind != TypeKind::Tensor) return false;
      need(g.type(v));
      for (Dim d : g.dims(v))
        if (const auto symbol = symbol_name(m_.dims, d)) known.push_back(*symbol);
    }
    for (size_t r = 0; r < g.result_count(n); ++r) need(g.type(g.result(n, r)));
    with_dims(m_.attrs[g.attr_id(n)], [&](Dim d) {
      for (std::string& s : m_.dims.symbols_of(d)) needed.push_back(std::move(s));
      return d;
    });
    return std::ranges::all_of(needed, [&](const std::string& s) { return std::ranges::find(known, s) != known.end(); });
  }

  Module& m_;
  ExportOptions* options_;
  bool functions_;
  std::map<std::string, onnx_export::Body> bodies_;
  std::map<OpKind, size_t> numbers_;
};

onnx_export::OperatorSet operators_of(const CompileOptions& o) { return {o.opset, o.dialect == "ort"}; }

ExportOptions export_options(const Module& m, const std::string& path, const CompileOptions& o) {
  using Weights = ExportOptions::Weights;
  ExportOptions options;
  options.operators = operators_of(o);
  options.producer_version = std::string(version());
  const bool beside = path != "-" && fs::absolute(path).parent_path() == fs::absolute(o.input).parent_path();
  options.read_from = fs::path(o.input).filename().string();
  if (o.embed_weights) return options;
  if (beside) {
    options.weights = Weights::Shared;
  } else if (path != "-" && weight_bytes(m) > kEmbedded) {
    options.weights = Weights::Beside;
    options.data_file = fs::path(path).filename().string() + ".data";
  }
  return options;
}

}  // namespace

std::optional<OnnxFile> onnx_model(Module& m, const std::string& path, Fused fused, const CompileOptions& o, Diagnostics& d) {
  ExportOptions options = export_options(m, path, o);
  Bodies(m, &options, fused).run();
  OnnxFile out;
  auto bytes = onnx_export::export_onnx(m, options, &out.data, d);
  if (!bytes) return std::nullopt;
  out.bytes = std::move(*bytes);
  if (!out.data.empty()) out.data_name = options.data_file;
  return out;
}

void expand_for_onnx(Module& m, const CompileOptions& o) { expand_within(m, m.main().id(), operators_of(o)); }

void write_external_data(const OnnxFile& model, OutputFile& f) {
  uint64_t at = 0;
  for (const auto& [data, offset] : model.data) {
    f.write(std::string(offset - at, '\0'));
    const std::string_view bytes(reinterpret_cast<const char*>(data->bytes.data()), data->bytes.size());
    for (int64_t i = data->splat ? data->elements() : 1; i > 0; --i) f.write(bytes);
    at = offset + data->size_bytes();
  }
}

bool write_onnx(Module& m, const CompileOptions& o, Diagnostics& d) {
  if (!lower_to_tensors(m, o, d)) return false;
  const auto model = onnx_model(m, o.output, Fused::InPlace, o, d);
  if (!model) return false;
  if (!model->data_name.empty()) {
    auto f = OutputFile::create(fs::absolute(o.output).parent_path().string() + "/" + model->data_name, d);
    if (!f) return false;
    write_external_data(*model, *f);
    if (!f->commit()) return false;
  }
  return write_file(o.output, model->bytes, d);
}

}  // namespace rlxc
