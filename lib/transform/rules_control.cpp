// Gradients of loops: the loop runs again and keeps what each iteration starts from, and a Scan walks back over that. An
// iteration of it computes the body, takes the gradient of (sum of what the body gives times the gradients by it), hands on those
// by the carried values, adds up those by captured ones and collects those by slices.
#include <algorithm>
#include <array>

#include "transform/copy.h"
#include "transform/gradients.h"
#include "transform/paths.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

// A walk over the iterations of a node with one body. Operands of the node: `fixed` of them without gradients, then carried
// values, slices, captures. Inputs of the body: `counters` ones, then those. Outputs of the body: `controls` ones, then the next
// carried values, then what is stacked.
struct Walk {
  Adjoint& a;
  size_t fixed, carried, slices, controls;
  std::vector<int64_t> slice_axes, slice_reverse, stack_axes, stack_reverse;
  std::vector<Term> saved;     // [iterations, ..] of each carried value, as iterations found it
  std::vector<Term> counters;  // [iterations, ..]

  GraphId body() const { return a.graph.bodies(a.node)[0]; }

  bool run() {
    Module& m = a.b.module();
    const size_t count = a.graph.operands(a.node).size(), captures = count - fixed - carried - slices;
    const size_t stacks = a.graph.result_count(a.node) - carried;
    for (size_t i = fixed; i < a.graph.operands(a.node).size(); ++i)
      if (!a.has(i)) return false;
    std::vector<ValueId> states, scanned, fixed_values;
    ScanAttrs s;
    std::vector<size_t> moving, summed, sliced, stacked;  // carried values, captures, slices, stacks that have gradients
    for (size_t i = 0; i < carried; ++i)
      if (is_float_tensor(a.graph, a.graph.result(a.node, i))) {
        moving.push_back(i);
        states.push_back(a.g(i).v);
      }
    for (size_t i = 0; i < captures; ++i)
      if (const size_t at = fixed + carried + slices + i; a.wants(at)) {
        summed.push_back(i);
        states.push_back(zeros(a.b, a.in(at).dtype(), a.in(at).dims()).v);
      }
    const auto scan = [&](Term x, int64_t axis, int64_t reverse) {
      scanned.push_back(x.v);
      s.input_axes.push_back(axis);
      s.input_reverse.push_back(reverse);
    };
    for (const Term& t : counters) scan(t, 0, 1);
    for (const Term& t : saved) scan(t, 0, 1);
    for (size_t i = 0; i < slices; ++i) {
      scan(a.in(fixed + carried + i), slice_axes[i], 1 - slice_reverse[i]);
      if (a.wants(fixed + carried + i)) sliced.push_back(i);
    }
    for (size_t i = 0; i < stacks; ++i)
      if (a.has_gradient(carried + i)) {
        stacked.push_back(i);
        scan(a.g(carried + i), stack_axes[i], 1 - stack_reverse[i]);
      }
    for (size_t i = 0; i < captures; ++i) fixed_values.push_back(a.graph.operand(a.node, fixed + carried + slices + i));

    // One iteration.
    Graph& back = m.graph(m.make_graph(m.graph(body()).name().bytes() + "_back" + std::to_string(m.graph_count())));
    Builder b(back);
    const auto input = [&](Type type, int64_t without) {
      if (without >= 0) type.dims.erase(type.dims.begin() + without);
      return b.input("v" + std::to_string(back.inputs().size()), type);
    };
    std::vector<ValueId> operands, dstate, given, dstack, captured;
    for (ValueId v : states) {
      dstate.push_back(input(a.graph.type(v), -1));
      operands.push_back(v);
    }
    const size_t seen = counters.size() + saved.size() + slices;
    for (size_t i = 0; i < scanned.size(); ++i) {
      (i < seen ? given : dstack).push_back(input(a.graph.type(scanned[i]), s.input_axes[i]));
      operands.push_back(scanned[i]);
    }
    for (ValueId v : fixed_values) {
      captured.push_back(input(a.graph.type(v), -1));
      operands.push_back(v);
    }
    if (controls > 0)  // the condition, which held
      given.insert(given.begin() + static_cast<std::ptrdiff_t>(counters.size()), b.scalar(DType::Bool, 1));
    given.insert(given.end(), captured.begin(), captured.end());
    const std::vector<ValueId> out = inlined(b, body(), given);
    if (out.size() < controls + carried) return false;
    Term total{&b, b.scalar(DType::F32, 0)};
    bool first = true;
    const auto add = [&](ValueId y, ValueId dy) {
      const Term part = Term{&b, y} * Term{&b, dy};
      std::vector<int64_t> axes(static_cast<size_t>(part.rank()));
      for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
      const Term one = sum(part, axes, false);
      total = first ? one : total + Term{&b, b.cast(one.v, total.dtype())};
      first = false;
    };
    for (size_t i = 0; i < moving.size(); ++i) add(out[controls + moving[i]], dstate[i]);
    for (size_t i = 0; i < stacked.size(); ++i) add(out[controls + carried + stacked[i]], dstack[i]);
    std::vector<ValueId> wrt;
    const size_t shift = counters.size() + controls;
    for (size_t i : moving) wrt.push_back(given[shift + i]);
    for (size_t i : summed) wrt.push_back(captured[i]);
    for (size_t i : sliced) wrt.push_back(given[shift + carried + i]);
    Diagnostics inner;
    const auto grads = gradients(b, total.v, {}, wrt, {}, inner, a.expand);
    if (!grads) a.inside = inner.items()[0].message;
    if (!grads || first) return false;
    std::vector<ValueId> results = *grads;
    for (size_t i = moving.size(); i < moving.size() + summed.size(); ++i) results[i] = b.add(results[i], dstate[i]);
    back.set_outputs(results);

    s.states = static_cast<int64_t>(states.size());
    s.scan_inputs = static_cast<int64_t>(scanned.size());
    for (size_t i : sliced) {
      s.output_axes.push_back(slice_axes[i]);
      s.output_reverse.push_back(1 - slice_reverse[i]);
    }
    const NodeId made = a.b.create_node(OpKind::Scan, operands, s, std::array{back.id()});
    if (!made.valid()) return false;
    size_t r = 0;
    const auto next = [&] { return Term{&a.b, a.graph.result(made, r++)}; };
    for (size_t i : moving) a.give(fixed + i, next());
    for (size_t i : summed) a.give(fixed + carried + slices + i, next());
    for (size_t i : sliced) a.give(fixed + carried + i, next());
    return true;
  }
};

// The node again, with a body that also gives its first `extra` inputs, stacked along axis 0; these stacks.
std::vector<Term> stacked_inputs(Adjoint& a, size_t outputs, size_t extra, size_t skip) {
  Module& m = a.b.module();
  const GraphId copy = cloned(m, a.graph.bodies(a.node)[0]);
  Graph& body = m.graph(copy);
  std::vector<ValueId> results(body.outputs().begin(), body.outputs().end());
  results.resize(std::min(results.size(), outputs));
  for (size_t i = 0; i < extra; ++i)
    if (i != skip) results.push_back(body.result(body.inputs()[i]));
  body.set_outputs(results);
  Attrs attrs = m.attrs[a.graph.attr_id(a.node)];
  const size_t stacks = extra - (skip < extra);
  if (auto* s = std::get_if<ScanAttrs>(&attrs)) {
    s->output_axes.assign(stacks, 0);
    s->output_reverse.assign(stacks, 0);
  }
  const std::vector<ValueId> operands(a.graph.operands(a.node).begin(), a.graph.operands(a.node).end());
  const NodeId made = a.b.create_node(a.graph.op(a.node), operands, attrs, std::array{copy});
  std::vector<Term> out;
  for (size_t i = 0; made.valid() && i < stacks; ++i)
    out.push_back({&a.b, a.graph.result(made, a.graph.result_count(made) - stacks + i)});
  return out;
}

bool scan_back(Adjoint& a) {
  const ScanAttrs s = a.attrs<ScanAttrs>();
  const auto states = static_cast<size_t>(s.states);
  const std::vector<Term> saved = stacked_inputs(a, states, states, states);
  if (saved.size() != states) return false;
  return Walk{
      a,     0, states, static_cast<size_t>(s.scan_inputs), 0, s.input_axes, s.input_reverse, s.output_axes, s.output_reverse,
      saved, {}}
      .run();
}

bool loop_back(Adjoint& a) {
  const auto carried = static_cast<size_t>(a.attrs<LoopAttrs>().carries);
  // Iterations of one size are stacked.
  a.inside = changing_size(a.graph, a.node);
  if (!a.inside.empty()) return false;
  std::vector<Term> saved = stacked_inputs(a, 1 + carried, 2 + carried, 1);
  if (saved.size() != 1 + carried) return false;
  const std::vector<Term> count(saved.begin(), saved.begin() + 1);
  saved.erase(saved.begin());
  const std::vector<int64_t> none(a.graph.result_count(a.node) - carried, 0);
  return Walk{a, 2, carried, 0, 1, {}, {}, none, none, saved, count}.run();
}

// Each body becomes the gradient of what it gives, by the captured values.
bool if_back(Adjoint& a) {
  Module& m = a.b.module();
  const size_t captures = a.graph.operands(a.node).size() - 1;
  std::vector<ValueId> operands(a.graph.operands(a.node).begin(), a.graph.operands(a.node).end());
  std::vector<size_t> given, wanted;
  for (size_t r = 0; r < a.graph.result_count(a.node); ++r)
    if (a.has_gradient(r)) {
      given.push_back(r);
      operands.push_back(a.g(r).v);
    }
  for (size_t i = 0; i < captures; ++i)
    if (a.wants(1 + i)) wanted.push_back(i);
  std::vector<GraphId> bodies;
  for (size_t k = 0; k < 2; ++k) {
    const GraphId of = a.graph.bodies(a.node)[k];
    Graph& back = m.graph(m.make_graph(m.graph(of).name().bytes() + "_back" + std::to_string(m.graph_count())));
    Builder b(back);
    std::vector<ValueId> inputs, ys, seeds, wrt;
    for (size_t i = 1; i < operands.size(); ++i) inputs.push_back(b.input("v" + std::to_string(i), a.graph.type(operands[i])));
    const std::vector<ValueId> out = inlined(b, of, std::span(inputs).first(captures));
    if (out.empty()) return false;
    for (size_t i = 0; i < given.size(); ++i) {
      ys.push_back(out[given[i]]);
      seeds.push_back(inputs[captures + i]);
    }
    for (size_t i : wanted) wrt.push_back(inputs[i]);
    Diagnostics inner;
    const auto made = gradients(b, ys, seeds, wrt, {}, inner, a.expand);
    if (!made) {
      a.inside = inner.items()[0].message;
      return false;
    }
    back.set_outputs(*made);
    bodies.push_back(back.id());
  }
  const NodeId made = a.b.create_node(OpKind::If, operands, a.attrs<IfAttrs>(), bodies);
  if (!made.valid()) return false;
  for (size_t k = 0; k < wanted.size(); ++k) {
    const ValueId part = a.graph.result(made, k), of = operands[1 + wanted[k]];
    a.give(1 + wanted[k], {&a.b, a.b.reshape(part, {a.graph.dims(of).begin(), a.graph.dims(of).end()})});
  }
  return true;
}

// The gradient that the definition gives.
bool custom_back(Adjoint& a) {
  if (!a.attrs<CustomAttrs>().vjp) return false;
  std::vector<ValueId> inputs(a.graph.operands(a.node).begin(), a.graph.operands(a.node).end());
  for (size_t r = 0; r < a.graph.result_count(a.node); ++r) inputs.push_back(a.graph.result(a.node, r));
  for (size_t r = 0; r < a.graph.result_count(a.node); ++r)
    if (is_float_tensor(a.graph, a.graph.result(a.node, r))) inputs.push_back(a.g(r).v);
  const std::vector<ValueId> out = inlined(a.b, a.graph.bodies(a.node)[1], inputs);
  size_t next = 0;
  for (size_t i = 0; i < a.graph.operands(a.node).size(); ++i)
    if (next < out.size() && is_float_tensor(a.graph, a.graph.operand(a.node, i))) a.give(i, {&a.b, out[next++]});
  return next > 0 && next == out.size();
}

}  // namespace

std::span<const RuleEntry> control_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Scan, scan_back}, {OpKind::Loop, loop_back}, {OpKind::If, if_back}, {OpKind::CustomOp, custom_back}};
  return kTable;
}

}  // namespace rlxc::transform
