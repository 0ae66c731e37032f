// Unrolls Loops of known trip count if that takes at most PassOptions::unroll_max_nodes nodes; scan outputs become a Concat.
// Inner loops stay loops. A body that defines data-dependent dims is not unrolled. O(created nodes).
#include <algorithm>
#include <set>

#include "ir/graphs.h"
#include "passes/inline_body.h"
#include "passes/lower/trip_count.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

// Returns whether the body has dims that none of its inputs has. They belong to one iteration, so copies would share a name.
bool makes_sizes(const Graph& body) {
  std::set<std::string> given;
  for (NodeId n : body.nodes())
    for (size_t r = 0; r < body.result_count(n); ++r)
      for (Dim d : body.dims(body.result(n, r))) {
        if (d.is_static()) continue;
        for (std::string& s : body.module().dims.symbols_of(d)) {
          if (body.op(n) == OpKind::Input) given.insert(std::move(s));
          else if (!given.contains(s)) return true;
        }
      }
  return false;
}

bool can_unroll(const Graph& g, NodeId loop, int64_t trips, const Graph& body, uint64_t most) {
  if (trips < 1 || body.live_nodes() > most / static_cast<uint64_t>(trips)) return false;
  for (NodeId n : body.nodes())
    if (has_trait(body.op(n), kBody)) return false;
  if (makes_sizes(body)) return false;
  for (size_t i = kBeforeCarries; i < g.operands(loop).size(); ++i)
    if (g.type_id(g.operand(loop, i)) != body.type_id(body.result(body.inputs()[i]))) return false;
  const auto carries = static_cast<size_t>(g.attrs<LoopAttrs>(loop).carries);
  for (size_t j = 0; j < carries; ++j)  // a carried value that changes its shape would need other types in every copy
    if (body.type_id(body.outputs()[1 + j]) != body.type_id(body.result(body.inputs()[kBeforeCarries + j]))) return false;
  return true;
}

bool unroll(Graph& g, NodeId loop, uint64_t most) {
  const auto trips = trip_count(g, loop);
  Graph& body = g.module().graph(g.bodies(loop)[0]);
  if (!trips || !can_unroll(g, loop, *trips, body, most)) return false;
  const auto carries = static_cast<size_t>(g.attrs<LoopAttrs>(loop).carries), scans = g.result_count(loop) - carries;
  Builder b(g, nullptr, loop);
  std::vector<ValueId> inputs(g.operands(loop).begin(), g.operands(loop).end());
  std::vector<std::vector<ValueId>> rows(scans);
  inputs[1] = b.scalar(DType::Bool, 1);
  for (int64_t i = 0; i < *trips; ++i) {
    inputs[0] = b.scalar(DType::I64, static_cast<double>(i));
    const std::vector<ValueId> results = copy_body(g, loop, body, inputs);
    std::copy_n(results.begin() + 1, carries, inputs.begin() + kBeforeCarries);
    for (size_t s = 0; s < scans; ++s) {
      const ValueId v = results[1 + carries + s];
      std::vector<Dim> dims(g.dims(v).begin(), g.dims(v).end());
      dims.insert(dims.begin(), Dim(1));
      rows[s].push_back(b.reshape(v, dims));
    }
  }
  for (size_t j = 0; j < carries; ++j) g.replace_all_uses(g.result(loop, j), inputs[kBeforeCarries + j]);
  for (size_t s = 0; s < scans; ++s) g.replace_all_uses(g.result(loop, carries + s), b.concat(rows[s], 0));
  g.erase(loop);
  body.clear();
  return true;
}

}  // namespace

PassResult unroll_loops(Module& m, PassContext& ctx) {
  int64_t unrolled = 0;
  if (ctx.options.unroll_max_nodes == 0) return {};
  // Inner loops first, so that unrolled bodies have no bodies themselves.
  std::vector<GraphId> graphs = graphs_in_use(m);
  std::ranges::reverse(graphs);
  for (GraphId id : graphs) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Loop) unrolled += unroll(g, n, ctx.options.unroll_max_nodes);
  }
  return {unrolled > 0, {{"loops_unrolled", unrolled}}};
}

}  // namespace rlxc
