// Products, convolutions, norms, recurrences and quantization as operators of ONNX.
#include <algorithm>
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

bool is_matrix_product(const Graph& g, NodeId n) {
  return g.op(n) == OpKind::MatMul && g.rank(g.operand(n, 0)) == 2 && g.rank(g.operand(n, 1)) == 2 &&
         is_float(g.dtype(g.result(n)));
}
// Does the value repeat to these sizes, at most along its front?
bool repeats_to(const Graph& g, ValueId v, std::span<const Dim> dims) {
  const auto own = g.dims(v);
  if (own.size() > dims.size()) return false;
  for (size_t i = 0; i < own.size(); ++i)
    if (own[own.size() - 1 - i] != dims[dims.size() - 1 - i] && own[own.size() - 1 - i] != Dim(1)) return false;
  return true;
}

bool matmul(const Site& s) {
  const MatMulAttrs& a = s.attrs<MatMulAttrs>();
  const NodeId user = s.g.only_user(s.g.result(s.n));
  if (user.valid() && s.g.op(user) == OpKind::Add && product_of_gemm(s.g, user) == s.n) return true;  // written there
  if ((a.trans_a || a.trans_b) && is_matrix_product(s.g, s.n))
    return s.be("Gemm", s.all(), Attributes().integer("transA", a.trans_a).integer("transB", a.trans_b));
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
bool conv(const Site& s) {
  const ConvAttrs& c = s.attrs<ConvAttrs>();
  const std::string_view same = same_padding(s.w, s.g, s.n);
  if (same.empty()) return s.be("Conv", s.all(), conv_attributes(c, false));
  Names in{s.w.name_of(s.g, s.g.operand(s.g.def(s.g.operand(s.n, 0)), 0))};
  for (size_t i = 1; i < s.g.operands(s.n).size(); ++i) in.push_back(s.in(i));
  return s.be("Conv", in,
              Attributes()
                  .string("auto_pad", same)
                  .integers("strides", c.strides)
                  .integers("dilations", c.dilations)
                  .integer("group", c.groups));
}
bool conv_transpose(const Site& s) { return s.be("ConvTranspose", s.all(), conv_attributes(s.attrs<ConvAttrs>(), true)); }
bool q_conv(const Site& s) { return s.be("ConvInteger", s.all(), conv_attributes(s.attrs<ConvAttrs>(), false)); }
bool q_matmul(const Site& s) { return s.be("MatMulInteger", s.all()); }

bool is_spread(const PoolAttrs& p) {
  return std::ranges::any_of(p.dilations, [](int64_t d) { return d != 1; });
}
Attributes pool_attributes(const PoolAttrs& p) {
  std::vector<int64_t> pads = p.pads_begin;
  pads.insert(pads.end(), p.pads_end.begin(), p.pads_end.end());
  Attributes a;
  a.integers("kernel_shape", p.kernel).integers("strides", p.strides).integers("pads", pads);
  if (is_spread(p)) a.integers("dilations", p.dilations);
  if (p.ceil_mode) a.integer("ceil_mode", 1);
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
bool is_known_pool(const Graph& g, NodeId n, int64_t opset) {
  const PoolAttrs& p = g.attrs<PoolAttrs>(n);
  const bool is_max = p.op == ReduceOp::Max, is_lp = p.op == ReduceOp::L2;
  if (opset < (is_lp ? 18 : 19) && !is_max && (is_spread(p) || (is_lp && p.ceil_mode))) return false;
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
bool is_layer_norm(const Graph& g, NodeId n, int64_t) { return g.operand(n, 1).valid(); }
bool batch_norm(const Site& s) {
  return s.be("BatchNormalization", s.all(), Attributes().number("epsilon", s.attrs<NormAttrs>().eps));
}
bool is_batch_norm(const Graph& g, NodeId n, int64_t opset) {
  const auto same = [&](ValueId v) { return !v.valid() || g.dtype(v) == g.dtype(g.operand(n, 0)); };
  const bool known =
      opset >= 15 || (std::ranges::all_of(g.operands(n), same) && (opset >= 14 || g.dtype(g.result(n)) != DType::BF16));
  return known && g.attrs<NormAttrs>(n).axis == 1;
}
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
bool is_steps_first(const Graph& g, NodeId n, int64_t) { return !g.attrs<RnnAttrs>(n).batch_first; }

bool quantize(const Site& s) {
  const QuantAttrs& q = s.attrs<QuantAttrs>();
  Attributes a;
  a.integer("axis", q.axis);
  if (s.w.opset() >= 19) a.integer("saturate", q.saturate);
  if (q.block) a.integer("block_size", q.block);
  if (s.has(2)) return s.be("QuantizeLinear", s.all(), a);
  if (s.w.opset() >= 21) return s.be("QuantizeLinear", s.all(), a.integer("output_dtype", onnx_dtype(q.to)));
  // The zero point says the type.
  const std::string zero = s.w.node("Cast", {s.w.node("Sub", {s.in(1), s.in(1)})}, Attributes().integer("to", onnx_dtype(q.to)));
  return s.be("QuantizeLinear", {s.in(0), s.in(1), zero}, a);
}
bool is_quantize(const Graph& g, NodeId n, int64_t opset) {
  const QuantAttrs& q = g.attrs<QuantAttrs>(n);
  const bool bytes = is_int8(q.to) || (bits(q.to) == 8 && opset >= 19);
  return opset >= 21 || (q.block == 0 && bytes && (opset >= 19 || g.dtype(g.operand(n, 0)) == DType::F32));
}
bool dequantize(const Site& s) {
  const QuantAttrs& q = s.attrs<QuantAttrs>();
  Attributes a;
  a.integer("axis", q.axis);
  if (q.block) a.integer("block_size", q.block);
  return s.be("DequantizeLinear", s.all(), a);
}
bool is_dequantize(const Graph& g, NodeId n, int64_t opset) {
  const QuantAttrs& q = g.attrs<QuantAttrs>(n);
  const DType from = g.dtype(g.operand(n, 0));
  const bool known = is_int8(from) || from == DType::I32 || (bits(from) == 8 && opset >= 19);
  return q.to == g.dtype(g.operand(n, 1)) && (opset >= 21 || (q.block == 0 && known && (opset >= 19 || q.to == DType::F32)));
}

double fft_factor(FftNorm norm, double n) {
  return norm == FftNorm::None ? 1 : norm == FftNorm::InverseN ? 1 / n : 1 / std::sqrt(n);
}

int64_t fft_length(const Graph& g, NodeId n) {  // -1: not known
  const FftAttrs& f = g.attrs<FftAttrs>(n);
  const Dim length = f.length != Dim(0) ? f.length : g.dims(g.operand(n, 0))[static_cast<size_t>(f.axis)];
  return g.module().dims.constant_value(length).value_or(-1);
}
double inverse_factor(const Graph& g, NodeId fft) {
  const auto n = static_cast<double>(fft_length(g, fft));
  return fft_factor(g.attrs<FftAttrs>(fft).norm, n) * n;
}
bool is_mirrored(const FftAttrs& f) { return f.inverse && f.onesided; }
// Half a spectrum with its mirror image, conjugated, behind it.
std::string whole_spectrum(const Site& s) {
  const int64_t n = fft_length(s.g, s.n), half = n / 2 + 1, axis = s.attrs<FftAttrs>().axis;
  const bool cuts = s.dims(0)[static_cast<size_t>(axis)] != Dim(half);
  const std::string lower = cuts ? s.w.node("Slice", {s.in(0), s.w.ints({0}), s.w.ints({half}), s.w.ints({axis})}) : s.in(0);
  const std::string upper = s.w.node("Slice", {s.in(0), s.w.ints({n - half}), s.w.ints({0}), s.w.ints({axis}), s.w.ints({-1})});
  std::vector<std::byte> signs;
  for (double sign : {1.0, -1.0}) std::ranges::copy(element_bytes(s.dtype(0), sign), std::back_inserter(signs));
  const std::string sign = s.w.constant(make_data(s.dtype(0), {2}, std::span<const std::byte>(signs)), "c");
  return s.w.node("Concat", {lower, s.w.node("Mul", {upper, sign})}, Attributes().integer("axis", axis));
}
// The forward transform of ONNX has no factor, the backward one 1/n.
bool fft(const Site& s) {
  const FftAttrs& f = s.attrs<FftAttrs>();
  const std::string length = f.length == Dim(0) ? std::string() : s.w.size(f.length);
  const bool by_operand = s.w.opset() >= 20;
  const std::string axis = by_operand ? s.w.scalar(DType::I64, static_cast<double>(f.axis)) : std::string();
  Attributes a;
  if (!by_operand) a.integer("axis", f.axis);
  const bool mirrored = is_mirrored(f);
  a.integer("inverse", f.inverse).integer("onesided", f.onesided && !mirrored);
  const FftNorm own = f.inverse ? FftNorm::InverseN : FftNorm::None;
  if (mirrored) {
    const Names in{whole_spectrum(s), "", axis};
    if (reshape_of_real_part(s.g, s.n).valid()) return s.be("DFT", in, a);  // which takes the real parts
    const Names real{s.w.node("DFT", in, a), s.w.ints({0}), s.w.ints({1}), s.w.ints({-1})};
    const double factor = inverse_factor(s.g, s.n);
    if (factor == 1) return s.be("Slice", real);
    return s.be("Mul", {s.w.node("Slice", real), s.w.scalar(s.dtype(0), factor)});
  }
  if (f.norm == own) return s.be("DFT", {s.in(0), length, axis}, a);
  const auto count = static_cast<double>(fft_length(s.g, s.n));
  const double factor = fft_factor(f.norm, count) / fft_factor(own, count);
  return s.be("Mul", {s.w.node("DFT", {s.in(0), length, axis}, a), s.w.scalar(s.dtype(0), factor)});
}
bool is_dft(const Graph& g, NodeId n, int64_t) {
  const FftAttrs& f = g.attrs<FftAttrs>(n);
  const int64_t length = fft_length(g, n);
  const auto given = g.module().dims.constant_value(g.dims(g.operand(n, 0))[static_cast<size_t>(f.axis)]);
  if (is_mirrored(f)) return length > 0 && given.value_or(0) > length / 2;
  return length > 0 || f.norm == (f.inverse ? FftNorm::InverseN : FftNorm::None);
}

// The operators for groups have a scale and a shift.
std::string channels_of(const Site& s, size_t operand, double value) {
  const DType t = s.dtype(0);
  return s.has(operand) ? s.in(operand) : s.w.constant(make_splat(t, {s.dims(0)[1].size()}, element_bytes(t, value)), "c");
}
bool group_norm(const Site& s) {
  const GroupNormAttrs& a = s.attrs<GroupNormAttrs>();
  const Names in{s.in(0), channels_of(s, 1, 1), channels_of(s, 2, 0)};
  Attributes attributes;
  attributes.number("epsilon", a.eps);
  if (Dim(a.groups) == s.dims(0)[1]) return s.be("InstanceNormalization", in, attributes);
  return s.be("GroupNormalization", in, attributes.integer("num_groups", a.groups));
}
bool is_group_norm(const Graph& g, NodeId n, int64_t opset) {
  const auto x = g.dims(g.operand(n, 0));
  const bool each = x[1] == Dim(g.attrs<GroupNormAttrs>(n).groups);
  return x.size() >= 3 && x[1].is_static() && (each || opset >= 21);
}

}  // namespace

NodeId reshape_of_real_part(const Graph& g, NodeId fft) {
  const NodeId user = g.only_user(g.result(fft));
  if (!user.valid() || g.op(user) != OpKind::Reshape || !is_mirrored(g.attrs<FftAttrs>(fft)) || inverse_factor(g, fft) != 1)
    return {};
  const auto dims = g.dims(g.result(fft));
  return std::ranges::equal(dims.first(dims.size() - 1), g.dims(g.result(user))) ? user : NodeId();
}

// Padding that depends on symbolic sizes would be computed by many nodes.
std::string_view same_padding(Writer& w, const Graph& g, NodeId conv) {
  if (g.op(conv) != OpKind::Conv) return {};
  const NodeId pad = g.def(g.operand(conv, 0));
  if (g.op(pad) != OpKind::Pad || g.only_user(g.result(pad)) != conv) return {};
  const ConvAttrs& c = g.attrs<ConvAttrs>(conv);
  const PadAttrs& p = g.attrs<PadAttrs>(pad);
  const Site site{w, g, pad};
  if (p.mode != PadMode::Constant || (site.has(1) && !site.is_number(1, 0))) return {};
  DimTable& t = w.dims();
  const std::span<const Dim> have = g.dims(g.operand(pad, 0)), window = g.dims(g.operand(conv, 1));
  bool upper = true, lower = true, is_static = true;
  for (size_t i = 0; i < have.size(); ++i) {
    if (i < 2) {
      if (p.before[i] != Dim(0) || p.after[i] != Dim(0)) return {};
      continue;
    }
    const size_t k = i - 2;
    const auto size = t.constant_value(window[i]);
    if (!size) return {};
    const int64_t reach = (*size - 1) * c.dilations[k] + 1;
    const Dim stride(c.strides[k]), steps = t.sub(t.ceil_div(have[i], stride), Dim(1));
    Dim total = t.sub(t.add(t.mul(steps, stride), Dim(reach)), have[i]);
    if (reach < c.strides[k]) total = t.max(total, Dim(0));
    const Dim less = t.floor_div(total, Dim(2)), more = t.sub(total, less);
    const Dim before = t.add(p.before[i], Dim(c.pads_begin[k])), after = t.add(p.after[i], Dim(c.pads_end[k]));
    upper = upper && t.equal(before, less) && t.equal(after, more);
    lower = lower && t.equal(before, more) && t.equal(after, less);
    is_static = is_static && have[i].is_static();
  }
  if (is_static) return {};
  return upper ? "SAME_UPPER" : lower ? "SAME_LOWER" : "";
}

NodeId product_of_gemm(const Graph& g, NodeId add) {
  for (size_t k = 0; k < 2; ++k) {
    const ValueId v = g.operand(add, k), c = g.operand(add, 1 - k);
    const NodeId n = g.def(v);
    if (is_matrix_product(g, n) && g.has_one_use(v) && repeats_to(g, c, g.dims(v)) &&
        std::ranges::equal(g.dims(v), g.dims(g.result(add))))
      return n;
  }
  return {};
}

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
      {OpKind::LayerNorm, layer_norm, is_layer_norm, 17},
      {OpKind::BatchNormInference, batch_norm, is_batch_norm},
      {OpKind::GroupNorm, group_norm, is_group_norm},
      {OpKind::Lrn, lrn},
      {OpKind::Det, det},
      {OpKind::Lstm, recurrent, is_steps_first},
      {OpKind::Gru, recurrent, is_steps_first},
      {OpKind::Rnn, recurrent, is_steps_first},
      {OpKind::Quantize, quantize, is_quantize},
      {OpKind::Dequantize, dequantize, is_dequantize},
      {OpKind::Fft, fft, is_dft, 17},
  };
  return kTable;
}

}  // namespace rlxc::onnx_export
