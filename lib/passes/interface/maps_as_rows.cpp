// Replaces outputs that are sequences of maps (ai.onnx.ml ZipMap, at the end of exported classifiers) by the tensor [rows, keys]
// of their values, with columns in ascending key order, since kernels handle tensors only. A warning names the output and its
// columns. O(outputs + keys log keys).
#include "passes/interface/maps_as_rows.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/passes.h"
#include "support/order.h"
#include "support/text.h"

namespace rlxc {
namespace {

void warn(const Module& m, size_t output, const MapKeysAttrs& keys, Diagnostics& d) {
  constexpr size_t kShown = 10;
  std::vector<std::string> names = keys.strings;
  for (int64_t k : keys.ints) names.push_back(std::to_string(k));
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  d.warning(Code::UnsupportedOnTarget,
            "kernels have no maps: it is " + text(m.main().type(m.main().outputs()[output]), m.dims) +
                ", with a column for each key: " + join(names, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : ""),
            "output " + m.text(m.main().output_name(output)).quoted());
}

}  // namespace

std::vector<std::optional<MapKeysAttrs>> map_columns(const Module& m) {
  const Graph& g = m.main();
  std::vector<std::optional<MapKeysAttrs>> columns;
  for (ValueId v : g.outputs()) {
    std::optional<MapKeysAttrs>& keys = columns.emplace_back();
    if (g.op(g.def(v)) != OpKind::MapOfRow) continue;
    keys = g.attrs<MapKeysAttrs>(g.def(v));
    std::ranges::sort(keys->ints);
    std::ranges::sort(keys->strings);
  }
  return columns;
}

PassResult maps_as_rows(Module& m, PassContext& context) {
  Graph& g = m.main();
  const auto columns = map_columns(m);
  std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  std::vector<NodeId> maps;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!columns[i]) continue;
    const NodeId n = g.def(outputs[i]);
    maps.push_back(n);
    const MapKeysAttrs& a = g.attrs<MapKeysAttrs>(n);
    const auto order = a.ints.empty() ? ascending(a.strings) : ascending(a.ints);
    Builder b(g);
    b.insert_before(n);
    b.set_node_name(g.node_name(n));
    ValueId rows = g.operand(n, 0);
    if (g.rank(rows) == 1) rows = b.reshape(rows, {Dim(1), g.dims(rows)[0]});
    if (!std::ranges::is_sorted(order)) rows = b.create(OpKind::Gather, {rows, b.ints(order)}, AxisAttrs{1});
    outputs[i] = rows;
  }
  if (maps.empty()) return {};
  g.set_outputs(outputs);
  for (size_t i = 0; i < columns.size(); ++i)
    if (columns[i]) warn(m, i, *columns[i], context.diagnostics);
  for (NodeId n : maps)
    if (g.alive(n) && g.use_count(g.result(n)) == 0) g.erase(n);
  return {true, {{"outputs", static_cast<int64_t>(maps.size())}}};
}

}  // namespace rlxc
