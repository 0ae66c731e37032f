// What ONNX LSTM, GRU and RNN have in common: gates, directions, and the activations that attributes name.
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
// Of all directions in order. Activations take their alpha and beta from the front of the lists. nullopt, and *why: an unknown
// name, or the wrong number of names.
std::optional<std::vector<CellActivation>> cell_activations(OpKind, const RnnAttrs&, std::string* why);

}  // namespace rlxc::ops
