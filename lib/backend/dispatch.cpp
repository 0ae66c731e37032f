#include "backend/dispatch.h"

#include "analysis/views.h"
#include "backend/target_traits.h"
#include "backend/targets.h"
#include "codegen/lower.h"
#include "ir/graphs.h"

namespace rlxc {
namespace {

using report::DispatchNode;
using report::DispatchPath;

template <class F>
void each_operation(const Module& m, F f) {
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      if (!has_trait(g.op(n), kLeaf)) f(g, n);
  }
}

DispatchNode entry(const Graph& g, NodeId n, DispatchPath path) { return {g.op(n), path, g.id(), n, g.node_name(n), {}}; }

}  // namespace

std::optional<codegen::CapabilityRow> capability_row(std::string_view name) {
  const auto id = target::target_from_name(name);
  if (!id || !target::target(*id).language) return std::nullopt;
  const target::Target& t = target::target(*id);
  codegen::CapabilityRow row;
  row.name = name;
  row.mapping = t.mapping;
  row.max_arguments = static_cast<size_t>(t.max_arguments), row.weights_apart = t.max_binding > 0;
  row.dtypes.reset();
  for (DType d : t.dtypes) row.dtypes.set(static_cast<size_t>(d));
  row.dtypes &= codegen::CapabilityRow::kernel_dtypes();
  return row;
}

std::vector<DispatchNode> foreign_nodes(const Module& m, const TargetTraits& traits) {
  std::vector<DispatchNode> out;
  each_operation(m, [&](const Graph& g, NodeId n) {
    if (!traits.native.test(static_cast<size_t>(g.op(n)))) out.push_back(entry(g, n, DispatchPath::Rewritten));
  });
  return out;
}

std::vector<DispatchNode> rewritten_nodes(const Module& m, std::vector<DispatchNode> before) {
  std::erase_if(before, [&](const DispatchNode& d) {
    const Graph& g = m.graph(d.graph);
    return g.alive(d.id) && g.op(d.id) == d.op;
  });
  return before;
}

std::vector<DispatchNode> dispatched_nodes(const Module& m, const TargetTraits& traits) {
  const auto row = capability_row(traits.name);
  const auto id = target::target_from_name(traits.name);
  std::vector<DispatchNode> out;
  each_operation(m, [&](const Graph& g, NodeId n) {
    DispatchNode d = entry(g, n, DispatchPath::Native);
    const bool native = traits.native.test(static_cast<size_t>(d.op));
    // Views are other names of bytes, and the host walks control flow: neither needs a kernel.
    const bool needs_kernel = !has_trait(d.op, kBody) && !view_of(g, n);
    if (!native || (row && needs_kernel && !codegen::supports(g, n, *row, &d.detail))) {
      d.path = DispatchPath::Unsupported;
      if (d.detail.empty()) d.detail = traits.name + " has no " + std::string(kind_name(d.op));
    } else if (row && needs_kernel && id && !target::claims(*id, claim_name(d.op))) {
      d.path = DispatchPath::CommonIr;
    }
    out.push_back(std::move(d));
  });
  return out;
}

}  // namespace rlxc
