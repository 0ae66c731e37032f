// Recurrences of the reference vocabulary: states carried along a sequence.
#include <array>
#include <cmath>

#include "import/json/reference_rows.h"
#include "ir/term.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::concat, transform::make, transform::Term;

// Scans axis 1 of `sequences`: step(state, slices) -> {next state, result of the step}. Returns the results along axis 1.
template <class Step>
Term scanned(Node& n, std::string_view what, Term state, const std::vector<Term>& sequences, Step step) {
  Module& m = n.doc.module;
  Graph& g = m.graph(m.make_graph(std::string(what) + std::to_string(m.graph_count())));
  Builder body(g);
  std::vector<ValueId> operands;
  std::vector<Term> x;
  for (const Term& t : sequences) {
    if (!t.valid() || !state.valid()) return {&n.b, {}};
    if (operands.empty()) operands.push_back(state.v), x.push_back({&body, body.input("state", n.b.graph().type(state.v))});
    Type type = n.b.graph().type(t.v);
    type.dims.erase(type.dims.begin() + 1);
    operands.push_back(t.v);
    x.push_back({&body, body.input("x" + std::to_string(x.size()), std::move(type))});
  }
  const std::pair<Term, Term> made = step(x);
  if (!made.first.valid() || !made.second.valid()) return {&n.b, {}};
  g.set_outputs(std::array{made.first.v, made.second.v});
  ScanAttrs a;
  a.states = 1, a.scan_inputs = static_cast<int64_t>(sequences.size());
  a.input_axes.assign(sequences.size(), 1), a.input_reverse.assign(sequences.size(), 0);
  a.output_axes = {1}, a.output_reverse = {0};
  const NodeId scan = n.b.create_node(OpKind::Scan, operands, std::move(a), std::array{g.id()});
  return {&n.b, scan.valid() ? n.b.graph().result(scan, 1) : ValueId()};
}

// Reshapes an operand [b,s,h,..] to the last two axes of a state.
Term as_matrix(Term x, Dim rows, Dim columns) {
  auto d = x.dims();
  if (d.size() < 3) return x.with({});
  return reshape(x, {d[0], d[1], d[2], rows, columns});
}

// q, k, v [b,s,h,n], decay [b,s,h] or per row, step [b,s,h], state [b,h,n,n]. The delta rule: the state decays, then adds the
// outer product of k and step * (v - state applied to k).
ValueId delta_net(Node& n, bool has_state) {
  const int64_t width = n.integer("state_size");
  const auto d = sizes(n, n.in[0]);
  if (d.size() != 4 || width < 1) return n.fail(Code::BadShape, "needs q [batch, length, heads, size]"), ValueId();
  const auto in = [&](size_t i) { return Term{&n.b, n.in[i]}; };
  const Dim one(1), rows = n.flag("gate_per_channel") ? d[3] : one;
  const Term start = has_state ? in(5) : transform::zeros(n.b, in(0).dtype(), {d[0], d[2], d[3], d[3]});
  const Term y = scanned(n, "delta", start,
                         {as_matrix(in(0), one, d[3]), as_matrix(in(1), one, d[3]), as_matrix(in(2), one, d[3]),
                          as_matrix(in(3), rows, one), as_matrix(in(4), one, one)},
                         [](const std::vector<Term>& x) {
                           const Term decayed = x[0] * exp(x[4]), taken = (x[3] - matmul(x[2], decayed)) * x[5];
                           const Term state = decayed + matmul(x[2], taken, true);
                           return std::pair(state, matmul(x[1], state));
                         });
  return (reshape(y, d) * (1 / std::sqrt(static_cast<double>(width)))).v;
}

ValueId gated_delta_net(Node& n) {
  if (!n.count(5, 6)) return {};
  if (n.flag("carry_state")) return n.fail(Code::UnsupportedAttribute, "the state would be updated in place"), ValueId();
  return delta_net(n, n.in.size() > 5);
}
// Also takes dy; packs the gradients by the other operands.
ValueId gated_delta_net_backward(Node& n) {
  const size_t count = n.flag("carry_state") ? 6 : 5;
  if (!n.count(count + 1, count + 1)) return {};
  return reference_packed(n, reference_gradients(n, delta_net(n, count == 6), n.in.back(), std::span(n.in).first(count)));
}

// x [b,s,h,p], dt [b,s,h], a [h], b and c [b,s,h,n]. The state [p,n] of each head decays by exp(dt a) and adds dt x b; the result
// is the state times c.
ValueId mamba2(Node& n) {
  if (!n.count(5, 5)) return {};
  const auto d = sizes(n, n.in[0]), wide = sizes(n, n.in[3]);
  if (d.size() != 4 || wide.size() != 4 || n.rank(1) != 3 || n.rank(4) != 4)
    return n.fail(Code::BadShape, "needs x [batch, length, heads, size], dt, a, b and c"), ValueId();
  const auto in = [&](size_t i) { return Term{&n.b, n.in[i]}; };
  const Dim one(1);
  const Term start = transform::zeros(n.b, in(0).dtype(), {d[0], d[2], d[3], wide[3]}), dt = as_matrix(in(1), one, one);
  return reshape(scanned(n, "mamba", start,
                         {exp(as_matrix(in(1) * in(2), one, one)), as_matrix(in(0), d[3], one) * dt,
                          as_matrix(in(3), one, wide[3]), as_matrix(in(4), wide[3], one)},
                         [](const std::vector<Term>& x) {
                           const Term state = x[0] * x[1] + x[2] * x[3];
                           return std::pair(state, matmul(state, x[4]));
                         }),
                 d)
      .v;
}

// Consecutive packed weights.
struct Packed {
  Term flat;
  int64_t at = 0;
  Packed(Node& n, size_t operand) : flat{&n.b, n.in[operand]} { flat = reshape(flat, {n.b.dims().product(flat.dims())}); }

  // Takes [gates*rows, columns] with the gates reordered, as [1, gates*rows, columns].
  Term take(const std::vector<int64_t>& order, int64_t rows, int64_t columns) {
    const auto gates = static_cast<int64_t>(order.size()), count = gates * rows * columns;
    const Term block = reshape(narrow(flat, 0, Dim(at), Dim(count)), {Dim(gates), Dim(rows), Dim(columns)});
    at += count;
    if (!block.valid()) return block;
    const Term ordered = make(OpKind::Gather, {block, block.with(block.b->ints(order))}, AxisAttrs{0});
    return reshape(ordered, {Dim(1), Dim(gates * rows), Dim(columns)});
  }
  bool used_up() const { return !flat.valid() || flat.b->dims().equal(flat.dims()[0], Dim(at)); }
};

// x [B,S,I], and packed weights per layer and direction, with gates in the order i,f,g,o (lstm) or r,z,n (gru). Layers become
// stacked ONNX cells.
template <OpKind kOp>
ValueId recurrent(Node& n) {
  constexpr bool kLstm = kOp == OpKind::Lstm, kGru = kOp == OpKind::Gru;
  static const std::vector<int64_t> order = kLstm  ? std::vector<int64_t>{0, 3, 1, 2}
                                            : kGru ? std::vector<int64_t>{1, 0, 2}
                                                   : std::vector<int64_t>{0};
  constexpr size_t kFixed = kGru ? 5 : 4;
  const int64_t hidden = n.integer(n.find("hidden_size") ? "hidden_size" : "hidden"),
                layers = n.integer(n.find("num_layers") ? "num_layers" : "layers", 1), both = n.flag("bidirectional") ? 2 : 1;
  if (!n.good || !n.count(kFixed, kFixed + (kLstm ? 2 : 1))) return {};
  if (n.flag("carry")) return n.fail(Code::UnsupportedAttribute, "the state would be updated in place"), ValueId();
  const auto d = sizes(n, n.in[0]);
  const auto width = d.size() == 3 ? n.b.dims().constant_value(d[2]) : std::nullopt;
  if (!width || hidden < 1 || hidden > 1 << 20 || layers < 1 || layers > 1 << 10)
    return n.fail(Code::BadShape, "needs x [batch, length, size] of a known size, and layers of at least one unit"), ValueId();
  Packed w(n, 1), r(n, 2), bias(n, 3), inner(n, kFixed - 1);
  RnnAttrs a;
  a.hidden = hidden, a.linear_before_reset = kGru;
  a.direction = both == 2 ? RnnDirection::Bidirectional : RnnDirection::Forward;
  if (kOp == OpKind::Rnn && n.flag("relu")) a.activations.assign(static_cast<size_t>(both), "Relu");
  Term x = transpose(Term{&n.b, n.in[0]}, {1, 0, 2});
  const auto gates = static_cast<int64_t>(order.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Term> ws, rs, bs;
    for (int64_t i = 0; i < both; ++i) {
      ws.push_back(w.take(order, hidden, layer == 0 ? *width : both * hidden));
      rs.push_back(r.take(order, hidden, hidden));
      const Term own = bias.take(order, hidden, 1);
      const Term other =
          kGru ? inner.take(order, hidden, 1) : transform::zeros(n.b, x.dtype(), {Dim(1), Dim(gates * hidden), Dim(1)});
      bs.push_back(reshape(concat({own, other}, 1), {Dim(1), Dim(2 * gates * hidden)}));
    }
    std::vector<ValueId> operands{x.v, concat(ws, 0).v, concat(rs, 0).v, concat(bs, 0).v, ValueId()};
    for (size_t i = kFixed; i < n.in.size(); ++i)
      operands.push_back(narrow(Term{&n.b, n.in[i]}, 0, Dim(layer * both), Dim(both)).v);
    for (size_t i = 0; i < operands.size(); ++i)
      if (i != 4 && !operands[i].valid()) return {};
    const NodeId cell = n.b.create_node(kOp, operands, a);
    if (!cell.valid()) return {};
    x = reshape(transpose(Term{&n.b, n.b.graph().result(cell)}, {0, 2, 1, 3}), {d[1], d[0], Dim(both * hidden)});
  }
  if (!w.used_up() || !r.used_up() || !bias.used_up() || (kGru && !inner.used_up()))
    return n.fail(Code::BadShape, "the weights are larger than the layers ask for"), ValueId();
  return transpose(x, {1, 0, 2}).v;
}

}  // namespace

std::span<const ReferenceRow> reference_recurrent_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"GatedDeltaNet", gated_delta_net}, {"Mamba2", mamba2},
      {"Lstm", recurrent<OpKind::Lstm>},  {"Gru", recurrent<OpKind::Gru>},
      {"Rnn", recurrent<OpKind::Rnn>},    {"GatedDeltaNetBackward", gated_delta_net_backward},
  };
  return kRows;
}

}  // namespace rlxc::import_json
