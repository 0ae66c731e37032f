#include "ops/recurrent.h"

#include <doctest/doctest.h>

using namespace rlxc;

namespace {

double applied(const ops::CellActivation& f, double x) {
  return f(x, [](OpKind op, double alpha, double beta, double v) {
    return op == OpKind::Tanh ? v + 100 : op == OpKind::HardSigmoid ? alpha * v + beta : -v;
  });
}

// Gates are 10, 20, 30, 40; activations add a constant each; records the names of values in order.
struct Cell {
  std::string names;
  double gate(int64_t i) { return static_cast<double>(10 * (i + 1)); }
  double gate(int64_t i, int64_t p, double memory) { return gate(i) + static_cast<double>(p + 1) * memory; }
  double activated(size_t i, double v) { return v + static_cast<double>(1000 * (i + 1)); }
  double output(double memory) { return memory / 2; }
  double let(const char* name, double v) {
    names += std::string(name) + " ";
    return v;
  }
  double input(int64_t i) { return gate(i); }
  double recurrent(bool linear) { return linear ? 1 : 2; }
  double update() { return 0.25; }
  double state() { return 8; }
};

}  // namespace

TEST_CASE("activations of cells: defaults, parameters in order, names in any case") {
  std::string why;
  RnnAttrs a;
  const auto defaults = ops::cell_activations(OpKind::Lstm, a, &why);
  REQUIRE(defaults.has_value());
  REQUIRE(defaults->size() == 3);
  CHECK((*defaults)[0].op == OpKind::Sigmoid);
  CHECK((*defaults)[1].op == OpKind::Tanh);
  CHECK((*defaults)[2].op == OpKind::Tanh);

  a.activations = {"HardSigmoid", "AFFINE", "ScaledTanh"};
  a.activation_alpha = {0.1, 3}, a.activation_beta = {0.7, 4};
  const auto own = ops::cell_activations(OpKind::Lstm, a, &why);
  REQUIRE(own.has_value());
  CHECK(applied((*own)[0], 2) == doctest::Approx(0.1 * 2 + 0.7));
  CHECK(applied((*own)[1], 2) == 3 * 2 + 4);
  CHECK(applied((*own)[2], 2) == 2 + 100);  // the lists are exhausted: alpha = beta = 1

  a.direction = RnnDirection::Bidirectional;
  CHECK_FALSE(ops::cell_activations(OpKind::Lstm, a, &why).has_value());
  CHECK(why == "needs 3 activations per direction");
  a.direction = RnnDirection::Forward, a.activations[1] = "swoosh";
  CHECK_FALSE(ops::cell_activations(OpKind::Lstm, a, &why).has_value());
  CHECK(why == "unknown activation \"swoosh\"");
}

TEST_CASE("gates and directions") {
  RnnAttrs a;
  CHECK(ops::recurrence(OpKind::Lstm, a).gates == 4);
  CHECK(ops::recurrence(OpKind::Gru, a).gates == 3);
  CHECK(ops::recurrence(OpKind::Rnn, a).gates == 1);
  a.direction = RnnDirection::Bidirectional;
  CHECK(ops::recurrence(OpKind::Gru, a).directions == 2);
}

TEST_CASE("the equations of an LSTM: which gate, peephole and activation goes where") {
  Cell cell;
  double memory = 2;
  const double next = ops::lstm_step(cell, false, &memory);
  const double in = 1010 + 2, forget = 1030 + 3 * 2, candidate = 2040, expected = forget * 2 + in * candidate;
  CHECK(memory == expected);
  CHECK(next == (1020 + 2 * expected) * (expected / 2));
  CHECK(cell.names == "in forget candidate memory out ");
  memory = 2;
  ops::lstm_step(cell, true, &memory);
  CHECK(memory == (1 - in) * 2 + in * candidate);
}

TEST_CASE("the equations of a GRU and of a plain cell") {
  Cell cell;
  CHECK(ops::gru_gate(cell, 1) == 1020);
  CHECK(ops::gru_step(cell, true) == 0.75 * (2030 + 1) + 0.25 * 8);
  CHECK(ops::gru_step(cell, false) == 0.75 * (2030 + 2) + 0.25 * 8);
  CHECK(ops::rnn_step(cell) == 1010);
}
