// Unrolls Loops of known trip count if that takes at most PassOptions::unroll_max_nodes nodes; scan outputs become a Concat.
// Inner loops stay loops. A body that defines data-dependent dims is not unrolled. A loop that may end sooner is unrolled up to
// its limit: once its condition is false, Where keeps its carried values. It must stack nothing and be able to run in vain. Where
// the target has no Loop, more nodes may be made. O(created nodes).
#include <algorithm>

#include "ir/graphs.h"
#include "passes/inline_body.h"
#include "passes/lower/speculation.h"
#include "passes/lower/trip_count.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

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

constexpr uint64_t kMostWithoutLoops = 10'000;

bool unroll(Graph& g, NodeId loop, uint64_t most) {
  auto trips = trip_count(g, loop);
  Graph& body = g.module().graph(g.bodies(loop)[0]);
  const auto carries = static_cast<size_t>(g.attrs<LoopAttrs>(loop).carries), scans = g.result_count(loop) - carries;
  const bool may_end = !trips;
  if (may_end && scans == 0 && can_speculate(body)) trips = trip_limit(g, loop);
  if (!trips || !can_unroll(g, loop, *trips, body, most)) return false;
  Builder b(g, nullptr, loop);
  const auto scalar = [&](ValueId v) { return b.reshape(v, {}); };
  ValueId going = may_end && g.operand(loop, 1).valid() ? scalar(g.operand(loop, 1)) : ValueId();
  std::vector<ValueId> inputs(g.operands(loop).begin(), g.operands(loop).end());
  std::vector<std::vector<ValueId>> rows(scans);
  inputs[1] = b.scalar(DType::Bool, 1);
  for (int64_t i = 0; i < *trips; ++i) {
    inputs[0] = b.scalar(DType::I64, static_cast<double>(i));
    const std::vector<ValueId> results = copy_body(g, loop, body, inputs);
    for (size_t j = 0; j < carries; ++j) {
      ValueId& kept = inputs[kBeforeCarries + j];
      kept = going.valid() ? b.create(OpKind::Where, {going, results[1 + j], kept}) : results[1 + j];
    }
    if (may_end) going = going.valid() ? b.create(OpKind::And, {going, scalar(results[0])}) : scalar(results[0]);
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
  const bool lacks_loop =
      !ctx.target.native.test(static_cast<size_t>(OpKind::Loop)) || ctx.target.decomposed.test(static_cast<size_t>(OpKind::Loop));
  const uint64_t most = std::max(ctx.options.unroll_max_nodes, lacks_loop ? kMostWithoutLoops : 0);
  if (most == 0) return {};
  // Inner loops first, so that unrolled bodies have no bodies themselves.
  std::vector<GraphId> graphs = graphs_in_use(m);
  std::ranges::reverse(graphs);
  for (GraphId id : graphs) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::Loop) unrolled += unroll(g, n, most);
  }
  return {unrolled > 0, {{"loops_unrolled", unrolled}}};
}

}  // namespace rlxc
