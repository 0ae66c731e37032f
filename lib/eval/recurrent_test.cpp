#include <cmath>

#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

namespace {
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
HostValue f64(std::vector<int64_t> d, std::vector<double> v) { return tensor_of(DType::F64, std::move(d), v); }
}  // namespace

TEST_CASE("lstm: gates, peepholes, bias, direction, against the equations") {
  // One input, one hidden unit, two steps.
  RnnAttrs a;
  a.hidden = 1;
  const double w[4] = {0.5, -0.3, 0.8, 1.1}, r[4] = {0.2, 0.4, -0.6, 0.7}, wb[4] = {0.1, 0.2, 0.3, 0.4},
               rb[4] = {-0.1, 0.05, 0.02, 0.03}, p[3] = {0.3, -0.2, 0.6};
  const std::vector<HostValue> in{f64({2, 1, 1}, {0.7, -1.2}),
                                  f64({1, 4, 1}, {w[0], w[1], w[2], w[3]}),
                                  f64({1, 4, 1}, {r[0], r[1], r[2], r[3]}),
                                  f64({1, 8}, {wb[0], wb[1], wb[2], wb[3], rb[0], rb[1], rb[2], rb[3]}),
                                  absent(),
                                  f64({1, 1, 1}, {0.25}),
                                  f64({1, 1, 1}, {-0.5}),
                                  f64({1, 3}, {p[0], p[1], p[2]})};
  auto simulate = [&](std::vector<double> xs) {
    double h = 0.25, c = -0.5;
    std::vector<double> ys;
    for (double x : xs) {
      auto pre = [&](int g) { return w[g] * x + r[g] * h + wb[g] + rb[g]; };
      const double i = sigmoid(pre(0) + p[0] * c), f = sigmoid(pre(2) + p[2] * c), g = std::tanh(pre(3));
      const double c2 = f * c + i * g, o = sigmoid(pre(1) + p[1] * c2);
      c = c2, h = o * std::tanh(c);
      ys.push_back(h);
    }
    ys.push_back(c);
    return ys;
  };
  auto out = run_op(Lstm, a, in);
  auto want = simulate({0.7, -1.2});
  check_values(out[0], {want[0], want[1]});
  check_values(out[1], {want[1]});
  check_values(out[2], {want[2]});
  a.direction = RnnDirection::Reverse;
  out = run_op(Lstm, a, in);
  want = simulate({-1.2, 0.7});
  check_values(out[0], {want[1], want[0]});
  check_values(out[1], {want[1]});
}

TEST_CASE("gru: reset before and after; rnn: lengths, layout, activations, clip") {
  RnnAttrs a;
  a.hidden = 1;
  const double w[3] = {0.5, -0.3, 0.8}, r[3] = {0.2, 0.4, -0.6}, b[6] = {0.1, 0.2, 0.3, -0.1, 0.05, 0.7};
  const std::vector<HostValue> in{f64({1, 1, 1}, {0.9}),
                                  f64({1, 3, 1}, {w[0], w[1], w[2]}),
                                  f64({1, 3, 1}, {r[0], r[1], r[2]}),
                                  f64({1, 6}, {b[0], b[1], b[2], b[3], b[4], b[5]}),
                                  absent(),
                                  f64({1, 1, 1}, {0.4})};
  const double x = 0.9, h = 0.4, z = sigmoid(w[0] * x + r[0] * h + b[0] + b[3]),
               reset = sigmoid(w[1] * x + r[1] * h + b[1] + b[4]);
  check_values(run_op(Gru, a, in)[1], {(1 - z) * std::tanh(w[2] * x + b[2] + r[2] * reset * h + b[5]) + z * h});
  a.linear_before_reset = true;
  check_values(run_op(Gru, a, in)[1], {(1 - z) * std::tanh(w[2] * x + b[2] + reset * (r[2] * h + b[5])) + z * h});

  RnnAttrs n;
  n.hidden = 1, n.batch_first = true, n.activations = {"Affine"}, n.activation_alpha = {2}, n.activation_beta = {1}, n.clip = 0.5;
  // y = 2*clip(x + h) + 1 over two rows of lengths 2 and 1.
  const auto out = run_op(Rnn, n,
                          {f64({2, 2, 1}, {0.1, -3, 0.2, 9}), f64({1, 1, 1}, {1}), f64({1, 1, 1}, {1}), absent(),
                           tensor_of(DType::I32, {2}, {2, 1})});
  CHECK(out[0].tensor.dims == std::vector<int64_t>{2, 2, 1, 1});
  check_values(out[0], {1.2, 0, 1.4, 0});
  check_values(out[1], {0, 1.4});
}

TEST_CASE("selective scan: the recurrence") {
  const auto y = run1(SelectiveScan, NoAttrs{},
                      {f64({1, 2, 1}, {1, 2}), f64({1, 2, 1}, {0.5, 0.25}), f64({1, 2}, {-1, -2}), f64({1, 2, 2}, {1, 2, 3, 4}),
                       f64({1, 2, 2}, {1, 1, 2, 1})});
  const double s0 = 0.5 * 1 * 1, t0 = 0.5 * 2 * 1;
  const double s1 = std::exp(-0.25) * s0 + 0.25 * 3 * 2, t1 = std::exp(-0.5) * t0 + 0.25 * 4 * 2;
  check_values(y, {s0 + t0, 2 * s1 + t1});
}
