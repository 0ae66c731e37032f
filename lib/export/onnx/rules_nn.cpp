// Products, convolutions, norms, recurrences and quantisation as operators of ONNX.
#include <cmath>

#include "export/onnx/writer.h"

namespace rlxc::onnx_export {
namespace {

std::string turned(const Site& s, size_t operand) {  // the last two axes swapped
  std::vector<int64_t> perm;
  const int rank = s.rank(operand);
  for (int64_t i = 0; i < rank; ++i) perm.push_back(i < rank - 2 ? i : 2 * rank - 3 - i);
  return s.w.node("Transpose", {s.in(operand)}, Attributes().integers("perm", perm));
}

bool matmul(const Site& s) {
  const MatMulAttrs& a = s.attrs<MatMulAttrs>();
  return s.be("MatMul", {a.trans_a ? turned(s, 0) : s.in(0), a.trans_b ? turned(s, 1) : s.in(1)});
}

Attributes conv_attributes(const ConvAttrs& c, bool transposed) {
  std::vector<int64_t> pads = c.pads_begin;
  pads.insert(pads.end(), c.pads_end.begin(), c.pads_end.end());
  Attributes a;
  a.integers("strides", c.strides).integers("pads", pads).integers("dilations", c.dilations).integer("group", c.groups);
  if (transposed) a.integers("output_padding", c.output_padding);
  return a;
}
bool conv(const Site& s) { return s.be("Conv", s.all(), conv_attributes(s.attrs<ConvAttrs>(), false)); }
bool conv_transpose(const Site& s) { return s.be("ConvTranspose", s.all(), conv_attributes(s.attrs<ConvAttrs>(), true)); }
bool q_conv(const Site& s) { return s.be("ConvInteger", s.all(), conv_attributes(s.attrs<ConvAttrs>(), false)); }
bool q_matmul(const Site& s) { return s.be("MatMulInteger", s.all()); }

Attributes pool_attributes(const PoolAttrs& p) {
  std::vector<int64_t> pads = p.pads_begin;
  pads.insert(pads.end(), p.pads_end.begin(), p.pads_end.end());
  Attributes a;
  a.integers("kernel_shape", p.kernel).integers("strides", p.strides).integers("pads", pads).integers("dilations", p.dilations);
  a.integer("ceil_mode", p.ceil_mode);
  return a;
}
bool pool(const Site& s) {
  const PoolAttrs& p = s.attrs<PoolAttrs>();
  Attributes a = pool_attributes(p);
  if (p.op == ReduceOp::Max) return s.be("MaxPool", s.all(), a);
  if (p.op == ReduceOp::Mean) return s.be("AveragePool", s.all(), a.integer("count_include_pad", p.count_include_pad));
  if (p.op == ReduceOp::L2) return s.be("LpPool", s.all(), a.integer("p", static_cast<int64_t>(p.p)));
  // A sum is a mean that counts all of a window, times their number.
  int64_t count = 1;
  for (int64_t k : p.kernel) count *= k;
  return s.be("Mul", {s.w.node("AveragePool", s.all(), a.integer("count_include_pad", 1)),
                      s.w.scalar(s.dtype(0), static_cast<double>(count))});
}
bool is_known_pool(const Graph& g, NodeId n) {
  const PoolAttrs& p = g.attrs<PoolAttrs>(n);
  const bool whole = p.op == ReduceOp::L2 && p.p == static_cast<double>(static_cast<int64_t>(p.p));
  return p.op == ReduceOp::Max || p.op == ReduceOp::Mean || whole || (p.op == ReduceOp::Sum && !p.ceil_mode);
}
bool max_pool_indices(const Site& s) {
  const PoolAttrs& p = s.attrs<PoolAttrs>();
  return s.be("MaxPool", s.all(), pool_attributes(p).integer("storage_order", p.column_major));
}

bool softmax(const Site& s) { return s.be("Softmax", s.all(), Attributes().integer("axis", s.attrs<AxisAttrs>().axis)); }
bool log_softmax(const Site& s) { return s.be("LogSoftmax", s.all(), Attributes().integer("axis", s.attrs<AxisAttrs>().axis)); }

bool layer_norm(const Site& s) {
  const NormAttrs& a = s.attrs<NormAttrs>();
  return s.be("LayerNormalization", s.all(), Attributes().integer("axis", a.axis).number("epsilon", a.eps));
}
bool has_scale(const Graph& g, NodeId n) { return g.operand(n, 1).valid(); }
bool batch_norm(const Site& s) {
  return s.be("BatchNormalization", s.all(), Attributes().number("epsilon", s.attrs<NormAttrs>().eps));
}
bool is_of_channels(const Graph& g, NodeId n) { return g.attrs<NormAttrs>(n).axis == 1; }
bool lrn(const Site& s) {
  const LrnAttrs& a = s.attrs<LrnAttrs>();
  return s.be("LRN", s.all(),
              Attributes().integer("size", a.size).number("alpha", a.alpha).number("beta", a.beta).number("bias", a.bias));
}
bool det(const Site& s) { return s.be("Det", s.all()); }

bool recurrent(const Site& s) {
  const RnnAttrs& r = s.attrs<RnnAttrs>();
  const OpKind op = s.g.op(s.n);
  Attributes a;
  a.integer("hidden_size", r.hidden).string("direction", enum_names(r.direction)[static_cast<size_t>(r.direction)]);
  if (!r.activations.empty()) a.strings("activations", r.activations);
  if (!r.activation_alpha.empty()) a.numbers("activation_alpha", r.activation_alpha);
  if (!r.activation_beta.empty()) a.numbers("activation_beta", r.activation_beta);
  if (r.clip > 0) a.number("clip", r.clip);
  if (op == OpKind::Lstm) a.integer("input_forget", r.input_forget);
  if (op == OpKind::Gru) a.integer("linear_before_reset", r.linear_before_reset);
  return s.be(op == OpKind::Lstm ? "LSTM" : op == OpKind::Gru ? "GRU" : "RNN", s.all(), a);
}
bool is_steps_first(const Graph& g, NodeId n) { return !g.attrs<RnnAttrs>(n).batch_first; }

bool quantize(const Site& s) {
  const QuantAttrs& q = s.attrs<QuantAttrs>();
  Attributes a;
  a.integer("axis", q.axis).integer("saturate", q.saturate);
  if (q.block) a.integer("block_size", q.block);
  if (!s.has(2)) a.integer("output_dtype", onnx_dtype(q.to));
  return s.be("QuantizeLinear", s.all(), a);
}
bool dequantize(const Site& s) {
  const QuantAttrs& q = s.attrs<QuantAttrs>();
  Attributes a;
  a.integer("axis", q.axis);
  if (q.block) a.integer("block_size", q.block);
  return s.be("DequantizeLinear", s.all(), a);
}
bool is_typed_as_scale(const Graph& g, NodeId n) { return g.attrs<QuantAttrs>(n).to == g.dtype(g.operand(n, 1)); }

double fft_factor(FftNorm norm, double n) {
  return norm == FftNorm::None ? 1 : norm == FftNorm::InverseN ? 1 / n : 1 / std::sqrt(n);
}

int64_t fft_length(const Graph& g, NodeId n) {  // -1: not known
  const FftAttrs& f = g.attrs<FftAttrs>(n);
  const Dim length = f.length != Dim(0) ? f.length : g.dims(g.operand(n, 0))[static_cast<size_t>(f.axis)];
  return g.module().dims.constant_value(length).value_or(-1);
}
double inverse_factor(const Site& s) {
  const auto n = static_cast<double>(fft_length(s.g, s.n));
  return fft_factor(s.attrs<FftAttrs>().norm, n) * n;
}
// Half a spectrum with its mirror image, conjugated, behind it.
std::string whole_spectrum(const Site& s) {
  const int64_t n = fft_length(s.g, s.n), half = n / 2 + 1, axis = s.attrs<FftAttrs>().axis;
  const std::string at = s.w.ints({axis}), lower = s.w.node("Slice", {s.in(0), s.w.ints({0}), s.w.ints({half}), at});
  const std::string upper = s.w.node("Slice", {s.in(0), s.w.ints({n - half}), s.w.ints({0}), at, s.w.ints({-1})});
  const std::string sign = s.w.node("Cast", {s.w.ints({1, -1})}, Attributes().integer("to", onnx_dtype(s.dtype(0))));
  return s.w.node("Concat", {lower, s.w.node("Mul", {upper, sign})}, Attributes().integer("axis", axis));
}
std::string real_part(const Site& s, const std::string& v) {
  return s.w.node("Slice", {v, s.w.ints({0}), s.w.ints({1}), s.w.ints({-1})});
}

// The forward transform of ONNX has no factor, the backward one 1/n.
bool fft(const Site& s) {
  const FftAttrs& f = s.attrs<FftAttrs>();
  const std::string length = f.length == Dim(0) ? std::string() : s.w.size(f.length);
  const std::string axis = s.w.scalar(DType::I64, static_cast<double>(f.axis));
  Attributes a;
  const bool mirrored = f.inverse && f.onesided;
  a.integer("inverse", f.inverse).integer("onesided", f.onesided && !mirrored);
  const FftNorm own = f.inverse ? FftNorm::InverseN : FftNorm::None;
  if (mirrored)
    return s.be("Mul",
                {real_part(s, s.w.node("DFT", {whole_spectrum(s), "", axis}, a)), s.w.scalar(s.dtype(0), inverse_factor(s))});
  if (f.norm == own) return s.be("DFT", {s.in(0), length, axis}, a);
  const auto count = static_cast<double>(fft_length(s.g, s.n));
  const double factor = fft_factor(f.norm, count) / fft_factor(own, count);
  return s.be("Mul", {s.w.node("DFT", {s.in(0), length, axis}, a), s.w.scalar(s.dtype(0), factor)});
}
bool is_dft(const Graph& g, NodeId n) {
  const FftAttrs& f = g.attrs<FftAttrs>(n);
  const int64_t length = fft_length(g, n);
  const auto given = g.module().dims.constant_value(g.dims(g.operand(n, 0))[static_cast<size_t>(f.axis)]);
  if (f.inverse && f.onesided) return length > 0 && given.value_or(0) > length / 2;
  return length > 0 || f.norm == (f.inverse ? FftNorm::InverseN : FftNorm::None);
}

}  // namespace

std::span<const RuleEntry> nn_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::MatMul, matmul},
      {OpKind::Conv, conv},
      {OpKind::ConvTranspose, conv_transpose},
      {OpKind::QMatMul, q_matmul},
      {OpKind::QConv, q_conv},
      {OpKind::Pool, pool, is_known_pool},
      {OpKind::MaxPoolIndices, max_pool_indices},
      {OpKind::Softmax, softmax},
      {OpKind::LogSoftmax, log_softmax},
      {OpKind::LayerNorm, layer_norm, has_scale},
      {OpKind::BatchNormInference, batch_norm, is_of_channels},
      {OpKind::Lrn, lrn},
      {OpKind::Det, det},
      {OpKind::Lstm, recurrent, is_steps_first},
      {OpKind::Gru, recurrent, is_steps_first},
      {OpKind::Rnn, recurrent, is_steps_first},
      {OpKind::Quantize, quantize},
      {OpKind::Dequantize, dequantize, is_typed_as_scale},
      {OpKind::Fft, fft, is_dft},
  };
  return kTable;
}

}  // namespace rlxc::onnx_export
