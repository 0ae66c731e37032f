// Batching of control flow: bodies compute all samples, and a loop runs once for all of them.
#include <algorithm>
#include <array>

#include "ir/dim_postfix.h"
#include "transform/batch_rules.h"
#include "transform/copy.h"

namespace rlxc::transform {
namespace {

Term lifted(Builder& b, Batched x, Dim size) {
  if (x.has_axis) return {&b, x.v};
  std::vector<Dim> d(b.graph().dims(x.v).begin(), b.graph().dims(x.v).end());
  d.insert(d.begin(), size);
  return expand(Term{&b, x.v}, d);
}

// The body for all samples. `has_axis`: which inputs have the axis; `lift`: which outputs must have it, others have it only if
// they depend on such an input. Returns which outputs have it. Invalid after errors.
struct BatchedBody {
  GraphId graph;
  std::vector<bool> has_axis;
};
BatchedBody batched_graph(Batch& t, GraphId body, const std::vector<bool>& has_axis, const std::vector<bool>& lift) {
  Module& m = t.b.module();
  Graph& made = m.graph(m.make_graph(m.graph(body).name().bytes() + "_batch" + std::to_string(m.graph_count())));
  Builder b(made);
  std::vector<Batched> inputs;
  for (size_t i = 0; i < has_axis.size(); ++i) {
    Type type = m.graph(body).type(m.graph(body).result(m.graph(body).inputs()[i]));
    if (has_axis[i]) type.dims.insert(type.dims.begin(), t.size);
    inputs.push_back({b.input("v" + std::to_string(i), std::move(type)), has_axis[i]});
  }
  Diagnostics inner;
  const auto out = batched_body(b, body, inputs, t.size, t.expand, inner);
  if (out.empty()) {
    t.why = inner.items().empty() ? "" : inner.items()[0].message;
    made.clear();
    return BatchedBody{};
  }
  BatchedBody result{made.id(), {}};
  std::vector<ValueId> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const bool wanted = out[i].has_axis || (i < lift.size() && lift[i]);
    results.push_back(wanted ? lifted(b, out[i], t.size).v : out[i].v);
    result.has_axis.push_back(wanted);
  }
  made.set_outputs(results);
  return result;
}

// As the walks of derivatives (duals_control.cpp): `fixed` operands, carried values, slices, captures. Fails, and says so in
// `differ`, if samples iterate a different number of times.
bool loop(Batch& t, size_t fixed, size_t carried, size_t slices, size_t controls, Attrs attrs, bool* differ = nullptr) {
  for (size_t i = 0; i < fixed; ++i)
    if (t.batched(i)) {
      *differ = true;
      return false;
    }
  const size_t count = t.count();
  std::vector<bool> has_axis(count), lift;
  for (size_t i = fixed; i < count; ++i) has_axis[i] = t.batched(i);
  BatchedBody body;
  for (;;) {  // carried values have the axis when what replaces them has
    lift.assign(controls + carried, false);
    for (size_t i = 0; i < carried; ++i) lift[controls + i] = has_axis[fixed + i];
    body = batched_graph(t, t.graph.bodies(t.node)[0], has_axis, lift);
    if (!body.graph.valid()) return false;
    bool more = false;
    for (size_t i = 0; i < carried; ++i)
      if (body.has_axis[controls + i] && !has_axis[fixed + i]) has_axis[fixed + i] = more = true;
    if (!more) break;
    t.b.module().graph(body.graph).clear();
  }
  if (controls > 0 && body.has_axis[0]) {
    t.b.module().graph(body.graph).clear();
    *differ = true;
    return false;
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < count; ++i) {
    const bool state = i >= fixed && i < fixed + carried && has_axis[i];
    operands.push_back(state ? t.lifted(i).v : t.in(i).v);
  }
  // The axis of samples comes before that of slices and behind that of stacks of a Loop.
  if (auto* s = std::get_if<ScanAttrs>(&attrs)) {
    for (size_t i = 0; i < slices; ++i) s->input_axes[i] += has_axis[fixed + carried + i];
    for (size_t i = 0; i < s->output_axes.size(); ++i) s->output_axes[i] += body.has_axis[controls + carried + i];
  }
  const NodeId n = t.b.create_node(t.op(), operands, attrs, std::array{body.graph});
  if (!n.valid()) return false;
  for (size_t r = 0; r < t.results.size(); ++r) {
    Term y{&t.b, t.b.graph().result(n, r)};
    const bool axis = body.has_axis[controls + r];
    if (axis && r >= carried && std::holds_alternative<LoopAttrs>(attrs)) {
      std::vector<int64_t> order{1, 0};
      for (int64_t k = 2; k < y.rank(); ++k) order.push_back(k);
      y = transpose(y, order);
    }
    t.results[r] = {y.v, axis};
  }
  return true;
}

bool scan_batch(Batch& t) {
  const ScanAttrs s = t.attrs<ScanAttrs>();
  return loop(t, 0, static_cast<size_t>(s.states), static_cast<size_t>(s.scan_inputs), 0, s);
}

// Runs as often as the sample with the most iterations. Once those of a sample are over, its carried values stay as they are.
bool masked_loop(Batch& t, size_t carried) {
  constexpr size_t kFixed = 2;
  if (t.results.size() > carried) {
    t.why = "samples would iterate a different number of times and stack as many values";
    return false;
  }
  t.why = changing_size(t.graph, t.node);
  if (!t.why.empty()) return false;
  const auto any = [](Term flags) {
    const Term most = reduce(ReduceOp::Max, flags.as(DType::I32), {0}, false);
    return make(OpKind::Ne, {most, most.number(0)});
  };
  const auto flat = [&](Term x) { return reshape(x, {t.size}); };
  const bool own_limits = t.batched(0);
  Term active = t.has(1) ? flat(t.lifted(1)) : expand(Term{&t.b, t.b.scalar(DType::Bool, 1)}, {t.size});
  Term limits = t.in(0);
  if (own_limits) {
    limits = flat(limits);
    active = both(active, limits > 0);
  }
  Module& m = t.b.module();
  const GraphId body = t.graph.bodies(t.node)[0];
  Graph& made = m.graph(m.make_graph(m.graph(body).name().bytes() + "_batch" + std::to_string(m.graph_count())));
  Builder b(made);
  std::vector<ValueId> operands{(own_limits ? reduce(ReduceOp::Max, limits, {0}, false) : limits).v, any(active).v};
  const auto input = [&](Type type) { return Term{&b, b.input("v" + std::to_string(made.inputs().size()), std::move(type))}; };
  const auto passed = [&](Term outside) {
    operands.push_back(outside.v);
    return input(t.b.graph().type(outside.v));
  };
  const Term at = input(tensor_type(DType::I64, {}));
  input(tensor_type(DType::Bool, {}));
  const Term running = passed(active);
  std::vector<Batched> inputs{{at.v, false}, {b.scalar(DType::Bool, 1), false}};
  for (size_t i = kFixed; i < kFixed + carried; ++i) inputs.push_back({passed(t.lifted(i)).v, true});
  const Term own = own_limits ? passed(limits) : limits;
  for (size_t i = kFixed + carried; i < t.count(); ++i) inputs.push_back({passed(t.in(i)).v, t.batched(i)});

  Diagnostics inner;
  const auto out = batched_body(b, body, inputs, t.size, t.expand, inner);
  if (out.empty()) {
    t.why = inner.items().empty() ? "" : inner.items()[0].message;
    made.clear();
    return false;
  }
  Term goes_on = both(running, flat(lifted(b, out[0], t.size)));
  if (own_limits) goes_on = both(goes_on, own > at + 1);
  std::vector<ValueId> results{any(goes_on).v, goes_on.v};
  for (size_t i = 0; i < carried; ++i) {
    const Term before{&b, inputs[kFixed + i].v};
    std::vector<Dim> beside(static_cast<size_t>(before.rank()), Dim(1));
    beside[0] = t.size;
    results.push_back(select(reshape(running, beside), lifted(b, out[1 + i], t.size), before).v);
  }
  made.set_outputs(results);
  const NodeId n = t.b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(carried) + 1}, std::array{made.id()});
  for (size_t r = 0; n.valid() && r < carried; ++r) t.give({&t.b, t.b.graph().result(n, r + 1)}, r);
  return n.valid();
}

bool loop_batch(Batch& t) {
  const LoopAttrs l = t.attrs<LoopAttrs>();
  const auto carried = static_cast<size_t>(l.carries);
  bool differ = false;
  return loop(t, 2, carried, 0, 1, l, &differ) || (differ && masked_loop(t, carried));
}

// A condition for each sample: both bodies are computed, and each sample takes the results of one.
bool if_batch(Batch& t) {
  const std::vector<GraphId> bodies(t.graph.bodies(t.node).begin(), t.graph.bodies(t.node).end());
  if (t.batched(0)) {
    std::vector<std::vector<Batched>> results;
    for (GraphId body : bodies) {
      Diagnostics inner;
      results.push_back(batched_body(t.b, body, t.operands().subspan(1), t.size, t.expand, inner));
      if (results.back().empty()) {
        t.why = inner.items().empty() ? "" : inner.items()[0].message;
        return false;
      }
    }
    for (size_t r = 0; r < t.results.size(); ++r) {
      const Term a = lifted(t.b, results[0][r], t.size), b = lifted(t.b, results[1][r], t.size);
      if (a.dims() != b.dims()) {
        t.why = "samples would have results of different sizes";
        return false;
      }
      std::vector<Dim> beside(static_cast<size_t>(a.rank()), Dim(1));
      beside[0] = t.size;
      t.give(select(reshape(t.in(0), beside), a, b), r);
    }
    return true;
  }
  std::vector<bool> has_axis;
  std::vector<ValueId> operands{t.in(0).v};
  for (size_t i = 1; i < t.count(); ++i) {
    has_axis.push_back(t.batched(i));
    operands.push_back(t.in(i).v);
  }
  const std::vector<bool> all(t.results.size(), true);
  const BatchedBody a = batched_graph(t, bodies[0], has_axis, all), b = batched_graph(t, bodies[1], has_axis, all);
  if (!a.graph.valid() || !b.graph.valid()) return false;
  const NodeId n = t.b.create_node(OpKind::If, operands, t.attrs<IfAttrs>(), std::array{a.graph, b.graph});
  for (size_t r = 0; n.valid() && r < t.results.size(); ++r) t.give({&t.b, t.b.graph().result(n, r)}, r);
  return n.valid();
}

// The batch that the definition gives, for a number of samples that is a symbol there; else that of the body.
bool custom_batch(Batch& t) {
  if (!t.attrs<CustomAttrs>().vmap || t.count() == 0) {
    Diagnostics inner;
    t.results = batched_body(t.b, t.graph.bodies(t.node)[0], t.operands(), t.size, t.expand, inner);
    t.why = inner.items().empty() ? "" : inner.items()[0].message;
    return !t.results.empty();
  }
  Module& m = t.b.module();
  const GraphId body = t.graph.bodies(t.node)[t.graph.bodies(t.node).size() - 1];
  const auto samples = symbol_name(m.dims, m.graph(body).dims(m.graph(body).result(m.graph(body).inputs()[0]))[0]);
  if (!samples) return false;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < t.count(); ++i) inputs.push_back(t.lifted(i).v);
  const std::vector<ValueId> out = inlined(t.b, body, inputs, {{*samples, t.size}});
  for (size_t r = 0; r < out.size(); ++r) t.give({&t.b, out[r]}, r);
  return !out.empty() && out.size() == t.results.size();
}

}  // namespace

std::span<const BatchEntry> control_batches() {
  static constexpr BatchEntry kTable[] = {
      {OpKind::Scan, scan_batch}, {OpKind::Loop, loop_batch}, {OpKind::If, if_batch}, {OpKind::CustomOp, custom_batch}};
  return kTable;
}

}  // namespace rlxc::transform
