// ONNX LSTM, GRU and RNN as a Scan over the steps. The products with the input are one MatMul for all steps; the body has the
// product with the state and the gates. Steps beyond the length of a row leave its state as it is and give zeros.
#include "ops/recurrent.h"
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

// The body of the Scan: one step of all rows of the batch. [batch, hidden] states, [batch, gates * hidden] products.
class Step {
 public:
  Step(Graph& g, const RnnAttrs& a, std::span<const ops::CellActivation> activations) : b_(g), a_(a), f_(activations) {}

  ValueId input(std::string_view name, const Graph& outside, ValueId like) { return b_.input(name, outside.type(like)); }
  ValueId gate(ValueId all, int64_t i) { return b_.narrow(all, b_.graph().rank(all) - 1, Dim(i * a_.hidden), Dim(a_.hidden)); }
  ValueId scalar(ValueId like, double v) { return b_.scalar(b_.graph().dtype(like), v); }
  ValueId one_minus(ValueId v) { return b_.sub(scalar(v, 1), v); }

  ValueId activated(size_t which, ValueId v) {
    const ops::CellActivation& f = f_[which];
    if (a_.clip > 0) v = b_.create(OpKind::Clamp, {v}, ClampAttrs{-a_.clip, a_.clip});
    if (f.stretch != 1) v = b_.mul(v, scalar(v, f.stretch));
    if (f.op) {
      Attrs attrs = default_attrs(*f.op);
      if (auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) ab->alpha = f.alpha, ab->beta = f.beta;
      v = b_.create(*f.op, {v}, attrs);
    }
    if (f.scale != 1) v = b_.mul(v, scalar(v, f.scale));
    return f.shift != 0 ? b_.add(v, scalar(v, f.shift)) : v;
  }
  ValueId product(ValueId state, ValueId weights, ValueId bias) {
    const ValueId y = b_.matmul(state, weights, false, true);
    return bias.valid() ? b_.add(y, bias) : y;
  }

  // Gates i, o, f, c; peepholes i, o, f. The next state, and the next memory in *memory.
  ValueId lstm(ValueId x, ValueId state, ValueId weights, ValueId bias, ValueId peepholes, ValueId* memory) {
    const ValueId sum = b_.add(x, product(state, weights, bias));
    const auto opened = [&](int64_t which, int64_t peephole, ValueId cell) {
      const ValueId v = gate(sum, which);
      return activated(0, peepholes.valid() ? b_.add(v, b_.mul(gate(peepholes, peephole), cell)) : v);
    };
    const ValueId in = opened(0, 0, *memory), forget = a_.input_forget ? one_minus(in) : opened(2, 2, *memory);
    *memory = b_.add(b_.mul(forget, *memory), b_.mul(in, activated(1, gate(sum, 3))));
    const ValueId out = opened(1, 1, *memory);
    RnnAttrs free = a_;  // the output activation is not clipped
    free.clip = 0;
    return b_.mul(out, Step(b_.graph(), free, f_).activated(2, *memory));
  }

  // Gates z, r, h.
  ValueId gru(ValueId x, ValueId state, ValueId weights, ValueId bias) {
    const auto rows = [&](ValueId v, int64_t from, int64_t count) {
      return b_.narrow(v, 0, Dim(from * a_.hidden), Dim(count * a_.hidden));
    };
    const auto part = [&](int64_t from, int64_t count, ValueId s) {
      return product(s, rows(weights, from, count), bias.valid() ? rows(bias, from, count) : ValueId());
    };
    const ValueId both = part(0, 2, state);
    const ValueId update = activated(0, b_.add(gate(x, 0), gate(both, 0))),
                  reset = activated(0, b_.add(gate(x, 1), gate(both, 1)));
    const ValueId recurrent = a_.linear_before_reset ? b_.mul(reset, part(2, 1, state)) : part(2, 1, b_.mul(reset, state));
    const ValueId candidate = activated(1, b_.add(gate(x, 2), recurrent));
    return b_.add(b_.mul(one_minus(update), candidate), b_.mul(update, state));
  }

  Builder& builder() { return b_; }

 private:
  Builder b_;
  const RnnAttrs& a_;
  std::span<const ops::CellActivation> f_;
};

struct DirectionResults {
  ValueId y;                    // [steps, batch, hidden]
  std::vector<ValueId> states;  // [batch, hidden]
};

DirectionResults direction(Expansion& e, int64_t d, const ops::Recurrence& r, std::span<const ops::CellActivation> activations) {
  const RnnAttrs a = e.attrs<RnnAttrs>();
  const OpKind op = e.g.op(e.n);
  const Dim width(r.gates * a.hidden);
  const auto own = [&](size_t i, int64_t axis) {  // of this direction, in the type to compute in
    const ValueId all = e.wide(e.in(i)), part = e.b.narrow(all, axis, Dim(d), Dim(1));
    std::vector<Dim> dims = e.dims(part);
    dims.erase(dims.begin() + axis);
    return e.b.reshape(part, dims);
  };
  ValueId x = e.wide(e.in(0));
  if (a.batch_first) x = e.b.transpose(x, {1, 0, 2});
  const Dim steps = e.dim(x, 0), batch = e.dim(x, 1);
  ValueId projected = e.b.matmul(x, own(1, 0), false, true), bias;
  if (e.has(3)) {
    const ValueId both = own(3, 0);
    projected = e.b.add(projected, e.b.narrow(both, 0, Dim(0), width));
    bias = e.b.narrow(both, 0, width, width);
  }
  const auto state = [&](size_t i) {
    if (e.g.operands(e.n).size() > i && e.has(i)) return own(i, a.batch_first ? 1 : 0);
    return e.b.expand(e.num(x, 0), {batch, Dim(a.hidden)});
  };

  const GraphId body = e.b.module().make_graph(std::string(name(op)) + "_step");
  Step s(e.b.module().graph(body), a, activations);
  std::vector<ValueId> operands, inside;
  const auto pass = [&](std::string_view label, ValueId v, ValueId slice) {
    operands.push_back(v), inside.push_back(s.input(label, e.g, slice));
    return inside.back();
  };
  const auto optional = [&](size_t i) { return e.g.operands(e.n).size() > i && e.has(i); };
  const bool lstm = op == OpKind::Lstm;
  const ValueId first = state(5), old = pass("state", first, first), start = lstm ? state(6) : ValueId();
  const ValueId old_memory = lstm ? pass("memory", start, start) : ValueId();
  const ValueId slice = e.b.reshape(e.b.narrow(projected, 0, Dim(0), Dim(1)), {batch, width});  // for its type
  const ValueId now = pass("x", projected, slice);
  ValueId step, lengths;
  if (optional(4)) step = pass("step", e.positions(steps), e.b.scalar(DType::I64, 0));
  const auto capture = [&](std::string_view label, ValueId v) { return v.valid() ? pass(label, v, v) : v; };
  const ValueId weights = capture("r", own(2, 0)), recurrent_bias = capture("bias", bias),
                peepholes = capture("peepholes", optional(7) ? own(7, 0) : ValueId());
  if (optional(4)) lengths = capture("lengths", e.b.reshape(e.b.cast(e.in(4), DType::I64), {batch, Dim(1)}));

  Builder& b = s.builder();
  ValueId memory = old_memory, next;
  if (lstm) next = s.lstm(now, old, weights, recurrent_bias, peepholes, &memory);
  else if (op == OpKind::Gru) next = s.gru(now, old, weights, recurrent_bias);
  else next = s.activated(0, b.add(now, s.product(old, weights, recurrent_bias)));
  ValueId y = next;
  if (lengths.valid()) {
    const ValueId going = b.create(OpKind::Lt, {step, lengths});
    const auto kept = [&](ValueId v, ValueId otherwise) { return b.create(OpKind::Where, {going, v, otherwise}); };
    y = kept(next, s.scalar(next, 0)), next = kept(next, old);
    if (lstm) memory = kept(memory, old_memory);
  }
  Graph& g = b.graph();
  g.add_output(next, e.g.module().symbol("state_next"));
  if (lstm) g.add_output(memory, e.g.module().symbol("memory_next"));
  g.add_output(y, e.g.module().symbol("y"));

  const int64_t turned = a.direction == RnnDirection::Reverse || d == 1, scanned = step.valid() ? 2 : 1;
  const auto count = static_cast<size_t>(scanned);
  const NodeId scan = e.b.create_node(
      OpKind::Scan, operands,
      ScanAttrs{lstm ? 2 : 1, scanned, std::vector<int64_t>(count, 0), std::vector<int64_t>(count, turned), {0}, {turned}},
      {&body, 1});
  DirectionResults out{e.g.result(scan, lstm ? 2 : 1), {e.g.result(scan, 0)}};
  if (lstm) out.states.push_back(e.g.result(scan, 1));
  return out;
}

std::vector<ValueId> recurrent(Expansion& e) {
  const RnnAttrs a = e.attrs<RnnAttrs>();
  const ops::Recurrence r = ops::recurrence(e.g.op(e.n), a);
  std::string why;
  const auto activations = ops::cell_activations(e.g.op(e.n), a, &why);
  if (!activations || a.hidden < 1) return {};
  // [parts..] with an axis for the directions.
  std::vector<std::vector<ValueId>> parts(e.g.result_count(e.n));
  const auto with_direction = [&](ValueId v, int64_t axis) {
    std::vector<Dim> dims = e.dims(v);
    dims.insert(dims.begin() + axis, Dim(1));
    return e.b.reshape(v, dims);
  };
  for (int64_t d = 0; d < r.directions; ++d) {
    const DirectionResults of = direction(e, d, r, std::span(*activations).subspan(r.activations * static_cast<size_t>(d)));
    parts[0].push_back(with_direction(of.y, 1));
    for (size_t i = 0; i < of.states.size(); ++i) parts[1 + i].push_back(with_direction(of.states[i], 0));
  }
  std::vector<ValueId> results;
  for (size_t i = 0; i < parts.size(); ++i) {
    ValueId v = parts[i].size() == 1 ? parts[i][0] : e.b.concat(parts[i], i == 0 ? 1 : 0);
    if (a.batch_first) v = e.b.transpose(v, i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2});
    results.push_back(e.b.cast(v, e.g.dtype(e.g.result(e.n, i))));
  }
  return results;
}

}  // namespace

std::span<const DecompositionEntry> recurrent_decompositions() {
  static constexpr DecompositionEntry kTable[] = {{OpKind::Lstm, recurrent}, {OpKind::Gru, recurrent}, {OpKind::Rnn, recurrent}};
  return kTable;
}

}  // namespace rlxc::legalise
