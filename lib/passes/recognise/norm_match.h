// Matches the common core of LayerNorm and RMSNorm: x * 1/sqrt(mean(x^2 over the last axes) + eps).
#pragma once
#include "passes/match.h"

namespace rlxc::recognise {

struct NormCore {
  ValueId x;         // the value divided by its root mean square
  int64_t axis = 0;  // mean over axis..last
  double eps = 0;
  std::vector<NodeId> nodes;  // nodes of the pattern, without those of x
};

// Matches a chain that ends at `n` (Mul or Div), with any order of commutative operands; Sqrt then Div, Recip or 1/x; Rsqrt; Pow
// -0.5; squares as Pow or Mul.
std::optional<NormCore> match_norm_core(const Graph&, NodeId n);

// `v` = mean of x over axes axis..last, with the axes kept as dim 1.
struct TrailingMean {
  ValueId x;
  int64_t axis = 0;
  NodeId node;
};
std::optional<TrailingMean> match_trailing_mean(const Graph&, ValueId v);

// An expanded layer norm, as TensorFlow writes it: x*r + (beta - mean(x)*r) with r = [gamma *] 1/sqrt(mean((x-mean(x))^2) + eps).
// `n`: the outer Add. The core's x is the normalised value.
struct Expanded {
  NormCore core;
  ValueId gamma, beta;
};
std::optional<Expanded> match_expanded_layer_norm(const Graph&, NodeId n);

// Matches the nodes after the core: [Cast back to the narrower type of `source`,] Mul by gamma [, Add beta], while each has a
// sole user and gamma and beta fit the normalised axes. `value`: the last value that the fused node replaces.
struct Affine {
  ValueId value, gamma, beta;
  std::vector<NodeId> nodes;
};
Affine match_affine(const Graph&, ValueId core, int64_t axis, DType source, bool with_beta);

// Emits `op` (LayerNorm or RmsNorm) of `x` in place of affine.value and records the decision. Returns false if it does not fit.
bool emit_norm(Graph&, PassContext&, OpKind op, std::string_view pattern, ValueId x, const NormCore&, const Affine&);
// The same with the nodes after `n`, the last node of the core; an RMSNorm has no beta. Includes a cast of x from half precision
// if the result is cast back, since the norm computes in f32.
bool emit_norm(Graph&, PassContext&, OpKind op, std::string_view pattern, NodeId n, ValueId x, const NormCore&);

}  // namespace rlxc::recognise
