// Fused ops, computed by formula without intermediate rounding.
#include <algorithm>

#include "eval/conv.h"
#include "eval/gemm.h"
#include "eval/norm.h"

namespace rlxc::eval {
bool add_residual(Context& c, size_t i, std::vector<double>& y) {
  if (!c.has(i)) return true;
  if (c.t(i).elements() != static_cast<int64_t>(y.size()))
    return c.fail("the residual " + show(c.t(i).dtype, c.dims(i)) + " must have the result's shape");
  const auto r = c.doubles(i);
  for (size_t k = 0; k < y.size(); ++k) y[k] += r[k];
  return true;
}

std::vector<double> gated(std::span<const double> x, size_t n, bool gate_first, const Epilogue& act) {
  std::vector<double> up, gate;
  for (size_t at = 0; n > 0 && at < x.size(); at += 2 * n) {
    auto first = x.begin() + static_cast<std::ptrdiff_t>(at), middle = first + static_cast<std::ptrdiff_t>(n),
         end = middle + static_cast<std::ptrdiff_t>(n);
    (gate_first ? gate : up).insert((gate_first ? gate : up).end(), first, middle);
    (gate_first ? up : gate).insert((gate_first ? up : gate).end(), middle, end);
  }
  apply_epilogue(act.has ? act : Epilogue{true, OpKind::Silu, 0, 0}, gate);
  for (size_t i = 0; i < up.size(); ++i) up[i] *= gate[i];
  return up;
}

namespace {

bool eval_matmul_bias_act(Context& c) {
  const auto& a = c.a<FusedMatMulAttrs>();
  const auto dims = c.result_dims();
  const int64_t k = c.dims(0)[c.dims(0).size() - (a.trans_a ? 2 : 1)];
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(k + 2))) return false;
  if (!is_float(c.t(0).dtype)) return c.unsupported("is not defined for " + std::string(name(c.t(0).dtype)));
  auto y = matmul<double>(c.t(0), a.trans_a, c.t(1), a.trans_b, dims);
  if (c.has(2)) add_broadcast(y, dims, c.t(2));
  if (!add_residual(c, 3, y)) return false;
  apply_epilogue(a.act, y);
  return c.put_result(0, y);
}

bool eval_conv_bias_act(Context& c) {
  const auto& a = c.a<FusedConvAttrs>();
  const auto dims = c.result_dims();
  const bool transposed = c.op == OpKind::FusedConvTransposeBiasAct;
  if (transposed
          ? !charge_transposed(c)
          : !c.charge(static_cast<double>(product(dims)) *
                      (1 + static_cast<double>(c.t(1).elements()) / static_cast<double>(std::max<int64_t>(1, c.dims(1)[0])))))
    return false;
  auto y = transposed ? convolve_transposed(c.doubles(0), c.dims(0), c.doubles(1), c.dims(1), a.conv, dims)
                      : convolve(c.doubles(0), c.dims(0), c.doubles(1), c.dims(1), a.conv, dims);
  add_channel_bias(y, dims, c.optional_doubles(2));
  if (!add_residual(c, 3, y)) return false;
  apply_epilogue(a.act, y);
  return c.put_result(0, y);
}

bool eval_residual_norm(Context& c) {
  const auto& a = c.a<NormAttrs>();
  auto sum = c.doubles(0);
  if (!c.charge(8.0 * static_cast<double>(sum.size())) || !add_residual(c, 1, sum)) return false;
  if (c.has(2)) add_broadcast(sum, c.dims(0), c.t(2));
  auto y = sum;
  normalise(y, c.dims(0), a.axis, a.eps, c.op == OpKind::FusedResidualRmsNorm,
            {c.has(3) ? &c.t(3) : nullptr, c.has(4) ? &c.t(4) : nullptr});
  return c.put_result(0, y) && c.put_result(1, sum);
}

bool eval_swiglu(Context& c) {
  const auto& a = c.a<SwiGLUAttrs>();
  const auto x = c.doubles(0);
  if (!c.charge(4.0 * static_cast<double>(x.size()))) return false;
  return c.put_result(0, gated(x, static_cast<size_t>(c.dims(0).back() / 2), a.gate_first, a.act));
}

bool eval_matmul_swiglu(Context& c) {
  const auto& a = c.a<GatedMatMulAttrs>();
  auto dims = c.result_dims();
  const int64_t n = dims.back();
  dims.back() = 2 * n;
  if (!c.charge(static_cast<double>(product(dims)) * static_cast<double>(c.dims(0).back() + 2))) return false;
  auto y = matmul<double>(c.t(0), false, c.t(1), a.trans_b, dims);
  if (c.has(2)) add_broadcast(y, dims, c.t(2));
  return c.put_result(0, gated(y, static_cast<size_t>(n), a.gate_first, a.act));
}

}  // namespace

std::span<const Entry> fused_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::FusedMatMulBiasAct, eval_matmul_bias_act},
                                     {OpKind::Linear, eval_matmul_bias_act},
                                     {OpKind::LinearFused, eval_matmul_bias_act},
                                     {OpKind::FusedConvBiasAct, eval_conv_bias_act},
                                     {OpKind::FusedConvTransposeBiasAct, eval_conv_bias_act},
                                     {OpKind::FusedResidualLN, eval_residual_norm},
                                     {OpKind::FusedResidualRmsNorm, eval_residual_norm},
                                     {OpKind::FusedMatMulSwiGLU, eval_matmul_swiglu},
                                     {OpKind::FusedSwiGLU, eval_swiglu}};
  return kTable;
}

}  // namespace rlxc::eval
