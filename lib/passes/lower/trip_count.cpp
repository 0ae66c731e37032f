#include "passes/lower/trip_count.h"

namespace rlxc {
namespace {

// The value of a constant scalar, or `absent` for an absent operand.
std::optional<int64_t> constant_value(const Graph& g, ValueId v, int64_t absent) {
  if (!v.valid()) return absent;
  const NodeId n = g.def(v);
  if (g.op(n) != OpKind::Constant) return std::nullopt;
  return element_as_int(g.module().data[g.attrs<DataAttrs>(n).data], 0);
}

}  // namespace

std::optional<int64_t> trip_limit(const Graph& g, NodeId loop) {
  const auto trips = constant_value(g, g.operand(loop, 0), -1);
  return trips && *trips >= 0 ? trips : std::nullopt;
}

std::optional<int64_t> trip_count(const Graph& g, NodeId loop) {
  const Graph& body = g.module().graph(g.bodies(loop)[0]);
  const ValueId again = body.outputs()[0];
  const bool never_stops = again == body.result(body.inputs()[1]) || constant_value(body, again, 0) == 1;
  return never_stops && constant_value(g, g.operand(loop, 1), 1) == 1 ? trip_limit(g, loop) : std::nullopt;
}

}  // namespace rlxc
