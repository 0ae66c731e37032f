// Quantizes constant weights of matmuls (options.weight_cast): i8, i4 or an 8-bit float, one scale per column, per block of the
// contracted axis, or per tensor. 0 is exact; the largest magnitude of a block becomes the largest quantized value. Changes large
// 2-D weights of known contents only. Each is a PrecisionNote with its error; declines are Decisions ("quantized_weights").
// O(nodes + elements of weights).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <unordered_set>

#include "eval/weight_value.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "support/half.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kQuantizedWeights = "quantized_weights";

constexpr int64_t kFewest = 1024;  // smaller weights are not quantized

double largest_code(DType t) {
  if (is_integer(t)) return std::ldexp(1.0, bits(t) - 1) - 1;
  return largest_finite(t);
}

// Quantized values [n, k], scales [n, blocks], and the RMS error relative to the RMS of the weight.
struct Quantized {
  TensorData quantized, scales;
  double error = 0;
};

class CodeWriter {
 public:
  CodeWriter(DType t, int64_t count) : t_(t), width_(bits(t)), bytes_(static_cast<size_t>((count * width_ + 7) / 8)) {}
  // Appends a quantized value and returns the number it represents.
  double put(double v) {
    uint32_t code = 0;
    double value = 0;
    if (is_integer(t_)) {
      const double most = largest_code(t_);
      value = std::clamp(std::nearbyint(v), -most, most);
      code = static_cast<uint32_t>(static_cast<int32_t>(value)) & ((1u << width_) - 1);
    } else {
      code = encode_float(t_, v);
      value = decode_float(t_, code);
    }
    bytes_[at_ / 8] |= static_cast<uint8_t>(code << at_ % 8);
    at_ += static_cast<size_t>(width_);
    return value;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  DType t_;
  int width_;
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

bool all_finite(const TensorData& d) {
  for (int64_t i = 0; i < d.elements(); ++i)
    if (!std::isfinite(element_as_double(d, i))) return false;
  return true;
}

// Quantizes a weight [k, n], or [n, k] if `rows_of_k`.
Quantized quantize(const TensorData& w, bool rows_of_k, const CastConfig& c) {
  const int64_t k = w.dims[rows_of_k], n = w.dims[!rows_of_k], block = c.block ? c.block : std::max<int64_t>(k, 1);
  const int64_t blocks = c.per_tensor ? 1 : (k + block - 1) / block;
  const auto element = [&](int64_t column, int64_t p) {
    return element_as_double(w, rows_of_k ? column * k + p : p * n + column);
  };
  const auto scale_of = [&](double most) {
    if (most == 0) return 1.0;
    const double exact = most / largest_code(c.to);
    return static_cast<double>(static_cast<float>(c.power_of_two ? std::exp2(std::floor(std::log2(exact)) + 1) : exact));
  };
  double all = 0;
  for (int64_t i = 0; c.per_tensor && i < k * n; ++i) all = std::max(all, std::abs(element_as_double(w, i)));
  CodeWriter quantized(c.to, k * n);
  std::vector<float> scales;
  double error = 0, energy = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t first = 0; first < k; first += block) {
      const int64_t last = std::min(k, first + block);
      double most = all;
      for (int64_t p = first; !c.per_tensor && p < last; ++p) most = std::max(most, std::abs(element(j, p)));
      const double scale = scale_of(most);
      if (!c.per_tensor || scales.empty()) scales.push_back(static_cast<float>(scale));
      for (int64_t p = first; p < last; ++p) {
        const double v = element(j, p), d = quantized.put(v / scale) * scale - v;
        error += d * d;
        energy += v * v;
      }
    }
  return {make_data(c.to, {n, k}, quantized.bytes()), make_data(DType::F32, {c.per_tensor ? 1 : n, blocks}, scales),
          energy > 0 ? std::sqrt(error / energy) : 0};
}

class WeightQuantizer {
 public:
  WeightQuantizer(Graph& g, PassContext& context) : g_(g), context_(context), config_(*context.options.weight_cast) {
    if (const auto& record = context.options.calibration)
      kept_float_.insert(record->float_layers.begin(), record->float_layers.end());
  }

  bool visit(NodeId n) {
    const auto& m = g_.attrs<MatMulAttrs>(n);
    ValueId w = g_.operand(n, 1);
    if (g_.rank(w) != 2 || !is_weight(g_, w)) return false;
    bool rows_of_k = m.trans_b;
    if (const NodeId t = defining_op(g_, w, OpKind::Transpose); t.valid()) {
      w = g_.operand(t, 0);
      rows_of_k = !rows_of_k;
    }
    const auto elements = num_elements(g_.type(w));
    if (elements && *elements < kFewest)
      return decline(context_, g_, kQuantizedWeights, n, "small", std::to_string(*elements) + " elements");
    if (m.trans_a) return decline(context_, g_, kQuantizedWeights, n, "layout", "the first operand is transposed");
    if (kept_float_.contains(g_.label(n).bytes()))
      return decline(context_, g_, kQuantizedWeights, n, "kept_float", "the calibration record");
    if (g_.op(g_.def(w)) == OpKind::Dequantize)
      return decline(context_, g_, kQuantizedWeights, n, "already_quantized", "the model quantizes this weight in another way");
    Builder b(g_, nullptr, n);
    auto it = made_.find({w.raw, rows_of_k});
    if (it == made_.end()) {
      const auto d = eval::weight_value(g_.module(), g_, w);
      if (!d) return decline(context_, g_, kQuantizedWeights, n, "no_contents", "the contents of the weight are not known");
      if (!all_finite(*d)) return decline(context_, g_, kQuantizedWeights, n, "not_finite", "the weight holds infinities or NaN");
      Quantized q = quantize(*d, rows_of_k, config_);
      it = made_.try_emplace({w.raw, rows_of_k}, Constants{std::move(q.quantized), std::move(q.scales)}).first;
      char error[32];
      std::snprintf(error, sizeof error, "%.2g", 100 * q.error);
      context_.precision.push_back({g_.label(g_.def(w)).bytes(), std::string(name(g_.dtype(w))), std::string(name(config_.to)),
                                    "weight, one scale " + scope() + ", error " + error + " %"});
    }
    const ValueId quantized = b.constant(it->second.quantized), scale = b.constant(it->second.scales);
    const ValueId y =
        b.create(OpKind::DequantMatMul, {g_.operand(n, 0), quantized, scale}, DequantMatMulAttrs{true, config_.block, {}});
    if (!y.valid()) return false;
    const NodeId members[] = {n};
    context_.decisions.push_back(
        fused(g_, kQuantizedWeights, n, members, bytes(g_, w) - bytes(g_, quantized) - bytes(g_, scale)));
    replace_group(g_, members, g_.result(n), y);
    return true;
  }

 private:
  struct Constants {
    TensorData quantized, scales;
  };
  std::string scope() const {
    if (config_.per_tensor) return "for all";
    return config_.block ? "for " + std::to_string(config_.block) + " terms" : "for each column";
  }

  Graph& g_;
  PassContext& context_;
  const CastConfig& config_;
  std::unordered_set<std::string_view> kept_float_;  // layers of the calibration record
  std::map<std::pair<uint32_t, bool>, Constants> made_;
};

}  // namespace

PassResult quantize_weights(Module& m, PassContext& context) {
  if (!context.options.weight_cast) return {};
  int64_t made = 0;
  each_graph(m, [&](Graph& g) {
    WeightQuantizer quantizer(g, context);
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::MatMul && is_float(g, g.result(n))) made += context.rewrite([&] { return quantizer.visit(n); });
  });
  return {made > 0, {{"weights", made}}};
}

}  // namespace rlxc
