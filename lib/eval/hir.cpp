// HIR blocks, computed by formula.
#include "eval/attention.h"
#include "eval/gemm.h"
#include "eval/norm.h"

namespace rlxc::eval {
namespace {

// x [.., k] times w [k, n].
struct Rows {
  std::vector<double> values;
  int64_t rows = 0, columns = 0;
};

Rows times(const Rows& x, const TensorData& w) {
  Rows y{{}, x.rows, w.dims[1]};
  const int64_t dims[] = {y.rows, y.columns};
  y.values = matmul<double>(tensor_view(x.values, {x.rows, x.columns}), false, w, false, dims);
  return y;
}

Rows rows_of(const Context& c, size_t i) {
  const int64_t columns = c.dims(i).back();
  return {c.doubles(i), columns ? c.t(i).elements() / columns : 0, columns};
}

// silu(gate) * up.
Rows times_gate(Rows gate, const Rows& up) {
  apply_epilogue({true, OpKind::Silu, 0, 0}, gate.values);
  for (size_t i = 0; i < gate.values.size(); ++i) gate.values[i] *= up.values[i];
  return gate;
}

bool eval_shared_linear_pair(Context& c) {
  const Rows x = rows_of(c, 0);
  if (!c.charge(static_cast<double>(x.rows) * static_cast<double>(c.t(1).elements() + c.t(2).elements()))) return false;
  return c.put_result(0, times(x, c.t(1)).values) && c.put_result(1, times(x, c.t(2)).values);
}

bool eval_swiglu_block(Context& c) {
  const Rows x = rows_of(c, 0);
  if (!c.charge(static_cast<double>(x.rows) * static_cast<double>(c.t(1).elements() + c.t(2).elements() + c.t(3).elements())))
    return false;
  return c.put_result(0, times(times_gate(times(x, c.t(2)), times(x, c.t(1))), c.t(3)).values);
}

bool eval_residual_rms_norm(Context& c) {
  const auto& a = c.a<NormAttrs>();
  auto x = c.doubles(0);
  if (c.dims(1) != c.dims(0) || a.axis < 0 || a.axis >= static_cast<int64_t>(c.dims(0).size()))
    return c.fail("x and residual must have one shape");
  const auto r = c.doubles(1);
  if (!c.charge(8.0 * static_cast<double>(x.size()))) return false;
  for (size_t i = 0; i < x.size(); ++i) x[i] += r[i];
  normalise(x, c.dims(0), a.axis, a.eps, true, {c.has(2) ? &c.t(2) : nullptr, c.has(3) ? &c.t(3) : nullptr});
  return c.put_result(0, x);
}

bool eval_depthwise_conv(Context& c) {
  const auto &d = c.dims(0), &w_dims = c.dims(1), &pad = c.dims(2);
  if (d.size() != 3 || w_dims.size() != 4 || w_dims[0] != d[2] || w_dims[1] != 1 || w_dims[2] != 1 ||
      pad != std::vector<int64_t>{d[0], w_dims[3] - 1, d[2]})
    return c.fail("needs x [B,S,C], w [C,1,1,K] and left_pad [B,K-1,C]");
  const int64_t length = d[1], channels = d[2], k = w_dims[3];
  if (!c.charge(static_cast<double>(c.t(0).elements()) * static_cast<double>(k))) return false;
  const auto x = c.doubles(0), w = c.doubles(1), left = c.doubles(2);
  std::vector<double> y(x.size(), 0.0);
  for (int64_t b = 0; b < d[0]; ++b)
    for (int64_t s = 0; s < length; ++s)
      for (int64_t t = 0; t < k; ++t) {
        const int64_t at = s + t - (k - 1);  // index into x; negative: padding
        const double* row = at < 0 ? left.data() + (b * (k - 1) + s + t) * channels : x.data() + (b * length + at) * channels;
        for (int64_t ch = 0; ch < channels; ++ch)
          y[static_cast<size_t>((b * length + s) * channels + ch)] += row[ch] * w[static_cast<size_t>(ch * k + t)];
      }
  return c.put_result(0, y);
}

bool eval_decoder_block(Context& c) {
  enum { kX, kNorm1, kShift1, kQ, kK, kV, kO, kNorm2, kShift2, kGate, kUp, kDown, kCos, kSin, kMask };
  const auto& a = c.a<DecoderAttrs>();
  const auto& d = c.dims(kX);
  const int64_t heads = a.num_heads, width = a.head_dim, kv_heads = a.kv_heads();
  if (d.size() != 3 || heads < 1 || width < 2 || width % 2 || kv_heads < 1 || heads % kv_heads)
    return c.fail("needs x [B,S,E] and head sizes that fit");
  const std::pair<int, std::vector<int64_t>> shapes[] = {{kQ, {d[2], heads * width}},
                                                         {kK, {d[2], kv_heads * width}},
                                                         {kV, {d[2], kv_heads * width}},
                                                         {kO, {heads * width, d[2]}},
                                                         {kGate, c.dims(kUp)},
                                                         {kNorm1, {d[2]}},
                                                         {kNorm2, {d[2]}},
                                                         {kShift1, {d[2]}},
                                                         {kShift2, {d[2]}}};
  for (const auto& [i, want] : shapes)
    if (c.dims(static_cast<size_t>(i)) != want)
      return c.fail("operand " + std::to_string(i) + " must be " + show(c.t(0).dtype, want));
  const auto &up = c.dims(kUp), &down = c.dims(kDown), &table = c.dims(kCos);
  if (up.size() != 2 || down.size() != 2 || up[0] != d[2] || down[0] != up[1] || down[1] != d[2])
    return c.fail("the feed-forward weights do not fit");
  if (table.size() != 2 || c.dims(kSin) != table || table[0] < d[1] || (table[1] != width / 2 && table[1] != width))
    return c.fail("the tables do not fit");
  const int64_t rows = d[0] * d[1];
  double work = static_cast<double>(rows) * static_cast<double>(d[1]) * 2.0 * static_cast<double>(heads * width);
  for (int i : {kQ, kK, kV, kO, kGate, kUp, kDown})
    work += static_cast<double>(rows) * static_cast<double>(c.t(static_cast<size_t>(i)).elements());
  if (!c.charge(work)) return false;

  const int64_t flat[] = {rows, d[2]};
  auto norm = [&](Rows x, size_t gamma, size_t beta) {
    normalise(x.values, flat, 1, a.eps, true, {&c.t(gamma), &c.t(beta)});
    return x;
  };
  Rows x{c.doubles(kX), rows, d[2]};
  const Rows n = norm(x, kNorm1, kShift1);
  const int64_t q_dims[] = {d[0], d[1], heads * width}, kv_dims[] = {d[0], d[1], kv_heads * width};
  AttentionOperands p;
  p.q = times(n, c.t(kQ)).values;
  p.k = times(n, c.t(kK)).values;
  p.v = times(n, c.t(kV)).values;
  p.q_view = p.y_view = head_view(q_dims, AttentionLayout::Packed, heads);
  p.k_view = p.v_view = head_view(kv_dims, AttentionLayout::Packed, kv_heads);
  rope(p.q, p.q_view, c.t(kCos), c.t(kSin), width, RopeStyle::NeoX);
  rope(p.k, p.k_view, c.t(kCos), c.t(kSin), width, RopeStyle::NeoX);
  p.kind = a.mask;
  const bool masked = a.mask == MaskKind::Custom || a.mask == MaskKind::Bias;
  if (masked != c.has(kMask))
    return c.fail(masked ? "the mask operand is absent" : "a mask operand needs mask kind custom or bias");
  if (masked) {
    const int64_t scores[] = {d[0], heads, d[1], d[1]};
    const auto& m = c.dims(kMask);
    for (size_t i = 0; i < m.size(); ++i)
      if (m.size() > 4 || (m[i] != 1 && m[i] != scores[4 - m.size() + i])) return c.fail("the mask must broadcast to [B,H,S,S]");
    p.mask = &c.t(kMask);
  }
  const Rows o = times({attention(p), rows, heads * width}, c.t(kO));
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += o.values[i];
  const Rows m = norm(x, kNorm2, kShift2);
  const Rows f = times(times_gate(times(m, c.t(kGate)), times(m, c.t(kUp))), c.t(kDown));
  for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += f.values[i];
  return c.put_result(0, x.values);
}

}  // namespace

std::span<const Entry> hir_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::SharedLinearPair, eval_shared_linear_pair},
                                     {OpKind::SwiGLU, eval_swiglu_block},
                                     {OpKind::ResidualRmsNorm, eval_residual_rms_norm},
                                     {OpKind::DepthwiseConv1dCausal, eval_depthwise_conv},
                                     {OpKind::LlamaDecoderBlock, eval_decoder_block}};
  return kTable;
}

}  // namespace rlxc::eval
