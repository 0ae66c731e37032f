// Recurrent ops: ONNX LSTM, GRU and RNN with all options, and the state-space scan.
#include "ops/recurrent.h"

#include <algorithm>

#include "eval/context.h"
#include "ops/elementwise.h"

namespace rlxc::eval {
namespace {

struct Activation {
  ops::CellActivation activation;
  double operator()(double x) const {
    return activation(x, [](OpKind op, double alpha, double beta, double v) {
      double y = v;
      ops::visit(op, [&](auto meaning) {
        if constexpr (decltype(meaning)::arity == 1 && (decltype(meaning)::domain & ops::kFloats) != 0)
          y = meaning(ops::Params{alpha, beta}, v);
      });
      return y;
    });
  }
};

// One direction of a recurrent op for one row of the batch.
struct Direction {
  int64_t inputs, hidden, gates;
  const double *w, *r, *bias, *peephole;  // of this direction; bias: input part, then recurrent part; null if absent
  Activation activations[3];
  double clip;
  bool input_forget, linear_before_reset;
};

// Element k of the state in one step: the Cell of ops/recurrent.h.
struct Cell {
  const Direction& d;
  const double* x;
  const std::vector<double>&s, &update_gate, &reset, &gated;  // previous state; gates of a GRU
  int64_t k;

  static double dot(const double* row, const double* v, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += row[i] * v[i];
    return sum;
  }
  double input(int64_t i) const {
    const int64_t row = i * d.hidden + k;
    return dot(d.w + row * d.inputs, x, d.inputs) + (d.bias ? d.bias[row] : 0);
  }
  double dot(int64_t i, const std::vector<double>& v) const {
    const int64_t row = i * d.hidden + k;
    return dot(d.r + row * d.hidden, v.data(), d.hidden) + (d.bias ? d.bias[d.gates * d.hidden + row] : 0);
  }
  double gate(int64_t i) const { return input(i) + dot(i, s); }
  double gate(int64_t i, int64_t p, double memory) const {
    return gate(i) + (d.peephole ? d.peephole[p * d.hidden + k] * memory : 0);
  }
  double activated(size_t i, double v) const { return d.activations[i](d.clip > 0 ? std::clamp(v, -d.clip, d.clip) : v); }
  double output(double memory) const { return d.activations[2](memory); }
  static double let(std::string_view, double v) { return v; }
  double recurrent(bool linear) const { return linear ? reset[at()] * dot(2, s) : dot(2, gated); }
  double update() const { return update_gate[at()]; }
  double state() const { return s[at()]; }
  size_t at() const { return static_cast<size_t>(k); }
};

// Computes one step for all elements.
void advance(OpKind op, const Direction& d, const double* x, std::vector<double>& s, std::vector<double>& memory) {
  std::vector<double> next(s.size()), update(s.size()), reset(s.size()), gated(s.size());
  Cell cell{d, x, s, update, reset, gated, 0};
  for (cell.k = 0; op == OpKind::Gru && cell.k < d.hidden; ++cell.k) {
    update[cell.at()] = ops::gru_gate(cell, 0), reset[cell.at()] = ops::gru_gate(cell, 1);
    gated[cell.at()] = reset[cell.at()] * s[cell.at()];
  }
  for (cell.k = 0; cell.k < d.hidden; ++cell.k)
    next[cell.at()] = op == OpKind::Lstm  ? ops::lstm_step(cell, d.input_forget, &memory[cell.at()])
                      : op == OpKind::Gru ? ops::gru_step(cell, d.linear_before_reset)
                                          : ops::rnn_step(cell);
  s = std::move(next);
}

bool operand_is(Context& c, size_t i, const std::vector<int64_t>& dims) {
  return !c.has(i) || c.dims(i) == dims ||
         c.fail("operand " + std::to_string(i) + " must be " + show(c.t(i).dtype, dims) + ", is " +
                show(c.t(i).dtype, c.dims(i)));
}

bool eval_recurrence(Context& c) {
  const auto& a = c.a<RnnAttrs>();
  const auto& d = c.dims(0);
  const bool lstm = c.op == OpKind::Lstm;
  const ops::Recurrence kind = ops::recurrence(c.op, a);
  const int64_t directions = kind.directions, gates = kind.gates, hidden = a.hidden;
  const int64_t length = d[a.batch_first ? 1 : 0], batch = d[a.batch_first ? 0 : 1], inputs = d[2];
  const std::vector<int64_t> state =
      a.batch_first ? std::vector<int64_t>{batch, directions, hidden} : std::vector<int64_t>{directions, batch, hidden};
  if (!operand_is(c, 3, {directions, 2 * gates * hidden}) || !operand_is(c, 4, {batch}) || !operand_is(c, 5, state) ||
      !operand_is(c, 6, state) || !operand_is(c, 7, {directions, 3 * hidden}))
    return false;
  if (!c.charge(static_cast<double>(length) * static_cast<double>(batch) * static_cast<double>(directions * gates * hidden) *
                static_cast<double>(inputs + hidden)))
    return false;

  const auto x = c.doubles(0), w = c.doubles(1), r = c.doubles(2), bias = c.optional_doubles(3), h0 = c.optional_doubles(5),
             c0 = c.optional_doubles(6), peepholes = c.optional_doubles(7);
  std::vector<int64_t> lengths(static_cast<size_t>(batch), length);
  if (c.has(4)) lengths = c.ints(4);
  for (int64_t n : lengths)
    if (n < 0 || n > length) return c.fail("sequence length " + std::to_string(n) + " exceeds " + std::to_string(length));

  std::string reason;
  const auto activations = ops::cell_activations(c.op, a, &reason);
  if (!activations) return c.fail(reason);

  auto state_at = [&](int64_t dir, int64_t b) {
    return static_cast<size_t>((a.batch_first ? b * directions + dir : dir * batch + b) * hidden);
  };
  std::vector<double> y(static_cast<size_t>(length * directions * batch * hidden), 0.0),
      y_h(static_cast<size_t>(directions * batch * hidden)), y_c(y_h.size());
  for (int64_t dir = 0; dir < directions; ++dir) {
    Direction direction{inputs,
                        hidden,
                        gates,
                        w.data() + dir * gates * hidden * inputs,
                        r.data() + dir * gates * hidden * hidden,
                        bias.empty() ? nullptr : bias.data() + dir * 2 * gates * hidden,
                        peepholes.empty() ? nullptr : peepholes.data() + dir * 3 * hidden,
                        {},
                        a.clip,
                        a.input_forget,
                        a.linear_before_reset};
    for (size_t k = 0; k < kind.activations; ++k)
      direction.activations[k].activation = (*activations)[static_cast<size_t>(dir) * kind.activations + k];
    const bool reverse = a.direction == RnnDirection::Reverse || dir == 1;
    for (int64_t b = 0; b < batch; ++b) {
      const size_t at = state_at(dir, b);
      auto initial = [&](const std::vector<double>& from) {
        std::vector<double> s(static_cast<size_t>(hidden), 0.0);
        if (!from.empty()) std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), hidden, s.begin());
        return s;
      };
      std::vector<double> s = initial(h0), memory = initial(c0);
      const int64_t n = lengths[static_cast<size_t>(b)];
      for (int64_t step = 0; step < n; ++step) {
        const int64_t t = reverse ? n - 1 - step : step;
        const double* row = x.data() + (a.batch_first ? b * length + t : t * batch + b) * inputs;
        advance(c.op, direction, row, s, memory);
        const int64_t to = a.batch_first ? (b * length + t) * directions + dir : (t * directions + dir) * batch + b;
        std::copy(s.begin(), s.end(), y.begin() + to * hidden);
      }
      std::copy(s.begin(), s.end(), y_h.begin() + static_cast<std::ptrdiff_t>(at));
      std::copy(memory.begin(), memory.end(), y_c.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  return c.put_result(0, y) && c.put_result(1, y_h) && (!lstm || c.put_result(2, y_c));
}

bool eval_selective_scan(Context& c) {
  const auto &d = c.dims(0), &a_dims = c.dims(2);
  if (d.size() != 3 || a_dims.size() != 2 || a_dims[0] != d[2] || c.dims(1) != d ||
      c.dims(3) != std::vector<int64_t>{d[0], d[1], a_dims[1]} || c.dims(4) != c.dims(3))
    return c.fail("needs x, delta [b,s,h], A [h,n] and B, C [b,s,n]");
  const int64_t batch = d[0], length = d[1], channels = d[2], n = a_dims[1];
  if (!c.charge(4.0 * static_cast<double>(c.t(0).elements()) * static_cast<double>(n))) return false;
  const auto x = c.doubles(0), delta = c.doubles(1), A = c.doubles(2), B = c.doubles(3), C = c.doubles(4);
  std::vector<double> y(x.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < channels; ++h) {
      std::vector<double> state(static_cast<size_t>(n), 0.0);
      for (int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<size_t>((b * length + t) * channels + h);
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) {
          const auto row = static_cast<size_t>((b * length + t) * n + k);
          double& s = state[static_cast<size_t>(k)];
          s = std::exp(delta[at] * A[static_cast<size_t>(h * n + k)]) * s + delta[at] * B[row] * x[at];
          sum += C[row] * s;
        }
        y[at] = sum;
      }
    }
  return c.put_result(0, y);
}

}  // namespace

std::span<const Entry> recurrent_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Lstm, eval_recurrence},
                                     {OpKind::Gru, eval_recurrence},
                                     {OpKind::Rnn, eval_recurrence},
                                     {OpKind::SelectiveScan, eval_selective_scan}};
  return kTable;
}

}  // namespace rlxc::eval
