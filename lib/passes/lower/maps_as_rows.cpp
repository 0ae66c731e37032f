#include "passes/lower/maps_as_rows.h"

#include <algorithm>

#include "ir/builder.h"
#include "support/order.h"

namespace rlxc {
std::vector<std::optional<MapKeysAttrs>> maps_as_rows(Module& m) {
  Graph& g = m.main();
  std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  std::vector<std::optional<MapKeysAttrs>> keys(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NodeId n = g.def(outputs[i]);
    if (g.op(n) != OpKind::MapOfRow) continue;
    MapKeysAttrs a = g.attrs<MapKeysAttrs>(n);
    const auto order = a.ints.empty() ? ascending(a.strings) : ascending(a.ints);
    Builder b(g);
    b.insert_before(n);
    b.set_node_name(g.node_name(n));
    ValueId rows = g.operand(n, 0);
    if (g.rank(rows) == 1) rows = b.reshape(rows, {Dim(1), g.dims(rows)[0]});
    if (!std::ranges::is_sorted(order)) rows = b.create(OpKind::Gather, {rows, b.ints(order)}, AxisAttrs{1});
    outputs[i] = rows;
    std::ranges::sort(a.ints), std::ranges::sort(a.strings);
    keys[i] = std::move(a);
  }
  std::vector<NodeId> maps;
  for (ValueId v : g.outputs())
    if (g.op(g.def(v)) == OpKind::MapOfRow) maps.push_back(g.def(v));
  g.set_outputs(outputs);
  for (NodeId n : maps)
    if (g.alive(n) && g.use_count(g.result(n)) == 0) g.erase(n);
  return keys;
}

}  // namespace rlxc
