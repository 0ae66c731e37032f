#include "codegen/control_flow_dims.h"

#include <algorithm>

#include "ir/dim_postfix.h"

namespace rlxc::codegen {

ControlFlowDims::ControlFlowDims(const LirModule& lir) : lir_(lir), owner_(lir.module->graph_count()) {
  for (uint32_t i = 0; i < lir.extents.size(); ++i) {
    number_.try_emplace(lir.extents[i].symbol.bytes(), i);
    first_of_.try_emplace({lir.extents[i].graph.raw, lir.extents[i].node.raw}, i);
  }
  if (lir.extents.empty()) return;
  for (size_t g = 0; g < owner_.size(); ++g)
    for (NodeId n : lir.module->graph(GraphId(g)).nodes())
      for (GraphId body : lir.module->graph(GraphId(g)).bodies(n)) owner_[body.raw] = {GraphId(g), n};
}

std::optional<uint32_t> ControlFlowDims::of_node(const Graph& g, NodeId n, uint32_t index) const {
  const auto it = first_of_.find({g.id().raw, n.raw});
  if (it == first_of_.end() || it->second + index >= lir_.extents.size()) return std::nullopt;
  const DataDependentDim& e = lir_.extents[it->second + index];
  return e.graph == g.id() && e.node == n ? std::optional(it->second + index) : std::nullopt;
}

std::optional<uint32_t> ControlFlowDims::own(const Command& s, Dim d) const {
  const auto symbol = symbol_name(lir_.module->dims, d);
  const auto it = symbol ? number_.find(*symbol) : number_.end();
  if (it == number_.end()) return std::nullopt;
  const DataDependentDim& e = lir_.extents[it->second];
  return e.graph == s.graph && e.node == s.node ? std::optional(it->second) : std::nullopt;
}

bool ControlFlowDims::defined_within(const Command& s, const DataDependentDim& e) const {
  if (e.graph == s.graph) return e.node == s.node;
  for (Owner o = owner_[e.graph.raw]; o.graph.valid(); o = owner_[o.graph.raw])
    if (o.graph == s.graph) return o.node == s.node;
  return false;
}

Stacked ControlFlowDims::stacked(const Command& s, Dim rows, ValueId row_of_body) const {
  const Graph& body = lir_.module->graph(lir_.module->graph(s.graph).bodies(s.node)[0]);
  Stacked out{rows, own(s, rows), {}};
  if (out.extent) out.rows = lir_.extents[*out.extent].bound.value_or(rows);
  for (Dim d : body.dims(row_of_body))
    for (const std::string& symbol : lir_.module->dims.symbols_of(d))
      if (const auto it = number_.find(symbol); it != number_.end() && defined_within(s, lir_.extents[it->second]))
        out.changing.push_back(it->second);
  std::ranges::sort(out.changing);
  out.changing.erase(std::unique(out.changing.begin(), out.changing.end()), out.changing.end());
  return out;
}

void ControlFlowDims::tell(Command* s) const {
  const Graph& g = lir_.module->graph(s->graph);
  const Graph& body = lir_.module->graph(g.bodies(s->node)[0]);
  const size_t results = g.result_count(s->node);
  if (s->kind == Command::Kind::If) {
    const Graph& other = lir_.module->graph(g.bodies(s->node)[1]);
    for (size_t r = 0; r < results; ++r)
      for (size_t axis = 0; axis < g.dims(g.result(s->node, r)).size(); ++axis)
        if (const auto e = own(*s, g.dims(g.result(s->node, r))[axis]))
          s->extents.push_back({*e, {body.dims(body.outputs()[r])[axis], other.dims(other.outputs()[r])[axis]}});
    return;
  }
  const bool loop = s->kind == Command::Kind::Loop;
  const auto carries = static_cast<size_t>(loop ? g.attrs<LoopAttrs>(s->node).carries : g.attrs<ScanAttrs>(s->node).states);
  for (size_t k = 0; loop && k < carries; ++k) {
    const auto in = body.dims(body.result(body.inputs()[k + 2])), first = g.dims(g.operand(s->node, k + 2)),
               next = body.dims(body.outputs()[k + 1]);
    for (size_t axis = 0; axis < in.size(); ++axis)
      if (const auto e = own(*s, in[axis])) s->extents.push_back({*e, {first[axis], next[axis]}});
  }
  for (size_t k = carries; k < results; ++k) {
    const Dim rows = loop ? g.dims(g.result(s->node, k))[0] : g.dims(g.operand(s->node, carries))[0];
    s->stacked.push_back(stacked(*s, rows, body.outputs()[k + loop]));
  }
}

}  // namespace rlxc::codegen
