#include "backend/dispatch.h"

#include "backend/backend.h"
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

struct Claim {
  std::string_view kind, by;
};
constexpr Claim kClaims[] = {
#define CLAIM(kind, by) {#kind, by},
#include "backend/claims.def"
#undef CLAIM
};

bool claims(const TargetInfo& t, std::string_view kind) {
  for (const Claim& c : kClaims)
    if (c.kind == kind) return c.by[t.claims] == 'x';
  return false;
}

DispatchNode entry(const Graph& g, NodeId n, DispatchPath path) { return {g.op(n), path, g.id(), n, g.node_name(n), {}}; }

}  // namespace

std::vector<DispatchNode> foreign_nodes(const Module& m, const TargetTraits& traits) {
  std::vector<DispatchNode> out;
  each_operation(m, [&](const Graph& g, NodeId n) {
    const auto kind = static_cast<size_t>(g.op(n));
    if (!traits.native.test(kind) || traits.decomposed.test(kind)) out.push_back(entry(g, n, DispatchPath::Rewritten));
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

std::vector<DispatchNode> dispatched_nodes(const LirModule& lir, const TargetTraits& traits) {
  const TargetInfo& info = find_backend(traits.name)->info;
  const auto row = capability(info);
  std::vector<DispatchNode> out;
  each_operation(*lir.module, [&](const Graph& g, NodeId n) {
    DispatchNode d = entry(g, n, DispatchPath::Native);
    const bool native = traits.native.test(static_cast<size_t>(d.op));
    // Views and control flow need no kernels.
    const bool needs_kernel = !runs_bodies(g, n) && !lir.plans[g.id().raw].layouts.is_view(g, n);
    if (!native || (row && needs_kernel && !codegen::supports(g, n, *row, &d.detail))) {
      d.path = DispatchPath::Unsupported;
      if (d.detail.empty()) d.detail = traits.name + " has no " + std::string(kind_name(d.op));
    } else if (row && needs_kernel && !claims(info, claim_name(d.op))) {
      d.path = DispatchPath::CommonIr;
    }
    out.push_back(std::move(d));
  });
  return out;
}

}  // namespace rlxc
