#include "ops/recurrent.h"

#include <algorithm>
#include <string_view>

namespace rlxc::ops {
namespace {

struct Row {
  std::string_view name;
  int parameters;
  double alpha, beta;  // default values
  CellActivation (*make)(double alpha, double beta);
};

template <OpKind op>
CellActivation by_op(double alpha, double beta) {
  return {op, alpha, beta};
}

constexpr Row kRows[] = {
    {"relu", 0, 0, 0, by_op<OpKind::Relu>},
    {"tanh", 0, 0, 0, by_op<OpKind::Tanh>},
    {"sigmoid", 0, 0, 0, by_op<OpKind::Sigmoid>},
    {"affine", 2, 1, 0, [](double a, double b) { return CellActivation{{}, 0, 0, 1, a, b}; }},
    {"leakyrelu", 1, 0.01, 0, by_op<OpKind::LeakyRelu>},
    {"thresholdedrelu", 1, 1, 0, by_op<OpKind::ThresholdedRelu>},
    {"scaledtanh", 2, 1, 1, [](double a, double b) { return CellActivation{OpKind::Tanh, 0, 0, b, a, 0}; }},
    {"hardsigmoid", 2, 0.2, 0.5, by_op<OpKind::HardSigmoid>},
    {"elu", 1, 1, 0, by_op<OpKind::Elu>},
    {"softsign", 0, 0, 0, by_op<OpKind::Softsign>},
    {"softplus", 0, 0, 0, by_op<OpKind::Softplus>},
};

}  // namespace

Recurrence recurrence(OpKind op, const RnnAttrs& a) {
  const int64_t directions = a.direction == RnnDirection::Bidirectional ? 2 : 1;
  if (op == OpKind::Lstm) return {4, directions, 3};
  if (op == OpKind::Gru) return {3, directions, 2};
  return {1, directions, 1};
}

std::optional<std::vector<CellActivation>> cell_activations(OpKind op, const RnnAttrs& a, std::string* reason) {
  const Recurrence r = recurrence(op, a);
  const size_t count = r.activations * static_cast<size_t>(r.directions);
  std::vector<std::string> names = a.activations;
  for (size_t i = 0; a.activations.empty() && i < count; ++i)
    names.push_back(r.activations > 1 && i % r.activations == 0 ? "sigmoid" : "tanh");
  if (names.size() != count) {
    *reason = "needs " + std::to_string(r.activations) + " activations per direction";
    return std::nullopt;
  }
  std::vector<CellActivation> out;
  size_t next_alpha = 0, next_beta = 0;
  for (std::string& name : names) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& k) { return k.name == name; });
    if (row == std::end(kRows)) {
      *reason = "unknown activation \"" + name + "\"";
      return std::nullopt;
    }
    double alpha = row->alpha, beta = row->beta;
    if (row->parameters > 0 && next_alpha < a.activation_alpha.size()) alpha = a.activation_alpha[next_alpha++];
    if (row->parameters > 1 && next_beta < a.activation_beta.size()) beta = a.activation_beta[next_beta++];
    out.push_back(row->make(alpha, beta));
  }
  return out;
}

}  // namespace rlxc::ops
