#include "transform/copy.h"

#include "ir/bind_dims.h"
#include "ir/dim_postfix.h"

namespace rlxc::transform {
namespace {

// Where `from` is a symbol and `to` another size, the symbol stands for that size in a copy.
void add_sizes_of(DimTable& t, std::span<const Dim> from, std::span<const Dim> to, SymbolValues* sizes) {
  for (size_t k = 0; from.size() == to.size() && k < from.size(); ++k)
    if (const auto symbol = from[k] == to[k] ? std::nullopt : symbol_name(t, from[k])) sizes->try_emplace(*symbol, to[k]);
}

}  // namespace

std::string changing_size(const Graph& g, NodeId loop) {
  DimTable& t = g.module().dims;
  const Graph& body = g.module().graph(g.bodies(loop)[0]);
  for (size_t i = 0; i < static_cast<size_t>(g.attrs<LoopAttrs>(loop).carries); ++i) {
    const std::span<const Dim> before = g.dims(g.operand(loop, 2 + i)), inside = body.dims(body.result(body.inputs()[2 + i])),
                               after = body.dims(body.outputs()[1 + i]);
    for (size_t k = 0; k < inside.size() && before.size() == inside.size() && after.size() == inside.size(); ++k)
      if (!t.equal(inside[k], before[k]) || !t.equal(inside[k], after[k]))
        return "its carried value " + std::to_string(i) + " changes its size: axis " + std::to_string(k) + " is " +
               t.text(before[k]) + " before, and becomes " + t.text(after[k]) + " from " + t.text(inside[k]) + " in an iteration";
  }
  return {};
}

SymbolValues fresh_carried_sizes(const Graph& g, NodeId loop, size_t first, size_t carried) {
  Module& m = g.module();
  const Graph& body = m.graph(g.bodies(loop)[0]);
  SymbolValues sizes;
  for (size_t i = first; i < first + carried; ++i) {
    const ValueId outside = g.operand(loop, i), inside = body.result(body.inputs()[i]);
    const std::span<const Dim> a = g.dims(outside), b = body.dims(inside);
    for (size_t k = 0; a.size() == b.size() && k < a.size(); ++k)
      if (const auto symbol = a[k] == b[k] ? std::nullopt : symbol_name(m.dims, b[k]))
        sizes.try_emplace(*symbol, m.dims.fresh("carried"));
  }
  return sizes;
}

GraphId cloned(Module& m, GraphId id, const SymbolValues& sizes) {
  const GraphId copy = m.make_graph(m.graph(id).name().bytes() + "_again" + std::to_string(m.graph_count()));
  Builder b(m.graph(copy));
  std::vector<ValueId> inputs;
  for (NodeId n : m.graph(id).inputs()) {
    const ValueId v = m.graph(id).result(n);
    Type t = m.graph(id).type(v);
    if (!sizes.empty())
      for (Dim& d : t.dims) d = substitute(m.dims, d, sizes);
    inputs.push_back(b.input(std::string(m.bytes(m.graph(id).value_name(v))), t));
  }
  m.graph(copy).set_outputs(inlined(b, id, inputs, sizes));
  return copy;
}

NodeId repeated(Builder& b, const Graph& from, NodeId n, std::span<const ValueId> operands, const SymbolValues& given) {
  SymbolValues sizes = given;
  if (from.op(n) == OpKind::Loop)
    for (const auto& own : fresh_carried_sizes(from, n, 2, static_cast<size_t>(from.attrs<LoopAttrs>(n).carries)))
      sizes.insert_or_assign(own.first, own.second);
  std::vector<GraphId> bodies;
  for (GraphId inner : from.bodies(n)) bodies.push_back(cloned(b.module(), inner, sizes));
  const Attrs& attrs = b.module().attrs[from.attr_id(n)];
  if (sizes.empty()) return b.create_node(from.op(n), operands, attrs, bodies);
  return b.create_node(from.op(n), operands, with_dims(attrs, [&](Dim d) { return substitute(b.dims(), d, sizes); }), bodies);
}

std::vector<ValueId> inlined(Builder& b, GraphId body, std::span<const ValueId> inputs, const SymbolValues& given) {
  const Graph& g = b.module().graph(body);
  SymbolValues sizes = given;
  const auto follow = [&](ValueId from, ValueId to) {
    if (g.type(from).kind == TypeKind::Tensor && b.graph().type(to).kind == TypeKind::Tensor)
      add_sizes_of(b.dims(), g.dims(from), b.graph().dims(to), &sizes);
  };
  std::vector<ValueId> map(g.value_capacity()), out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    map[g.result(g.inputs()[i]).raw] = inputs[i];
    follow(g.result(g.inputs()[i]), inputs[i]);
  }
  for (NodeId n : g.nodes()) {
    if (g.op(n) == OpKind::Input) continue;
    std::vector<ValueId> operands;
    for (ValueId v : g.operands(n)) operands.push_back(v.valid() ? map[v.raw] : v);
    b.set_node_name(g.node_name(n));
    const NodeId copy = repeated(b, g, n, operands, sizes);
    if (!copy.valid()) return {};
    for (size_t r = 0; r < g.result_count(n); ++r) {
      map[g.result(n, r).raw] = b.graph().result(copy, r);
      follow(g.result(n, r), b.graph().result(copy, r));
    }
  }
  b.set_node_name({});
  for (ValueId v : g.outputs()) out.push_back(map[v.raw]);
  return out;
}

}  // namespace rlxc::transform
