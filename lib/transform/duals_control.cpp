// Tangents of control flow: bodies take tangents beside the values that move, and give those of their results.
#include <algorithm>
#include <array>

#include "transform/copy.h"
#include "transform/duals.h"
#include "transform/paths.h"
#include "transform/tangents.h"

namespace rlxc::transform {
namespace {

// Operands of a loop: `fixed` ones that the body sees as `counters`, carried values, slices, captures. Outputs of the body:
// `controls`, the next carried values, what is stacked.
struct TangentWalk {
  Dual& d;
  size_t fixed, carried, slices, controls;

  GraphId body() const { return d.graph.bodies(d.node)[0]; }
  size_t count() const { return d.graph.operands(d.node).size(); }

  // Which operands move, when a carried value moves that depends on one that does.
  std::vector<bool> moving() const {
    const Graph& g = d.graph.module().graph(body());
    std::vector<bool> moves(count());
    for (size_t i = fixed; i < count(); ++i) moves[i] = d.moves(i);
    for (bool more = true; more;) {
      more = false;
      std::vector<ValueId> sources, targets(g.outputs().begin(), g.outputs().end());
      for (size_t i = fixed; i < count(); ++i)
        if (moves[i]) sources.push_back(g.result(g.inputs()[i]));
      const Between way = between(g, targets, sources, {}, Follow::Derivatives);
      for (size_t i = 0; i < carried; ++i)
        if (!moves[fixed + i] && way.reached[targets[controls + i].raw]) moves[fixed + i] = more = true;
    }
    return moves;
  }

  bool run(Attrs attrs) {
    Module& m = d.graph.module();
    const std::vector<bool> moves = moving();
    Graph& made = m.graph(m.make_graph(m.graph(body()).name().bytes() + "_tangent" + std::to_string(m.graph_count())));
    Builder b(made);
    std::vector<ValueId> operands, own, xs, dxs;
    const auto input = [&](ValueId type_of) {
      return b.input("v" + std::to_string(made.inputs().size()), m.graph(body()).type(type_of));
    };
    const auto inputs = [&](size_t from, size_t to) {  // those that are there already, then the tangents
      for (size_t i = from; i < to; ++i) {
        operands.push_back(d.graph.operand(d.node, i));
        own.push_back(input(m.graph(body()).result(m.graph(body()).inputs()[i])));
      }
      for (size_t i = from; i < to; ++i) {
        if (!moves[i]) continue;
        operands.push_back(d.t_or_zeros(i).v);
        xs.push_back(own[i]);
        dxs.push_back(input(m.graph(body()).result(m.graph(body()).inputs()[i])));
      }
    };
    const size_t first = fixed + carried, second = first + slices;
    inputs(0, fixed);
    inputs(fixed, first);
    inputs(first, second);
    inputs(second, count());
    const std::vector<ValueId> out = inlined(b, body(), own);
    if (out.size() < controls + carried) return false;
    std::vector<ValueId> ys;
    for (ValueId v : out)
      if (is_float_tensor(made, v)) ys.push_back(v);
    Diagnostics inner;
    const auto t = tangents(b, ys, xs, dxs, {}, inner, d.expand);
    if (!t) {
      d.inside = inner.items()[0].message;
      return false;
    }
    const auto tangent_of = [&](ValueId v) {
      const auto at = std::ranges::find(ys, v);
      return at == ys.end() ? ValueId() : (*t)[static_cast<size_t>(at - ys.begin())];
    };
    std::vector<ValueId> results(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(controls + carried));
    std::vector<size_t> state_of, stack_of;
    for (size_t i = 0; i < carried; ++i) {
      if (!moves[fixed + i]) continue;
      const ValueId v = out[controls + i], dv = tangent_of(v);
      state_of.push_back(i);
      results.push_back(dv.valid() ? dv : zeros(b, made.dtype(v), {made.dims(v).begin(), made.dims(v).end()}).v);
    }
    for (size_t i = controls + carried; i < out.size(); ++i)
      if (const ValueId dv = tangent_of(out[i]); dv.valid()) {
        stack_of.push_back(i - controls - carried);
        results.push_back(dv);
      }
    made.set_outputs(results);
    if (auto* s = std::get_if<ScanAttrs>(&attrs)) {
      ScanAttrs more = *s;
      more.states += static_cast<int64_t>(state_of.size());
      more.output_axes.clear();
      more.output_reverse.clear();
      for (size_t i = 0; i < slices; ++i) {
        if (!moves[first + i]) continue;
        ++more.scan_inputs;
        more.input_axes.push_back(s->input_axes[i]);
        more.input_reverse.push_back(s->input_reverse[i]);
      }
      for (size_t i : stack_of) {
        more.output_axes.push_back(s->output_axes[i]);
        more.output_reverse.push_back(s->output_reverse[i]);
      }
      attrs = more;
    } else {
      std::get<LoopAttrs>(attrs).carries += static_cast<int64_t>(state_of.size());
    }
    const NodeId n = d.b.create_node(d.graph.op(d.node), operands, attrs, std::array{made.id()});
    if (!n.valid()) return false;
    for (size_t k = 0; k < state_of.size(); ++k) d.give({&d.b, d.graph.result(n, carried + k)}, state_of[k]);
    for (size_t k = 0; k < stack_of.size(); ++k) {
      const size_t r = carried + stack_of[k];
      const std::vector<Dim> dims(d.out(r).dims());
      d.give(reshape(Term{&d.b, d.graph.result(n, carried + state_of.size() + k)}, dims), r);
    }
    return true;
  }
};

bool scan_dual(Dual& d) {
  const ScanAttrs s = d.attrs<ScanAttrs>();
  return TangentWalk{d, 0, static_cast<size_t>(s.states), static_cast<size_t>(s.scan_inputs), 0}.run(s);
}

bool loop_dual(Dual& d) {
  const LoopAttrs l = d.attrs<LoopAttrs>();
  // Both loops would define the size, at different times.
  d.inside = changing_size(d.graph, d.node);
  if (!d.inside.empty()) return false;
  return TangentWalk{d, 2, static_cast<size_t>(l.carries), 0, 1}.run(l);
}

bool if_dual(Dual& d) {
  Module& m = d.graph.module();
  const size_t captures = d.graph.operands(d.node).size() - 1;
  std::vector<ValueId> operands(d.graph.operands(d.node).begin(), d.graph.operands(d.node).end());
  std::vector<size_t> moving, floats;
  for (size_t i = 0; i < captures; ++i)
    if (d.moves(1 + i)) {
      moving.push_back(i);
      operands.push_back(d.t(1 + i).v);
    }
  for (size_t r = 0; r < d.graph.result_count(d.node); ++r)
    if (is_float_tensor(d.graph, d.out(r).v)) floats.push_back(r);
  std::vector<GraphId> bodies;
  for (size_t k = 0; k < 2; ++k) {
    const GraphId of = d.graph.bodies(d.node)[k];
    Graph& made = m.graph(m.make_graph(m.graph(of).name().bytes() + "_tangent" + std::to_string(m.graph_count())));
    Builder b(made);
    std::vector<ValueId> inputs, ys, xs;
    for (size_t i = 1; i < operands.size(); ++i) inputs.push_back(b.input("v" + std::to_string(i), d.graph.type(operands[i])));
    const std::vector<ValueId> out = inlined(b, of, std::span(inputs).first(captures));
    if (out.empty()) return false;
    for (size_t r : floats) ys.push_back(out[r]);
    for (size_t i : moving) xs.push_back(inputs[i]);
    Diagnostics inner;
    auto t = tangents(b, ys, xs, std::span(inputs).subspan(captures), {}, inner, d.expand);
    if (!t) {
      d.inside = inner.items()[0].message;
      return false;
    }
    for (size_t i = 0; i < ys.size(); ++i)
      if (!(*t)[i].valid()) (*t)[i] = zeros(b, made.dtype(ys[i]), {made.dims(ys[i]).begin(), made.dims(ys[i]).end()}).v;
    made.set_outputs(*t);
    bodies.push_back(made.id());
  }
  const NodeId n = d.b.create_node(OpKind::If, operands, d.attrs<IfAttrs>(), bodies);
  if (!n.valid()) return false;
  for (size_t k = 0; k < floats.size(); ++k)
    d.give(reshape(Term{&d.b, d.graph.result(n, k)}, d.out(floats[k]).dims()), floats[k]);
  return true;
}

// The tangent that the definition gives.
bool custom_dual(Dual& d) {
  const CustomAttrs c = d.attrs<CustomAttrs>();
  if (!c.jvp) return false;
  std::vector<ValueId> inputs(d.graph.operands(d.node).begin(), d.graph.operands(d.node).end());
  const size_t count = inputs.size();
  for (size_t i = 0; i < count; ++i)
    if (is_float_tensor(d.graph, inputs[i])) inputs.push_back(d.t_or_zeros(i).v);
  const std::vector<ValueId> out = inlined(d.b, d.graph.bodies(d.node)[1 + static_cast<size_t>(c.vjp)], inputs);
  size_t next = 0;
  for (size_t r = 0; r < d.graph.result_count(d.node); ++r)
    if (next < out.size() && is_float_tensor(d.graph, d.out(r).v)) d.give({&d.b, out[next++]}, r);
  return next > 0 && next == out.size();
}

}  // namespace

std::span<const DualEntry> control_duals() {
  static constexpr DualEntry kTable[] = {
      {OpKind::Scan, scan_dual}, {OpKind::Loop, loop_dual}, {OpKind::If, if_dual}, {OpKind::CustomOp, custom_dual}};
  return kTable;
}

}  // namespace rlxc::transform
