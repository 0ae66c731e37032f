#include "runtime/observed_bounds.h"

#include <algorithm>

#include "eval/eval.h"
#include "ir/dim_postfix.h"

namespace rlxc {
namespace {

struct Axis {
  GraphId graph;
  ValueId value;
  size_t axis;
  int64_t largest = -1;  // -1: not observed
};

// Returns a result axis of the node whose dim is the extent.
Axis axis_of(const Module& m, const DataDependentDim& e) {
  const Graph& g = m.graph(e.graph);
  for (size_t r = 0; r < g.result_count(e.node); ++r) {
    const auto dims = g.dims(g.result(e.node, r));
    for (size_t k = 0; k < dims.size(); ++k)
      if (symbol_name(m.dims, dims[k]) == e.symbol.bytes()) return {e.graph, g.result(e.node, r), k};
  }
  return {};
}

}  // namespace

DimBindings observed_bounds(const LirModule& lir, std::span<const DataSet> sets, const eval::Options& limits, Diagnostics& d) {
  const Module& m = *lir.module;
  std::vector<std::pair<const DataDependentDim*, Axis>> open;
  for (const DataDependentDim& e : lir.extents)
    if (const Axis axis = axis_of(m, e); !e.bound && axis.value.valid()) open.emplace_back(&e, axis);
  DimBindings bounds;
  if (open.empty()) return bounds;
  eval::Options options = limits;
  options.observe = [&](const Graph& g, ValueId v, const eval::HostValue& value) {
    for (auto& [extent, axis] : open)
      if (axis.graph == g.id() && axis.value == v) axis.largest = std::max(axis.largest, value.tensor.dims[axis.axis]);
  };
  Diagnostics quiet;  // extents after a failure or limit stay unbounded
  for (const DataSet& set : sets) eval::evaluate(m, set.inputs, quiet, options);
  for (const auto& [extent, axis] : open) {
    if (axis.largest < 0) continue;
    bounds[extent->symbol.bytes()] = axis.largest;
    d.warning(Code::UnboundDim,
              "nothing says how large " + extent->symbol.quoted() + " of its result can get: taken from the data, " +
                  std::to_string(axis.largest),
              "node " + m.graph(extent->graph).label(extent->node).quoted(),
              "--bound " + extent->symbol.shell_word() + "=SIZE gives another");
  }
  return bounds;
}

}  // namespace rlxc
