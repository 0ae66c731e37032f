// If, Loop and Scan: bodies become subgraphs, and their captures become operands.
#include <algorithm>
#include <array>

#include "import/onnx/attention.h"
#include "import/onnx/expressions.h"
#include "import/onnx/handlers.h"
#include "ir/infer.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

constexpr int64_t kMaxUnrolled = 64;  // iterations of a loop that are copied
constexpr int kMaxWidenings = 3;      // of carried shapes, before all remaining dims become symbolic

void set_results(Op& op, NodeId n) {
  if (!n.valid()) return;
  for (size_t i = 0; i < op.outputs() && i < op.graph().result_count(n); ++i) op.set(i, op.graph().result(n, i));
}

void append_captures(Op& op, std::span<const Frame::Capture> captures, std::vector<ValueId>* operands) {
  for (const Frame::Capture& c : captures) operands->push_back(op.im.materialise(c.outer));
}

std::string body_name(Op& op, std::string_view what) {
  return std::string(op.node().name.empty() ? op.node().op_type : op.node().name) + "." + std::string(what);
}

// Returns the two dims that a condition compares, through exporter idioms like `If (Equal (Gather (Shape x), 1))`.
std::optional<std::pair<Dim, Dim>> compared_sizes(Op& op, ValueId condition) {
  const Graph& g = op.graph();
  const auto size = [&](ValueId v) -> std::optional<Dim> {
    while (g.op(g.def(v)) == OpKind::Reshape || g.op(g.def(v)) == OpKind::Cast) v = g.operand(g.def(v), 0);
    const NodeId n = g.def(v);
    if (g.op(n) == OpKind::DimValue && g.attrs<DimsAttrs>(n).dims.size() == 1) return g.attrs<DimsAttrs>(n).dims[0];
    if (g.op(n) != OpKind::Constant || num_elements(g.type(v)) != 1 || !is_integer(g.dtype(v))) return std::nullopt;
    return op.dims().constant(element_as_int(op.im.module().data[g.attrs<DataAttrs>(n).data], 0));
  };
  while (g.op(g.def(condition)) == OpKind::Reshape) condition = g.operand(g.def(condition), 0);
  const NodeId n = g.def(condition);
  if (g.op(n) != OpKind::Eq) return std::nullopt;
  const auto a = size(g.operand(n, 0)), b = size(g.operand(n, 1));
  return a && b ? std::optional(std::pair(*a, *b)) : std::nullopt;
}

bool ranks_differ(const Graph& a, const Graph& b) {
  for (size_t i = 0; i < std::min(a.outputs().size(), b.outputs().size()); ++i) {
    const Type &x = a.type(a.outputs()[i]), &y = b.type(b.outputs()[i]);
    if (x.kind == TypeKind::Tensor && y.kind == TypeKind::Tensor && x.rank() != y.rank()) return true;  // sequences may mix ranks
  }
  return false;
}

// Reshapes single elements to the rank of the other branch's result. Returns false if ranks still differ.
bool same_ranks(Op& op, Graph* a, Graph* b) {
  for (auto [g, other] : {std::pair(a, b), std::pair(b, a)}) {
    Builder builder(*g, &op.im.pending());
    std::vector<ValueId> outputs(g->outputs().begin(), g->outputs().end());
    for (size_t i = 0; i < std::min(outputs.size(), other->outputs().size()); ++i) {
      const Type &have = g->type(outputs[i]), &want = other->type(other->outputs()[i]);
      if (have.kind != TypeKind::Tensor || want.kind != TypeKind::Tensor || have.rank() >= want.rank()) continue;
      if (num_elements(have) == 1) outputs[i] = builder.reshape(outputs[i], std::vector<Dim>(want.dims.size(), Dim(1)));
    }
    g->set_outputs(outputs);
  }
  if (ranks_differ(*a, *b)) return false;
  op.im.diagnostics().warning(Code::BadShape, "the rank of a result depends on the condition: single elements get the larger one",
                              "node " + quote(op.node().name));
  return true;
}

void inline_branch(Op& op, Bytes body) {
  const auto results = op.im.inline_body(body);
  if (results.empty()) return op.give_up();
  for (size_t i = 0; i < results.size(); ++i) op.set_ref(i, results[i]);
}

// A body that an If may run. It may contradict the known sizes, because it may never run.
struct Branch {
  std::string name;
  Bytes body;
  std::vector<Frame::Capture> captures = {};
  std::vector<Dim> equal = {};
  Graph* graph = nullptr;
  std::string misfit = {};  // why it contradicts them; there is no graph then

  // Returns false on other errors.
  bool read(Op& op) {
    const Diagnostics before = op.im.diagnostics();
    const size_t graphs = op.im.module().graph_count();
    op.dims().begin_part();
    graph = op.im.import_body(body, name, {}, &captures);
    equal = op.dims().end_part();
    if (graph) return true;
    const auto& said = op.im.diagnostics().items();
    for (size_t i = before.items().size(); i < said.size(); ++i) {
      if (said[i].severity != Severity::Error) continue;
      if (said[i].code != Code::BadShape) return false;
      if (misfit.empty()) misfit = said[i].where + ": " + said[i].message;
    }
    if (misfit.empty() || !op.im.pending().ok()) return false;
    op.im.diagnostics() = before;
    for (size_t i = graphs; i < op.im.module().graph_count(); ++i) op.im.module().graph(GraphId(i)).clear();
    return true;
  }

  // Builds a body that fails at run time, because it requires unequal sizes to be equal. Its results have the other's types.
  bool refuse(Op& op, const Branch& other) {
    graph = &op.im.module().graph(op.im.module().make_graph(name));
    Builder b(*graph, &op.im.pending());
    op.im.add_capture_inputs(*graph, other.captures);
    for (ValueId v : other.graph->outputs()) {
      const Type& t = other.graph->type(v);
      if (t.kind != TypeKind::Tensor || t.dtype == DType::String) return false;
      graph->add_output(b.expand(b.scalar(t.dtype, 0), t.dims), {});
    }
    equal = {Dim(0), Dim(1)};
    op.im.diagnostics().warning(Code::BadShape, "the body does not fit the sizes, to run it will be an error: " + misfit, name);
    return true;
  }
};

}  // namespace

// If the ranks of results depend on a size comparison (exporters' squeeze of an axis of unknown size), assumes that the sizes are
// equal: a condition of the model that is checked when sizes are bound.
void if_else(Op& op) {
  const auto then_body = op.body("then_branch"), else_body = op.body("else_branch");
  if (!then_body || !else_body) return;
  if (op.dtype(0) != DType::Bool) return (void)op.fail(Code::BadType, "the condition must be a bool, is " + op.show(0));
  if (const auto known = op.known_ints(0); known && known->size() == 1)
    return inline_branch(op, (*known)[0] ? *then_body : *else_body);
  const ValueId condition = op.in(0);
  Branch a{body_name(op, "then"), *then_body}, b{body_name(op, "else"), *else_body};
  if (!a.read(op)) return op.give_up();
  b.captures = a.captures;
  if (!b.read(op)) return op.give_up();
  if (!a.graph && !b.graph) return (void)op.fail(Code::BadShape, "neither body fits the sizes: " + a.misfit + "; " + b.misfit);
  if (!(a.graph ? b.graph || b.refuse(op, a) : a.refuse(op, b)))
    return (void)op.fail(Code::BadShape, "the body " + quote(a.misfit.empty() ? b.name : a.name) + " does not fit the sizes");
  if (ranks_differ(*a.graph, *b.graph) && (compared_sizes(op, condition) || !same_ranks(op, a.graph, b.graph))) {
    const auto equal = compared_sizes(op, condition);
    a.graph->clear();
    b.graph->clear();
    if (!equal)
      return (void)op.fail(Code::UnsupportedAttribute,
                           "the ranks of the results depend on the condition, which is not known here",
                           "bind sizes, or give input data, so that it is known when the model is read");
    const bool possible = op.dims().assume_equal(equal->first, equal->second);
    return inline_branch(op, possible ? *then_body : *else_body);
  }
  const auto& captures = b.misfit.empty() ? b.captures : a.captures;
  if (a.misfit.empty() && b.misfit.empty()) op.im.add_capture_inputs(*a.graph, std::span(captures).subspan(a.captures.size()));
  std::vector<ValueId> operands{condition};
  append_captures(op, captures, &operands);
  const std::array bodies{a.graph->id(), b.graph->id()};
  set_results(op, op.b.create_node(OpKind::If, operands, IfAttrs{a.equal, b.equal}, bodies));
}

namespace {

// A loop that changes the rank of a carried value: copies the body for each iteration, whose number must be known.
void unrolled(Op& op, Bytes body, std::span<const ValueId> operands, size_t changing) {
  const auto refuse = [&](const std::string& why) {
    op.unsupported("carried value " + std::to_string(changing) + " changes its rank, and " + why);
  };
  const size_t carries = operands.size() - 2;
  int64_t count = kMaxUnrolled + 1;
  if (op.has(0)) {
    const auto known = op.known_ints(0);
    if (!known || known->size() != 1) return refuse("the number of iterations is not known");
    count = (*known)[0];
  }
  std::vector<ValId> state;
  for (ValueId v : operands.subspan(1)) state.push_back(op.im.value(v));
  std::vector<std::vector<ValueId>> scanned;
  for (int64_t i = 0; i < count; ++i) {
    if (i == kMaxUnrolled) return refuse("there are more than " + std::to_string(kMaxUnrolled) + " iterations");
    const TensorData* going = op.im.tensor(state[0]);
    if (!going || going->elements() != 1) return refuse("its condition is not known");
    if (element_as_int(*going, 0) == 0) break;
    std::vector<ValId> inputs{op.im.value(integer(op, i))};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const std::vector<ValId> results = op.im.inline_body(body, inputs);
    if (results.size() < 1 + carries) return op.give_up();
    state.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(1 + carries));
    scanned.resize(results.size() - state.size());
    for (size_t k = 0; k < scanned.size(); ++k) {
      const ValueId v = op.im.materialise(results[state.size() + k]);
      if (!v.valid() || op.graph().type(v).kind != TypeKind::Tensor) return op.give_up();
      std::vector<Dim> one = dims_of(op, v);
      one.insert(one.begin(), Dim(1));
      scanned[k].push_back(op.b.reshape(v, one));
    }
  }
  if (op.outputs() > carries + scanned.size()) return refuse("no iteration tells the shape of its scanned results");
  for (size_t i = 0; i < op.outputs(); ++i)
    if (i < carries) op.set_ref(i, state[i + 1]);
    else op.set(i, op.b.concat(scanned[i - carries], 0));
}

}  // namespace

// If a carried tensor changes its shape between iterations, imports the body again with symbolic dims for it.
void loop(Op& op) {
  const auto body = op.body("body");
  if (!body) return;
  std::vector<Type> types{tensor_type(DType::I64, {}), tensor_type(DType::Bool, {})};
  for (size_t i = 2; i < op.inputs(); ++i) {
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "carried value " + std::to_string(i - 2) + " is absent");
    types.push_back(op.type(i));
  }
  const size_t carries = types.size() - 2;
  std::vector<ValueId> operands{op.has(0) ? op.b.reshape(op.in(0), {}) : ValueId(),
                                op.has(1) ? op.b.reshape(op.in(1), {}) : op.b.scalar(DType::Bool, 1)};
  for (size_t i = 0; i < carries; ++i) operands.push_back(op.in(i + 2));
  std::vector<Frame::Capture> captures;
  std::vector<bool> opened(carries);
  Graph* g = nullptr;
  for (int attempt = 0;; ++attempt) {
    captures.clear();
    if (g) g->clear();
    g = op.im.import_body(*body, body_name(op, "body"), types, &captures, g);
    if (!g) return op.give_up();
    if (g->outputs().size() < 1 + carries)
      return (void)op.fail(Code::BadGraph, "the body has " + std::to_string(g->outputs().size()) + " outputs for " +
                                               std::to_string(carries) + " carried values");
    bool stable = true;
    opened.assign(carries, false);
    for (size_t i = 0; i < carries; ++i) {
      Type& in = types[i + 2];
      const Type& out = g->type(g->outputs()[i + 1]);
      if (in.kind == TypeKind::Optional && in.of_sequence == (out.kind == TypeKind::Sequence) && out.kind != TypeKind::Optional &&
          in.dtype == out.dtype && in.key == MapKey::None) {
        // Enters as an optional and leaves as its element: carried as an optional.
        std::vector<ValueId> results(g->outputs().begin(), g->outputs().end());
        results[i + 1] =
            Builder(*g, &op.im.pending()).create(OpKind::OptionalMake, {results[i + 1]}, OptionalAttrs{in.dtype, in.of_sequence});
        if (!results[i + 1].valid()) return;
        g->set_outputs(results);
        opened[i] = true;
        continue;
      }
      if (in.kind != out.kind || in.dtype != out.dtype || in.of_sequence != out.of_sequence || in.key != out.key)
        return (void)op.fail(Code::BadType, "carried value " + std::to_string(i) + " changes its type from " +
                                                text(in, op.dims()) + " to " + text(out, op.dims()));
      if (in.kind != TypeKind::Tensor) {
        if (in == out || attempt > kMaxWidenings) continue;
        const Type joined = join_elements(op.dims(), in, out);
        stable = stable && joined == in;
        in = joined;
        continue;
      }
      if (in.rank() != out.rank()) {
        g->clear();
        return unrolled(op, *body, operands, i);
      }
      for (size_t k = 0; k < in.dims.size(); ++k)
        if (!op.dims().equal(in.dims[k], out.dims[k])) {
          if (attempt > kMaxWidenings) continue;
          in.dims[k] = op.dims().fresh("carried");
          stable = false;
        }
    }
    if (stable || attempt > kMaxWidenings) break;
  }
  append_captures(op, captures, &operands);
  const NodeId n = op.b.create_node(OpKind::Loop, operands, LoopAttrs{static_cast<int64_t>(carries)}, std::array{g->id()});
  set_results(op, n);
  for (size_t i = 0; n.valid() && i < carries; ++i)
    if (opened[i]) op.set(i, op.b.create(OpKind::OptionalGet, {op.graph().result(n, i)}));
}

namespace {

// The state after `length` steps: the first one, or one of `all` [T,...].
ValueId state_after(Op& op, ValueId first, ValueId all, ValueId length) {
  std::vector<Dim> one = dims_of(op, first);
  one.insert(one.begin(), Dim(1));
  const ValueId states = op.b.concat(std::array{op.b.reshape(first, one), all}, 0);
  return op.b.create(OpKind::Gather, {states, length}, AxisAttrs{0});
}

// Zeros in place of the results [T,...] from step `length` on.
ValueId zero_after(Op& op, ValueId x, ValueId length) {
  const Dim steps = op.graph().dims(x)[0];
  std::vector<Dim> column(op.graph().dims(x).size(), Dim(1));
  column[0] = steps;
  const ValueId kept = op.b.reshape(compute(op, OpKind::Lt, positions(op, steps), length), column);
  return select(op, kept, x, op.b.scalar(op.graph().dtype(x), 0));
}

// Opset 8: the first input has the length of each batch entry (absent: full length), axis 0 of all others is the batch, axis 1 of
// scan inputs is scanned. Emits one Scan per entry.
void scan_batches(Op& op) {
  const auto body = op.body("body");
  const int64_t inputs = op.i("num_scan_inputs", 0), states = static_cast<int64_t>(op.inputs()) - 1 - inputs;
  if (!body) return;
  if (inputs < 1 || states < 0)
    return (void)op.fail(Code::BadAttribute,
                         "num_scan_inputs is " + std::to_string(inputs) + " of " + std::to_string(op.inputs()) + " inputs");
  const auto reversed = op.ints("directions");
  const bool cut = op.has(0);
  if (cut && std::ranges::any_of(reversed, [](int64_t r) { return r != 0; }))
    return (void)op.unsupported("Scan of opset 8 with sequence_lens, backwards");
  std::optional<int64_t> batch;
  std::vector<Type> types;
  for (size_t i = 1; i < op.inputs(); ++i) {
    if (!op.has(i) || op.rank(i) < 1) return (void)op.fail(Code::BadShape, "input " + std::to_string(i) + " needs a batch axis");
    Type t = op.type(i);
    const bool scanned = static_cast<int64_t>(i) > states;
    if (scanned && t.rank() < 2)
      return (void)op.fail(Code::BadShape, "input " + std::to_string(i) + " needs a batch axis and a scanned axis");
    batch = op.dims().constant_value(t.dims[0]);
    t.dims.erase(t.dims.begin(), t.dims.begin() + (scanned ? 2 : 1));
    types.push_back(std::move(t));
  }
  if (!batch || *batch < 1 || *batch > 64) return (void)op.unsupported("Scan of opset 8 needs a known batch of 1 to 64");
  std::vector<std::vector<ValueId>> results;
  for (int64_t entry = 0; entry < *batch; ++entry) {
    std::vector<Frame::Capture> captures;
    Graph* g = op.im.import_body(*body, body_name(op, "body"), types, &captures);
    if (!g) return op.give_up();
    std::vector<ValueId> operands;
    for (size_t i = 1; i < op.inputs(); ++i) {
      const auto& d = op.sizes(i);
      operands.push_back(op.b.reshape(op.b.narrow(op.in(i), 0, Dim(entry), Dim(1)), {d.begin() + 1, d.end()}));
    }
    append_captures(op, captures, &operands);
    ScanAttrs a;
    a.states = states;
    a.scan_inputs = inputs;
    a.input_axes.assign(static_cast<size_t>(inputs), 0);
    a.input_reverse = reversed;
    a.input_reverse.resize(static_cast<size_t>(inputs));
    if (static_cast<int64_t>(g->outputs().size()) < states) return (void)op.fail(Code::BadGraph, "the body has too few outputs");
    const size_t outputs = g->outputs().size();
    if (cut) {  // all states are results, too
      std::vector<ValueId> all(g->outputs().begin(), g->outputs().end());
      all.insert(all.end(), all.begin(), all.begin() + states);
      g->set_outputs(all);
    }
    a.output_axes.assign(g->outputs().size() - static_cast<size_t>(states), 0);
    a.output_reverse = a.output_axes;
    const NodeId n = op.b.create_node(OpKind::Scan, operands, std::move(a), std::array{g->id()});
    if (!n.valid()) return;
    const ValueId length =
        cut ? op.b.reshape(op.b.narrow(op.b.cast(op.in(0), DType::I64), 0, Dim(entry), Dim(1)), {}) : ValueId();
    results.resize(outputs);
    for (size_t i = 0; i < results.size(); ++i) {
      ValueId v = op.graph().result(n, i);
      if (cut && i < static_cast<size_t>(states)) v = state_after(op, operands[i], op.graph().result(n, outputs + i), length);
      else if (cut) v = zero_after(op, v, length);
      if (!v.valid()) return;
      std::vector<Dim> d(op.graph().dims(v).begin(), op.graph().dims(v).end());
      d.insert(d.begin(), Dim(1));
      results[i].push_back(op.b.reshape(v, std::move(d)));
    }
  }
  for (size_t i = 0; i < op.outputs() && i < results.size(); ++i)
    op.set(i, *batch == 1 ? results[i][0] : op.b.concat(results[i], 0));
}

}  // namespace

void scan(Op& op) {
  const auto body = op.body("body");
  if (!body) return;
  const int64_t inputs = op.i("num_scan_inputs", 0);
  const auto all = static_cast<int64_t>(op.inputs());
  if (op.opset < 9) return scan_batches(op);
  if (inputs < 1 || inputs > all)
    return (void)op.fail(Code::BadAttribute,
                         "num_scan_inputs is " + std::to_string(inputs) + " of " + std::to_string(all) + " inputs");
  ScanAttrs a;
  a.states = all - inputs;
  a.scan_inputs = inputs;
  const auto list = [&](std::string_view name, size_t n, std::vector<int64_t>* out) {
    *out = op.ints(name);
    if (out->empty()) out->assign(n, 0);
    return out->size() == n || op.fail(Code::BadAttribute, std::string(name) + " needs " + std::to_string(n) + " entries");
  };
  if (!list("scan_input_axes", static_cast<size_t>(inputs), &a.input_axes) ||
      !list("scan_input_directions", static_cast<size_t>(inputs), &a.input_reverse))
    return;
  std::vector<Type> types;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
    Type t = op.type(i);
    if (i >= static_cast<size_t>(a.states)) {
      int64_t& axis = a.input_axes[i - static_cast<size_t>(a.states)];
      const auto normal = op.axis(axis, t.rank());
      if (!normal) return;
      axis = *normal;
      t.dims.erase(t.dims.begin() + axis);
    }
    types.push_back(std::move(t));
    operands.push_back(op.in(i));
  }
  std::vector<Frame::Capture> captures;
  Graph* g = op.im.import_body(*body, body_name(op, "body"), types, &captures);
  if (!g) return op.give_up();
  if (g->outputs().size() < static_cast<size_t>(a.states)) return (void)op.fail(Code::BadGraph, "the body has too few outputs");
  const size_t scans = g->outputs().size() - static_cast<size_t>(a.states);
  if (!list("scan_output_axes", scans, &a.output_axes) || !list("scan_output_directions", scans, &a.output_reverse)) return;
  for (size_t i = 0; i < scans; ++i) {
    const auto normal = op.axis(a.output_axes[i], g->rank(g->outputs()[i + static_cast<size_t>(a.states)]) + 1);
    if (!normal) return;
    a.output_axes[i] = *normal;
  }
  for (size_t i = 0; i < static_cast<size_t>(a.states); ++i)
    if (const Type& out = g->type(g->outputs()[i]);
        out.kind != types[i].kind || out.dtype != types[i].dtype || out.rank() != types[i].rank())
      return (void)op.fail(Code::BadType, "state " + std::to_string(i) + " changes its type from " + text(types[i], op.dims()) +
                                              " to " + text(out, op.dims()));
  append_captures(op, captures, &operands);
  set_results(op, op.b.create_node(OpKind::Scan, operands, std::move(a), std::array{g->id()}));
}

}  // namespace rlxc::onnx_import
