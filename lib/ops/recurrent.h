// Common parts of ONNX LSTM, GRU and RNN: gates, directions, and activations named by attributes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/attrs.h"

namespace rlxc::ops {

struct Recurrence {
  int64_t gates, directions;
  size_t activations;  // per direction
};
Recurrence recurrence(OpKind, const RnnAttrs&);

// y = scale * op(stretch * x) + shift; without op: scale * x + shift.
struct CellActivation {
  std::optional<OpKind> op;
  double alpha = 0, beta = 0, stretch = 1, scale = 1, shift = 0;

  // `apply` computes op(alpha, beta, x).
  template <class V, class Apply>
  V operator()(V x, Apply apply) const {
    if (stretch != 1) x = stretch * x;
    if (op) x = apply(*op, alpha, beta, x);
    if (scale != 1) x = scale * x;
    return shift != 0 ? x + shift : x;
  }
};
// The activations of all directions, in order. Each activation takes its alpha and beta from the front of the lists. Returns
// nullopt and sets *reason for an unknown name or a wrong number of names.
std::optional<std::vector<CellActivation>> cell_activations(OpKind, const RnnAttrs&, std::string* reason);

// The equations of one step, for numbers, kernel expressions or graph values V. A Cell provides:
//   V gate(i)              sum of gate i over input and state, before its activation
//   V gate(i, p, memory)   the same with peephole p
//   V activated(i, v)      clips v and applies activation i
//   V output(memory)       applies the last activation without clipping
//   V let(name, v)         returns v, named where values have names

// Gates i, o, f, c; peepholes i, o, f. Returns the next state and sets *memory to the next memory.
template <class Cell, class V>
V lstm_step(Cell& cell, bool input_forget, V* memory) {
  const V in = cell.let("in", cell.activated(0, cell.gate(0, 0, *memory)));
  const V forget = cell.let("forget", input_forget ? 1.0 - in : cell.activated(0, cell.gate(2, 2, *memory)));
  const V candidate = cell.let("candidate", cell.activated(1, cell.gate(3)));
  *memory = cell.let("memory", forget * *memory + in * candidate);
  const V out = cell.let("out", cell.activated(0, cell.gate(1, 1, *memory)));
  return out * cell.output(*memory);
}

// Gates z, r, h: compute z and r first, then the next state. The Cell also provides
//   V recurrent(linear)    recurrent product of gate h: r * (state * R) if `linear`, else (r * state) * R
//   V input(i), update(), state()
template <class Cell>
auto gru_gate(Cell& cell, int64_t i) {
  return cell.activated(0, cell.gate(i));
}
template <class Cell>
auto gru_step(Cell& cell, bool linear_before_reset) {
  const auto recurrent = cell.recurrent(linear_before_reset);
  const auto candidate = cell.let("candidate", cell.activated(1, cell.input(2) + recurrent)), z = cell.update();
  return (1.0 - z) * candidate + z * cell.state();
}

template <class Cell>
auto rnn_step(Cell& cell) {
  return cell.activated(0, cell.gate(0));
}

}  // namespace rlxc::ops
