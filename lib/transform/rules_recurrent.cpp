// Gradients of ONNX LSTM, GRU and RNN: each direction is written as a Scan of its cell, and that is differentiated. Cells with
// the usual activations and without clipping, coupled gates, peepholes and lengths of sequences.
#include <algorithm>
#include <array>

#include "ir/scan.h"
#include "transform/gradients.h"
#include "transform/rules.h"

namespace rlxc::transform {
namespace {

struct Cell {
  OpKind op;
  bool linear_before_reset, relu;
  Dim hidden;

  int64_t gates() const { return op == OpKind::Lstm ? 4 : op == OpKind::Gru ? 3 : 1; }
  Term gate(Term all, int64_t k) const { return narrow(all, 1, all.b->dims().mul(hidden, Dim(k)), hidden); }

  // The next state, and the next memory of an lstm: of the state s, the memory m, x, and weights and biases by input and state.
  std::vector<Term> step(Term s, Term m, Term x, Term w, Term r, Term wb, Term rb) const {
    const Term a = matmul(x, w, false, true) + wb, u = matmul(s, r, false, true) + rb;
    const auto sum = [&](int64_t k) { return gate(a, k) + gate(u, k); };
    if (op == OpKind::Lstm) {  // input, output, forget, candidate
      const Term memory = sigmoid(sum(2)) * m + sigmoid(sum(0)) * tanh(sum(3));
      return {sigmoid(sum(1)) * tanh(memory), memory};
    }
    if (op == OpKind::Rnn) return {relu ? make(OpKind::Relu, {sum(0)}) : tanh(sum(0))};
    const Term z = sigmoid(sum(0)), reset = sigmoid(sum(1));
    const auto last = [&](Term rows, int64_t axis) { return narrow(rows, axis, rows.b->dims().mul(hidden, Dim(2)), hidden); };
    const Term own = linear_before_reset ? reset * gate(u, 2) : matmul(reset * s, last(r, 0), false, true) + last(rb, 0);
    return {(1 - z) * tanh(gate(a, 2) + own) + z * s};
  }
};

// The states of all steps along `axis`, then the last ones.
std::vector<Term> scanned(const Cell& cell, int64_t axis, bool reverse, Term x, std::vector<Term> states,
                          const std::vector<Term>& weights) {
  auto out = scan(*x.b, states, std::array{x}, weights, axis, reverse, [&](auto s, auto now, auto w) {
    std::vector<Term> next = cell.step(s[0], s.back(), now[0], w[0], w[1], w[2], w[3]);
    next.push_back(next[0]);
    return next;
  });
  if (!out.empty()) std::rotate(out.begin(), out.end() - 1, out.end());
  return out;
}

bool usual(OpKind op, const RnnAttrs& a, bool* relu) {
  static const std::vector<std::string> kNames[] = {{"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh"}, {"Tanh"}};
  const auto& names = kNames[op == OpKind::Lstm ? 0 : op == OpKind::Gru ? 1 : 2];
  *relu = op == OpKind::Rnn && !a.activations.empty() && a.activations[0] == "Relu";
  for (size_t i = 0; i < a.activations.size(); ++i)
    if (a.activations[i] != (*relu ? "Relu" : names[i % names.size()])) return false;
  return a.clip == 0 && !a.input_forget;
}

bool recurrent_back(Adjoint& a) {
  const RnnAttrs attrs = a.attrs<RnnAttrs>();
  Cell cell{a.graph.op(a.node), attrs.linear_before_reset, false, Dim(attrs.hidden)};
  if (!usual(cell.op, attrs, &cell.relu) || a.has(4) || a.has(7)) return false;
  const size_t states = cell.op == OpKind::Lstm ? 2 : 1;
  const bool both = attrs.direction == RnnDirection::Bidirectional;
  const int64_t axis = attrs.batch_first, wide = cell.gates() * attrs.hidden;
  // Copies of the operands: two of them may be the same value.
  std::vector<size_t> wanted;
  std::vector<ValueId> wrt;
  std::vector<Term> own(7, a.in(0).with({}));
  for (size_t i : {0, 1, 2, 3, 5, 6}) {
    if (!a.has(i)) continue;
    own[i] = a.in(i)*1;
    if (a.wants(i)) {
      wanted.push_back(i);
      wrt.push_back(own[i].v);
    }
  }
  const auto x = own[0].dims();
  const std::vector<Dim> state{x[static_cast<size_t>(1 - axis)], Dim(attrs.hidden)};
  Term total = own[0].number(0);
  const auto add = [&](Term y, Term dy) { total = total + sum(reshape(y * dy, {a.b.dims().product(y.dims())}), {0}, false); };
  for (int64_t d = 0; d < (both ? 2 : 1); ++d) {
    const auto part = [&](Term t, int64_t at, std::vector<Dim> dims) {
      return reshape(narrow(t, at, Dim(d), Dim(1)), std::move(dims));
    };
    std::vector<Term> weights;
    for (size_t i : {1, 2}) {
      const auto dims = own[i].dims();
      weights.push_back(part(own[i], 0, {dims[1], dims[2]}));
    }
    const Term bias = a.has(3) ? part(own[3], 0, {Dim(2 * wide)}) : zeros(a.b, own[0].dtype(), {Dim(2 * wide)});
    for (int64_t k : {0, 1}) weights.push_back(narrow(bias, 0, Dim(k * wide), Dim(wide)));
    std::vector<Term> starts;
    for (size_t i = 0; i < states; ++i)
      starts.push_back(a.has(5 + i) ? part(own[5 + i], axis, state) : zeros(a.b, own[0].dtype(), state));
    const auto y = scanned(cell, axis, attrs.direction == RnnDirection::Reverse || d == 1, own[0], starts, weights);
    if (y.empty()) return false;
    if (a.has_gradient(0)) add(y[0], part(a.g(0), attrs.batch_first ? 2 : 1, {x[0], x[1], Dim(attrs.hidden)}));
    for (size_t i = 0; i < states; ++i)
      if (a.has_gradient(1 + i)) add(y[1 + i], part(a.g(1 + i), axis, state));
  }
  Diagnostics inner;
  const auto grads = gradients(a.b, total.v, {}, wrt, {}, inner, a.expand);
  if (!grads) {
    a.inside = inner.items()[0].message;
    return false;
  }
  for (size_t i = 0; i < wanted.size(); ++i) a.give(wanted[i], own[0].with((*grads)[i]));
  return true;
}

}  // namespace

std::span<const RuleEntry> recurrent_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Lstm, recurrent_back}, {OpKind::Gru, recurrent_back}, {OpKind::Rnn, recurrent_back}};
  return kTable;
}

}  // namespace rlxc::transform
