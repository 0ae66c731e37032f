// Control flow of the reference vocabulary. Bodies are inlined into the bodies of IR ops.
#include <array>

#include "import/json/reference_rows.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
constexpr int64_t kMaxLength = int64_t{1} << 31;

ValueId if_(Node& n) {
  std::vector<GraphId> bodies;
  for (const char* branch : {"then_branch", "else_branch"}) {
    const Field* f = n.find(branch);
    if (!f) {
      n.fail(Code::BadGraph, "\"" + std::string(branch) + "\" is missing");
      return ValueId();
    }
    const GraphId id = read_reference_body(n, *f, branch + std::to_string(n.doc.module.graph_count()));
    if (!id.valid()) {
      n.good = false;
      return ValueId();
    }
    bodies.push_back(id);
  }
  const NodeId made = n.count(1, ~size_t{0}) ? n.b.create_node(OpKind::If, n.in, IfAttrs{}, bodies) : NodeId();
  return made.valid() ? n.b.graph().result(made) : ValueId();
}

Graph& new_body(Node& n, std::string_view what) {
  Module& m = n.doc.module;
  return m.graph(m.make_graph(std::string(what) + std::to_string(m.graph_count())));
}

// Returns whether all elements of a value are nonzero.
ValueId truth(Builder& b, ValueId v) {
  if (!v.valid()) return {};
  const DType t = b.graph().dtype(v);
  if (t == DType::Bool && b.graph().rank(v) == 0) return v;
  const ValueId set = b.create(OpKind::Ne, {v, b.scalar(t, 0)});
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < b.graph().rank(v); ++i) axes.push_back(i);
  if (axes.empty()) return set;
  return b.cast(b.reduce(ReduceOp::Min, b.cast(set, DType::I32), axes, false), DType::Bool);
}

// The condition is evaluated on the initial carries, and at the end of each iteration on the next ones.
ValueId while_(Node& n) {
  if (!n.count(1, ~size_t{0})) return {};
  Builder& b = n.b;
  const auto condition = [&](Builder& to, const std::vector<ValueId>& carries) {
    const auto out = read_reference_inline(n, "cond", to, {carries, {}});
    if (out.size() == 1) return truth(to, out[0]);
    if (n.good) n.fail(Code::BadArity, "the condition needs one output");
    return ValueId();
  };
  const ValueId first = condition(b, n.in);
  if (!n.good) return {};
  Graph& g = new_body(n, "while");
  Builder body(g);
  body.input("i", tensor_type(DType::I64, {}));
  body.input("go", tensor_type(DType::Bool, {}));
  std::vector<ValueId> carries;
  for (ValueId v : n.in) carries.push_back(body.input("x" + std::to_string(carries.size()), b.graph().type(v)));
  auto next = read_reference_inline(n, "body", body, {carries, {}});
  if (!n.good) return {};
  if (next.size() != carries.size()) {
    n.fail(Code::BadArity, "the body needs an output for each carried value");
    return ValueId();
  }
  const ValueId go = condition(body, next);
  if (!n.good || !go.valid()) return {};
  next.insert(next.begin(), go);
  g.set_outputs(next);
  const ValueId trips =
      n.find("max_iterations") ? b.scalar(DType::I64, static_cast<double>(n.integer("max_iterations"))) : ValueId();
  std::vector<ValueId> operands{trips, first};
  operands.insert(operands.end(), n.in.begin(), n.in.end());
  const NodeId made = b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(n.in.size())}, std::array{g.id()});
  return made.valid() ? b.graph().result(made) : ValueId();
}

// A scan over `length` steps, forward or reverse. `step` builds the body from the state, the shared values and the slices of one
// step.
struct Steps {
  ValueId state;
  std::vector<ValueId> shared, sliced;
  bool reverse = false, keep = false;  // keep: each step has a second result
};
template <class Step>
NodeId scan_of(Node& n, const Steps& s, Step step) {
  Builder& b = n.b;
  Graph& g = new_body(n, "scan");
  Builder body(g);
  std::vector<ValueId> operands{s.state}, slices, shared;
  const ValueId state = body.input("state", b.graph().type(s.state));
  for (ValueId v : s.sliced) {
    Type t = b.graph().type(v);
    if (t.dims.empty()) {
      n.fail(Code::BadShape, "a sliced input needs an axis");
      return NodeId();
    }
    t.dims.erase(t.dims.begin());
    slices.push_back(body.input("slice" + std::to_string(slices.size()), std::move(t)));
    operands.push_back(v);
  }
  for (ValueId v : s.shared) {
    shared.push_back(body.input("shared" + std::to_string(shared.size()), b.graph().type(v)));
    operands.push_back(v);
  }
  const std::vector<ValueId> results = step(body, state, shared, slices);
  if (!n.good || results.empty()) return {};
  g.set_outputs(results);
  ScanAttrs a;
  a.states = 1;
  a.scan_inputs = static_cast<int64_t>(s.sliced.size());
  a.input_axes.assign(s.sliced.size(), 0);
  a.input_reverse.assign(s.sliced.size(), s.reverse);
  a.output_axes.assign(s.keep, 0);
  a.output_reverse.assign(s.keep, s.reverse);
  return b.create_node(OpKind::Scan, operands, std::move(a), std::array{g.id()});
}

std::optional<int64_t> length_of(Node& n) {
  const int64_t length = n.integer("length");
  if (n.good && length >= 0 && length < kMaxLength) return length;
  if (n.good) n.fail(Code::BadAttribute, "\"length\" is out of range");
  return std::nullopt;
}
ValueId steps_of(Builder& b, int64_t length) {  // 0, 1, .. length-1, an input to slice
  return b.create(OpKind::Range, {b.scalar(DType::I64, 0), b.scalar(DType::I64, 1)}, DimsAttrs{{Dim(length)}, false});
}

// Operands: init, shared values, sequences. Returns the last state, or all states (or `num_checkpoints` of them, including the
// last).
ValueId scan(Node& n) {
  const int64_t bcast = n.integer("num_bcast", 0), xs = n.integer("num_xs", 0), kept = n.integer("num_checkpoints", 0);
  const auto length = length_of(n);
  if (!length || bcast < 0 || xs < 0 || !n.count(static_cast<size_t>(1 + bcast + xs), static_cast<size_t>(1 + bcast + xs)))
    return {};
  const bool trajectory = n.flag("save_trajectory");
  Steps s{n.in[0], {n.in.begin() + 1, n.in.begin() + 1 + bcast}, {n.in.begin() + 1 + bcast, n.in.end()}, false, trajectory};
  if (s.sliced.empty()) s.sliced.push_back(steps_of(n.b, *length));
  const NodeId made = scan_of(n, s, [&](Builder& body, ValueId state, const auto& shared, const auto& slices) {
    std::vector<ValueId> in{state};
    in.insert(in.end(), shared.begin(), shared.end());
    in.insert(in.end(), slices.begin(), slices.begin() + xs);
    auto out = read_reference_inline(n, "body", body, {in, {}});
    if (n.good && out.size() != 1) n.fail(Code::BadArity, "the body needs one output");
    if (trajectory && out.size() == 1) out.push_back(out[0]);
    return out;
  });
  if (!made.valid()) return {};
  const ValueId all = n.b.graph().result(made, trajectory);
  if (!trajectory || kept <= 0 || kept >= *length) return all;
  std::vector<int64_t> rows;
  for (int64_t k = 0; k < kept; ++k) rows.push_back(((k + 1) * *length + kept - 1) / kept - 1);
  return n.b.create(OpKind::Gather, {all, n.b.ints(std::move(rows))}, AxisAttrs{0});
}

// Operands: init, the states after each step, the gradient of the result, sequences. Runs from the last step to the first.
// `result` 0 is the gradient of init, 1 + i that of sequence i.
ValueId scan_backward_result(Node& n, size_t result) {
  const int64_t xs = n.integer("num_xs", 0), kept = n.integer("num_checkpoints", 0);
  const auto length = length_of(n);
  if (!length || xs < 0 || !n.count(static_cast<size_t>(3 + xs), static_cast<size_t>(3 + xs))) return {};
  if (kept > 0 && kept < *length) {
    n.fail(Code::UnsupportedAttribute, "states of some steps only");
    return ValueId();
  }
  if (*length == 0) {
    n.fail(Code::UnsupportedAttribute, "no steps");
    return ValueId();
  }
  if (result > static_cast<size_t>(xs)) {
    n.fail(Code::BadAttribute, "\"xs_idx\" is out of range");
    return ValueId();
  }
  Builder& b = n.b;
  const bool trajectory = n.flag("save_trajectory");
  std::vector<Dim> one(b.graph().dims(n.in[0]).begin(), b.graph().dims(n.in[0]).end());
  one.insert(one.begin(), Dim(1));
  // The state before each step.
  const ValueId before = *length == 1
                             ? b.reshape(n.in[0], one)
                             : b.concat(std::array{b.reshape(n.in[0], one), b.narrow(n.in[1], 0, Dim(0), Dim(*length - 1))}, 0);
  Steps s;
  s.reverse = true;
  s.keep = result > 0;
  s.sliced = {before};
  s.sliced.insert(s.sliced.end(), n.in.begin() + 3, n.in.end());
  s.state = n.in[2];
  if (trajectory) {
    s.sliced.push_back(n.in[2]);
    const DType t = b.graph().dtype(n.in[0]);
    s.state = b.expand(b.scalar(t, 0), {one.begin() + 1, one.end()});
  }
  if (!before.valid() || !s.state.valid()) return {};
  const NodeId made = scan_of(n, s, [&](Builder& body, ValueId gradient, const auto&, const auto& slices) {
    if (trajectory) gradient = body.add(gradient, slices.back());
    auto out = read_reference_inline(n, "body_vjp", body, {{slices.begin(), slices.begin() + 1 + xs}, {{"d_output", gradient}}});
    if (n.good && out.size() != static_cast<size_t>(1 + xs)) n.fail(Code::BadArity, "the body needs a gradient for each input");
    std::vector<ValueId> results;
    if (n.good) results.push_back(out[0]);
    if (n.good && result > 0) results.push_back(out[result]);
    return results;
  });
  return made.valid() ? b.graph().result(made, result > 0) : ValueId();
}
ValueId scan_backward(Node& n) { return scan_backward_result(n, 0); }
ValueId scan_backward_xs(Node& n) {
  const int64_t i = n.integer("xs_idx", 0);
  return i < 0 ? (n.fail(Code::BadAttribute, "\"xs_idx\" is out of range"), ValueId())
               : scan_backward_result(n, static_cast<size_t>(i) + 1);
}

ValueId custom_value(Node& n, Builder& b, const std::vector<ValueId>& inputs) {
  const auto out = read_reference_inline(n, "fwd_body", b, {inputs, {}});
  if (n.good && out.size() != 1) n.fail(Code::BadArity, "the body needs one output");
  return n.good ? out[0] : ValueId();
}

// A graph with inputs like these values.
Graph& body_like(Node& n, std::span<const ValueId> values, std::vector<ValueId>* inputs) {
  Module& m = n.doc.module;
  Graph& g = m.graph(m.make_graph("custom" + std::to_string(m.graph_count())));
  Builder b(g);
  for (ValueId v : values) inputs->push_back(b.input("v" + std::to_string(inputs->size()), n.b.graph().type(v)));
  return g;
}

// A function with derivatives of its own. Without them it is part of the graph.
ValueId custom_fn(Node& n) {
  const bool has_gradient = n.find("vjp_body"), has_tangent = n.find("jvp_body");
  if (!has_gradient && !has_tangent) return custom_value(n, n.b, n.in);
  const size_t count = n.in.size();
  const auto is_real = [&](ValueId v) { return is_float(n.b.graph().dtype(v)); };
  std::vector<ValueId> inputs;
  std::vector<GraphId> bodies;
  Graph& value = body_like(n, n.in, &inputs);
  Builder in_value(value);
  const ValueId y = custom_value(n, in_value, inputs);
  if (!y.valid()) return ValueId();
  if (!is_float(value.dtype(y))) return custom_value(n, n.b, n.in);
  value.set_outputs(std::array{y});
  bodies.push_back(value.id());
  const Type result = value.type(y);
  if (has_gradient) {
    inputs.clear();
    Graph& back = body_like(n, n.in, &inputs);
    Builder b(back);
    const ValueId of = b.input("primal_output", result), g = b.input("d_output", result);
    const auto out = read_reference_inline(n, "vjp_body", b, {inputs, {{"primal_output", of}, {"d_output", g}}});
    if (n.good && out.size() != count) n.fail(Code::BadArity, "\"vjp_body\" needs a gradient for each input");
    std::vector<ValueId> given;
    for (size_t i = 0; i < count && n.good; ++i)
      if (is_real(n.in[i])) given.push_back(out[i]);
    back.set_outputs(given);
    bodies.push_back(back.id());
  }
  if (has_tangent) {
    inputs.clear();
    Graph& forward = body_like(n, n.in, &inputs);
    Builder b(forward);
    BoundInputs bound{inputs, {}};
    for (size_t i = 0; i < count; ++i)
      if (is_real(n.in[i]))
        bound.by_name.emplace_back("tangent_" + std::to_string(i),
                                   b.input("tangent" + std::to_string(i), n.b.graph().type(n.in[i])));
    bound.by_name.emplace_back("primal_output", custom_value(n, b, inputs));
    const auto out = n.good ? read_reference_inline(n, "jvp_body", b, bound) : std::vector<ValueId>();
    if (n.good && out.size() != 1) n.fail(Code::BadArity, "\"jvp_body\" needs one output");
    forward.set_outputs(out);
    bodies.push_back(forward.id());
  }
  if (!n.good) return ValueId();
  const NodeId made = n.b.create_node(OpKind::CustomOp, n.in, CustomAttrs{"CustomFn", has_gradient, has_tangent, false}, bodies);
  return made.valid() ? n.b.graph().result(made) : ValueId();
}

// Ops that are known but cannot be imported.
ValueId refused(Node& n) {
  const bool splat = n.op.starts_with("GaussianSplat");
  n.fail(Code::UnsupportedOp, splat ? "rendering of splats is not supported" : "operations of a host program are not supported");
  return ValueId();
}

}  // namespace

std::span<const ReferenceRow> reference_control_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"If", if_},
      {"While", while_},
      {"Scan", scan},
      {"ScanBackward", scan_backward},
      {"ScanBackwardXs", scan_backward_xs},
      {"CustomFn", custom_fn},
      {"Custom", refused},
      {"GaussianSplatRender", refused},
      {"GaussianSplatRenderBackward", refused},
      {"GaussianSplatPrepare", refused},
      {"GaussianSplatRasterize", refused},
  };
  return kRows;
}

}  // namespace rlxc::import_json
