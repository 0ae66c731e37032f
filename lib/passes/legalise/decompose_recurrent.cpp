// Decomposes ONNX LSTM, GRU and RNN into a Scan over the steps. One MatMul covers the input of all steps; the body has the matmul
// with the state and the gates. Steps beyond the length of a row keep its state and give zeros.
#include <array>

#include "ir/scan.h"
#include "ops/recurrent.h"
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

using transform::make, transform::Term;

// The body of the Scan: one step for all rows of the batch, using the Cell of ops/recurrent.h. States are [batch, hidden], sums
// are [batch, gates * hidden].
class Step {
 public:
  Step(Graph& g, const RnnAttrs& a, std::span<const ops::CellActivation> activations) : b_(g), a_(a), f_(activations) {}

  // Operands; the last two may be absent.
  Term x, before, weights, bias, peepholes;

  Term next_lstm(Term* memory) {
    sums_ = x + affine(before, weights, bias);
    return ops::lstm_step(*this, a_.input_forget, memory);
  }
  Term next_gru() {
    matmuls_ = part(0, 2, before);
    update_ = ops::gru_gate(*this, 0), reset_ = ops::gru_gate(*this, 1);
    return ops::gru_step(*this, a_.linear_before_reset);
  }
  Term next_rnn() {
    sums_ = x + affine(before, weights, bias);
    return ops::rnn_step(*this);
  }

  Term input(int64_t i) { return columns(x, i); }
  Term gate(int64_t i) { return sums_.valid() ? columns(sums_, i) : columns(x, i) + columns(matmuls_, i); }
  Term gate(int64_t i, int64_t p, Term memory) {
    const Term v = gate(i);
    return peepholes.valid() ? v + columns(peepholes, p) * memory : v;
  }
  Term activated(size_t i, Term v) {
    return output(i, a_.clip > 0 ? make(OpKind::Clamp, {v}, ClampAttrs{-a_.clip, a_.clip}) : v);
  }
  Term output(Term memory) { return output(2, memory); }
  static Term let(std::string_view, Term v) { return v; }
  Term recurrent(bool linear) { return linear ? reset_ * part(2, 1, before) : part(2, 1, reset_ * before); }
  Term update() const { return update_; }
  Term state() const { return before; }

  Builder& builder() { return b_; }

 private:
  Term columns(Term all, int64_t i) {
    const int64_t axis = all.rank() - 1;
    return all.dims().back() == Dim(a_.hidden) ? all : narrow(all, axis, Dim(i * a_.hidden), Dim(a_.hidden));
  }
  Term rows(Term all, int64_t from, int64_t count) { return narrow(all, 0, Dim(from * a_.hidden), Dim(count * a_.hidden)); }
  static Term affine(Term state, Term weights, Term bias) {
    const Term y = matmul(state, weights, false, true);
    return bias.valid() ? y + bias : y;
  }
  Term part(int64_t from, int64_t count, Term state) {  // matmuls of some gates
    return affine(state, rows(weights, from, count), rows(bias, from, count));
  }
  Term output(size_t i, Term v) {
    return f_[i](v, [](OpKind op, double alpha, double beta, Term u) {
      Attrs attrs = default_attrs(op);
      if (auto* ab = std::get_if<AlphaBetaAttrs>(&attrs)) ab->alpha = alpha, ab->beta = beta;
      return make(op, {u}, attrs);
    });
  }

  Builder b_;
  const RnnAttrs& a_;
  std::span<const ops::CellActivation> f_;
  Term sums_, matmuls_, update_, reset_;
};

struct DirectionResults {
  ValueId y;                    // [steps, batch, hidden]
  std::vector<ValueId> states;  // [batch, hidden]
};

DirectionResults direction(Expansion& e, int64_t d, const ops::Recurrence& r, std::span<const ops::CellActivation> activations) {
  const RnnAttrs a = e.attrs<RnnAttrs>();
  const OpKind op = e.g.op(e.n);
  const Dim width(r.gates * a.hidden);
  const auto own = [&](size_t i, int64_t axis) {  // the operand of this direction, in the compute type
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
    operands.push_back(v), inside.push_back(s.builder().input(label, e.g.type(slice)));
    return inside.back();
  };
  const auto optional = [&](size_t i) { return e.g.operands(e.n).size() > i && e.has(i); };
  const bool lstm = op == OpKind::Lstm;
  const ValueId first = state(5), old = pass("state", first, first), start = lstm ? state(6) : ValueId();
  const ValueId old_memory = lstm ? pass("memory", start, start) : ValueId();
  const ValueId slice = e.b.reshape(e.b.narrow(projected, 0, Dim(0), Dim(1)), {batch, width});  // provides its type
  const ValueId now = pass("x", projected, slice);
  ValueId step, lengths;
  if (optional(4)) step = pass("step", e.positions(steps), e.b.scalar(DType::I64, 0));
  const auto capture = [&](std::string_view label, ValueId v) { return v.valid() ? pass(label, v, v) : v; };
  const ValueId weights = capture("r", own(2, 0)), recurrent_bias = capture("bias", bias),
                peepholes = capture("peepholes", optional(7) ? own(7, 0) : ValueId());
  if (optional(4)) lengths = capture("lengths", e.b.reshape(e.b.cast(e.in(4), DType::I64), {batch, Dim(1)}));

  Builder& b = s.builder();
  const auto term = [&](ValueId v) { return Term{&b, v}; };
  s.x = term(now), s.before = term(old), s.weights = term(weights), s.bias = term(recurrent_bias), s.peepholes = term(peepholes);
  Term new_memory = term(old_memory);
  ValueId next = (lstm ? s.next_lstm(&new_memory) : op == OpKind::Gru ? s.next_gru() : s.next_rnn()).v, memory = new_memory.v;
  ValueId y = next;
  if (lengths.valid()) {
    const ValueId going = b.create(OpKind::Lt, {step, lengths});
    const auto kept = [&](ValueId v, ValueId otherwise) { return b.create(OpKind::Where, {going, v, otherwise}); };
    y = kept(next, b.scalar(b.graph().dtype(next), 0)), next = kept(next, old);
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
  std::string reason;
  const auto activations = ops::cell_activations(e.g.op(e.n), a, &reason);
  if (!activations || a.hidden < 1) return {};
  // Results with an axis for the directions.
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

// A state [batch, channels, n], of which each step keeps exp(delta * A) and to which it adds delta * B * x.
std::vector<ValueId> selective_scan(Expansion& e) {
  const auto in = [&](size_t i) { return Term{&e.b, e.wide(e.in(i))}; };
  const Term x = in(0), decay = in(2);
  if (x.rank() != 3 || decay.rank() != 2) return {};
  const std::vector<Dim> d = x.dims();
  const Dim n = decay.dims()[1];
  const Term start = transform::zeros(e.b, x.dtype(), {d[0], d[2], n});
  const auto made = transform::scan(
      e.b, std::array{start}, std::array{x, in(1), in(3), in(4)}, std::array{decay}, 1, false, [&](auto s, auto now, auto c) {
        const auto column = [&](Term v) { return reshape(v, {d[0], d[2], Dim(1)}); };
        const auto row = [&](Term v) { return reshape(v, {d[0], Dim(1), n}); };
        const Term delta = column(now[1]), next = exp(delta * c[0]) * s[0] + delta * column(now[0]) * row(now[2]);
        return std::vector<Term>{next, sum(row(now[3]) * next, {2}, false)};
      });
  return made.empty() ? std::vector<ValueId>() : std::vector{e.b.cast(made[1].v, e.result_dtype())};
}

std::vector<ValueId> running_product(Expansion& e) {
  const auto& a = e.attrs<CumAttrs>();
  const Term x{&e.b, e.in(0)};
  std::vector<Dim> d = x.dims();
  d.erase(d.begin() + a.axis);
  const Term one = expand(x.number(1), d);
  const bool exclusive = a.exclusive;
  const auto made = transform::scan(e.b, std::array{one}, std::array{x}, {}, a.axis, a.reverse, [&](auto s, auto now, auto) {
    const Term next = s[0] * now[0];
    return std::vector<Term>{next, exclusive ? s[0] : next};
  });
  return made.empty() ? std::vector<ValueId>() : std::vector{made[1].v};
}

}  // namespace

std::span<const DecompositionEntry> recurrent_decompositions() {
  static constexpr DecompositionEntry kTable[] = {{OpKind::Lstm, recurrent},
                                                  {OpKind::Gru, recurrent},
                                                  {OpKind::Rnn, recurrent},
                                                  {OpKind::SelectiveScan, selective_scan},
                                                  {OpKind::Cumprod, running_product}};
  return kTable;
}

}  // namespace rlxc::legalise
