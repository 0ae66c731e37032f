// The common core of LayerNorm and RMSNorm as exporters spell it: x * 1/sqrt(mean(x^2 over the last axes) + eps).
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

struct NormCore {
  ValueId x;         // what is divided by its root mean square
  int64_t axis = 0;  // the mean is over axis..last
  double eps = 0;
  std::vector<NodeId> nodes;  // of the pattern, without x's
};

// Is `n` the last node (Mul or Div) of such a chain? All orders of commutative operands; Sqrt then Div, Recip or 1/x; Rsqrt;
// Pow -0.5; squares as Pow or Mul.
std::optional<NormCore> match_norm_core(const Graph&, NodeId n);

// `v` = mean of x over the last axes, kept as axes of size 1: the first of those axes.
struct TrailingMean {
  ValueId x;
  int64_t axis = 0;
  NodeId node;
};
std::optional<TrailingMean> match_trailing_mean(const Graph&, ValueId v);

// A layer norm multiplied out, as TensorFlow spells it: x*r + (beta - mean(x)*r) with r = [gamma *] 1/sqrt(mean((x-mean(x))^2) +
// eps). `n` is the outer Add; the core's x is the x that is normalised.
struct Expanded {
  NormCore core;
  ValueId gamma, beta;
};
std::optional<Expanded> match_expanded_layer_norm(const Graph&, NodeId n);

// What follows the core: [Cast back to the narrower type of `source`,] Mul by gamma [, Add beta], as far as there is one reader
// each and gamma and beta fit the normalised axes. `value` is the last value that the fused node replaces.
struct Affine {
  ValueId value, gamma, beta;
  std::vector<NodeId> nodes;
};
Affine match_affine(const Graph&, ValueId core, int64_t axis, DType source, bool with_beta);

// Emits `op` (LayerNorm or RmsNorm) in the place of affine.value, reading `x`, and records the decision. False if it does not
// fit.
bool emit_norm(Graph&, PassContext&, OpKind op, std::string_view pattern, ValueId x, const NormCore&, const Affine&);
// The same with what follows `n`, the last node of the core; an RMSNorm has no beta. A cast of x from half precision is part of
// it where the result is cast back: the norm computes in f32 by itself.
bool emit_norm(Graph&, PassContext&, OpKind op, std::string_view pattern, NodeId n, ValueId x, const NormCore&);

}  // namespace rlxc::recognise
