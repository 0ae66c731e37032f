#include "commands/part.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "commands/commands.h"
#include "driver/onnx_out.h"
#include "driver/transform_stage.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "report/graph_json.h"
#include "report/module_terms.h"
#include "support/output_file.h"
#include "support/text.h"

namespace rlxc {

bool cut_part(Module& m, std::span<const ValueId> inputs, std::span<const ValueId> outputs, const CompileOptions& o,
              Diagnostics& d, std::vector<ValueId>* order) {
  Graph& g = m.main();
  std::map<NodeId, ValueId> replaced;  // by new input
  std::vector<ValueId> kept(outputs.begin(), outputs.end());
  std::vector<Symbol> names;
  std::set<std::string> taken;
  const auto unique = [&](std::string name) {
    for (int i = 1; !taken.insert(name).second; ++i) name += "_" + std::to_string(i);
    return m.symbol(name);
  };
  for (NodeId n : g.nodes())
    if (g.op(n) == OpKind::Input || g.op(n) == OpKind::Param) taken.insert(std::string(m.bytes(g.value_name(g.result(n)))));
  std::set<std::string> output_names;
  for (ValueId v : kept) {
    std::string name = report::value_label(g, v).bytes();
    while (!output_names.insert(name).second) name += "_again";
    names.push_back(m.symbol(name));
  }
  for (ValueId v : inputs) {
    if (g.op(g.def(v)) == OpKind::Input) continue;
    const Symbol name = unique(report::value_label(g, v).bytes());
    const TypeId type = g.type_id(v);
    const NodeId n = g.make_node(OpKind::Input, {}, m.attrs.intern(NoAttrs{}), {&type, 1}, {}, g.first());
    g.set_value_name(g.result(n), name);
    replaced[n] = v;
    for (ValueId& out : kept)
      if (out == v) out = g.result(n);
    g.replace_all_uses(v, g.result(n));
  }
  g.set_outputs(kept);
  for (size_t i = 0; i < names.size(); ++i) g.set_output_name(i, names[i]);
  if (!run_named_passes(m, std::array<std::string_view, 1>{"dead_code_elimination"}, o, d)) return false;
  std::vector<NodeId> unused;
  for (NodeId n : g.inputs())
    if (g.use_count(g.result(n)) == 0) unused.push_back(n);
  for (NodeId n : unused) {
    g.remove_input(n);
    g.erase(n);
  }
  for (NodeId n : g.inputs())
    if (order) order->push_back(replaced.contains(n) ? replaced[n] : g.result(n));
  return verify(m, d);
}

std::vector<NodeId> computing_nodes(const Module& m) {
  std::vector<NodeId> out;
  for (NodeId n : m.main().nodes())
    if (!has_trait(m.main().op(n), kLeaf)) out.push_back(n);
  return out;
}

bool keep_nodes(Module& m, std::span<const size_t> positions, const CompileOptions& o, Diagnostics& d) {
  const Graph& g = m.main();
  const std::vector<NodeId> all = computing_nodes(m);
  std::vector<bool> kept(g.node_capacity());
  for (size_t i : positions) kept[all[i].raw] = true;
  std::vector<ValueId> inputs, outputs;
  std::vector<bool> seen(g.value_capacity());
  for (size_t i : positions) {
    for (ValueId v : g.operands(all[i])) {
      if (!v.valid() || seen[v.raw] || kept[g.def(v).raw] || has_trait(g.op(g.def(v)), kLeaf)) continue;
      seen[v.raw] = true;
      inputs.push_back(v);
    }
    for (size_t r = 0; r < g.result_count(all[i]); ++r) {
      const ValueId v = g.result(all[i], r);
      bool leaves = g.use_count(v) == 0 && r == 0;
      for (Graph::Use u : g.uses(v)) leaves = leaves || u.user == g.terminator() || !kept[u.user.raw];
      if (leaves) outputs.push_back(v);
    }
  }
  return !outputs.empty() && cut_part(m, inputs, outputs, o, d);
}

void own_weights(Module& m) {
  for (size_t i = 0; i < m.graph_count(); ++i)
    for (Graph& g = m.graph(GraphId(i)); NodeId n : g.nodes()) {
      const auto* a = std::get_if<DataAttrs>(&m.attrs[g.attr_id(n)]);
      if (!a || !a->data.valid() || m.data[a->data].file.empty()) continue;
      TensorData own = m.data[a->data];
      own.file.clear();
      g.set_attrs(n, m.attrs.intern(DataAttrs{m.data.add(std::move(own))}));
    }
}

bool write_module(Module& m, const CompileOptions& o, const LoadedModel& from, Diagnostics& d) {
  if (o.output.ends_with(".onnx")) return write_onnx(m, o, d);
  auto out = OutputFile::create(o.output, d);
  if (!out) return false;
  if (o.output.ends_with(".json")) {
    JsonWriter w(*out);
    report::write_graph(m, w, context_of(from, o));
    w.flush();
  } else {
    out->write(print(m, {.full_data = true}));
  }
  return out->commit();
}

}  // namespace rlxc
