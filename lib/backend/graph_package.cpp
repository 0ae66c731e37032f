#include "backend/graph_package.h"

#include <set>

#include "analysis/exchange.h"
#include "backend/weight_files.h"
#include "ir/dim_postfix.h"
#include "ir/mesh.h"
#include "passes/match.h"
#include "support/json_writer.h"
#include "support/schemas.h"

namespace rlxc {

namespace {

// Parts of whole bytes are parameters of their own; others are cut by the program.
bool is_own_part(const Graph& g, NodeId n) { return is_weight_slice(g, n) && bits(g.dtype(g.result(n))) >= 8; }

void write_slice(const Module& m, const Graph& g, NodeId n, uint64_t bytes, JsonWriter& j) {
  const auto& a = g.attrs<CollectiveAttrs>(n);
  int64_t runs = a.blocks;
  for (Dim d : g.dims(g.result(n)).first(static_cast<size_t>(a.axis))) runs *= d.size();
  const TensorData& data = m.data[g.attrs<DataAttrs>(g.def(g.operand(n, 0))).data];
  if (data.splat || runs == 0) return;
  j.key("slice").begin_object(JsonLayout::Line).key("along").begin_array(JsonLayout::Line);
  for (const std::string& axis : a.along) j.string(axis);
  j.end_array().key("runs").integer(runs).key("run").unsigned_integer(bytes / static_cast<uint64_t>(runs));
  j.key("whole").unsigned_integer(data.size_bytes() / static_cast<uint64_t>(runs)).end_object();
}

}  // namespace

std::optional<ValueId> consecutive_rows(const LirModule& lir, const Graph& g, NodeId n) {
  const auto& a = g.attrs<ScatterAttrs>(n);
  const auto axis = static_cast<size_t>(a.axis);
  ValueId index = g.operand(n, 1);
  const auto x = g.dims(g.operand(n, 0)), updates = g.dims(g.operand(n, 2));
  if (a.reduction != Reduction::None || g.id() != lir.module->main().id()) return {};
  for (size_t i = 0; i < x.size(); ++i)
    if (i != axis && x[i] != updates[i]) return {};
  bool row = x.size() == 1;  // all other axes of the index have one element
  for (NodeId d = g.def(index); d.valid() && (g.op(d) == OpKind::Expand || g.op(d) == OpKind::Reshape); d = g.def(index)) {
    if (g.op(d) == OpKind::Reshape) {
      const auto dims = g.dims(index);
      if (!row && dims.size() != x.size()) return {};
      for (size_t i = 0; !row && i < dims.size(); ++i)
        if (i != axis && dims[i] != Dim(1)) return {};
      row = true;
    }
    index = g.operand(d, 0);
  }
  const NodeId sum = g.def(index);
  if (!row || g.rank(index) != 1 || !sum.valid() || g.op(sum) != OpKind::Add) return {};
  for (size_t k : {0, 1}) {
    const ValueId offsets = g.operand(sum, k), start = g.operand(sum, 1 - k);
    const NodeId range = g.def(offsets);
    if (!range.valid() || g.rank(start) != 0) continue;
    const bool counts = g.op(range) == OpKind::Range && match::is_scalar(g, g.operand(range, 0), 0) &&
                        match::is_scalar(g, g.operand(range, 1), 1);
    if (!counts && !match::is_scalar(g, offsets, 0)) continue;  // 0: the only row
    for (const IndexInput& checked : lir.index_inputs)
      if (g.result(g.inputs()[checked.input]) == start) return start;
  }
  return {};
}

std::vector<std::pair<const Graph*, NodeId>> weight_nodes(const Module& m) {
  std::vector<std::pair<const Graph*, NodeId>> all;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(i));
    for (NodeId n : g.nodes()) {
      bool taken = is_weight(g.op(n)) ? !is_only_sliced(g, n) : is_own_part(g, n);
      for (Graph::Use use : g.uses(g.result(n))) taken = taken || (is_weight(g.op(n)) && !is_own_part(g, use.user));
      if (taken) all.emplace_back(&g, n);
    }
  }
  return all;
}

codegen::Package graph_only_package(const LirModule& lir, Diagnostics& d) {
  codegen::Package p;
  const Module& m = *lir.module;
  p.name = codegen::package_name(m);
  p.lir = &lir;
  for (const auto& [g, n] : weight_nodes(m)) {
    const ValueId v = g->result(n);
    const auto bytes = byte_size(g->type(v));
    if (!bytes) d.error(Code::MissingWeights, "the sizes of a parameter must be known", "node " + g->label(n).quoted());
    const ForeignText name = m.text(g->value_name(v));
    const NodeId param = is_weight(g->op(n)) ? n : g->def(g->operand(n, 0));
    p.weights.push_back({g->attrs<DataAttrs>(param).data, g->dtype(v), name.empty() ? g->label(n) : name, bytes.value_or(0)});
  }
  const Graph& main = m.main();
  std::set<std::string> symbols;
  for (NodeId n : main.inputs())
    for (Dim dim : main.dims(main.result(n)))
      for (std::string& s : m.dims.symbols_of(dim)) symbols.insert(std::move(s));
  for (const std::string& s : symbols) p.symbols.emplace_back(s);
  for (NodeId n : main.inputs()) p.inputs.push_back({m.text(main.value_name(main.result(n))), main.id(), main.result(n)});
  for (size_t i = 0; i < main.outputs().size(); ++i)
    p.outputs.push_back({m.text(main.output_name(i)), main.id(), main.outputs()[i]});
  return p;
}

std::string model_json(const codegen::Package& p, std::string_view target, const CpuPackageOptions& options,
                       const std::vector<size_t>* parameters, const std::vector<size_t>* prepared) {
  const Module& m = *p.lir->module;
  const WeightFiles located = locate_weights(p, options);
  std::string out;
  JsonWriter j(out);
  j.begin_object()
      .key("$schema")
      .string("model.schema.json")
      .key("format")
      .string("rlxc-model")
      .key("format_version")
      .string("2.3")
      .key("generator")
      .string("rlxc " + std::string(version()))
      .key("target")
      .string(target)
      .key("name")
      .string(p.name);
  if (const auto mesh = mesh_of(m)) {
    j.key("mesh").begin_array();
    for (const MeshAxis& a : mesh->axes)
      j.begin_object(JsonLayout::Line).key("axis").string(a.name).key("size").integer(a.size).end_object();
    j.end_array();
  }
  for (const auto& [key, ports] : {std::pair{"inputs", &p.inputs}, std::pair{"outputs", &p.outputs}}) {
    j.key(key).begin_array();
    for (size_t i = 0; i < ports->size(); ++i) {
      const codegen::Port& port = (*ports)[i];
      const Graph& g = m.graph(port.graph);
      j.begin_object(JsonLayout::Line)
          .key("name")
          .string(port.name)
          .key("dtype")
          .string(name(g.dtype(port.value)))
          .key("shape")
          .begin_array(JsonLayout::Line);
      for (Dim d : g.dims(port.value)) d.is_static() ? j.integer(d.size()) : j.string(m.dims.text(d));
      j.end_array();
      for (const IndexInput& x : p.lir->index_inputs) {
        if (ports != &p.inputs || x.input != i) continue;
        const auto largest = m.dims.constant_value(x.largest);
        j.key("largest");
        largest ? j.integer(*largest) : j.string(m.dims.text(x.largest));
      }
      j.end_object();
    }
    j.end_array();
  }
  if (!p.lir->states.empty()) {
    j.key("states").begin_array(JsonLayout::Line);
    for (const State& s : p.lir->states)
      j.begin_object(JsonLayout::Line)
          .key("input")
          .unsigned_integer(s.input)
          .key("output")
          .unsigned_integer(s.output)
          .end_object();
    j.end_array();
  }
  j.key("weights_file").string(weights_file(p)).key("weights_header").string(weights_header(p, options));
  j.key("weights").begin_array();
  const auto nodes = weight_nodes(m);
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const codegen::Weight& w = p.weights[i];
    j.begin_object(JsonLayout::Line)
        .key("name")
        .string(w.name)
        .key("dtype")
        .string(name(w.dtype))
        .key("shape")
        .begin_array(JsonLayout::Line);
    for (Dim n : nodes[i].first->dims(nodes[i].first->result(nodes[i].second))) j.integer(n.size());
    j.end_array();
    if (w.data.valid())
      j.key("file").string(located.files[located.weights[i].file]).key("offset").unsigned_integer(located.weights[i].offset);
    else j.key("file").null();  // the caller passes it
    j.key("stored").unsigned_integer(located.weights[i].stored).key("bytes").unsigned_integer(w.bytes);
    const auto& [g, n] = nodes[i];
    if (!is_weight(g->op(n)) && w.data.valid()) write_slice(m, *g, n, w.bytes, j);
    j.end_object();
  }
  j.end_array();
  for (const auto& [key, numbers] : {std::pair{"parameters", parameters}, std::pair{"prepared", prepared}}) {
    if (!numbers) continue;
    j.key(key).begin_array(JsonLayout::Line);
    for (size_t n : *numbers) j.unsigned_integer(n);
    j.end_array();
  }
  j.end_object();
  j.finish();
  return out;
}

}  // namespace rlxc
