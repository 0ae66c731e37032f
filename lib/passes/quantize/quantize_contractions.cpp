// Runs matmuls and convolutions with two dequantized operands on integers: matmul(dequantize(a), dequantize(b)) becomes
// float(q_matmul(a, b)) * (scale of a * scale of b). Requires i8 or u8, a scale per tensor for a and per tensor or column for b,
// and sums that provably fit i32. On targets with fast products of bytes, a may have 16 bits. Then a and its zero point
// are split into two digits of 8 bits, a = 256 high + low, and b multiplies each digit. The pass also sinks Dequantize below
// layout ops, gathers, max poolings and nearest resizes, and, on the way to a contraction, below concatenations of one scale and
// zero point, and below Relu and Clamp whose limits are values of codes. It removes a Quantize after a Dequantize of the same
// scale and zero point. A mean of windows of codes is a convolution by ones, which ends in the rounding of the mean. Declines are
// Decisions ("quantized_contraction"). O(nodes).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "ir/graphs.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"
#include "passes/quantize/dequantized.h"
#include "passes/quantize/roundings.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kQuantizedContraction = "quantized_contraction";
constexpr int64_t kLeastProducts = 192;  // of a 16-bit integer: fewer do not repay its digits

class Quantizer {
 public:
  Quantizer(Graph& g, PassContext& context)
      : graph_(g), builder_(g), context_(context), decisions_(context.decisions), words_(context.target.fast_bytes) {}

  void run() {
    for (NodeId n : graph_.nodes()) {
      builder_.insert_before(n);
      const size_t before = graph_.node_capacity();
      ValueId v;
      if (!context_.rewrite([&] { return (v = rewrite(n)).valid(); })) continue;
      const NodeId members[] = {n};
      merge_origins_since(graph_, before, members);
      graph_.replace_all_uses(graph_.result(n), v);
      dead_.push_back(n);
    }
    for (NodeId n : dead_) erase_dead(graph_, n);
  }

  int64_t contractions = 0, moved = 0, cancelled = 0;

 private:
  ValueId rewrite(NodeId n) {
    switch (graph_.op(n)) {
      case OpKind::MatMul: return counted(contraction(n), &contractions);
      case OpKind::Conv: return counted(convolution(n), &contractions);
      case OpKind::Quantize: return counted(cancel(n), &cancelled);
      case OpKind::Relu:
      case OpKind::Clamp: return counted(clamp(n), &moved);
      case OpKind::Concat: return counted(join(n), &moved);
      case OpKind::Pool:
        if (graph_.attrs<PoolAttrs>(n).op == ReduceOp::Mean) return counted(mean(n), &contractions);
        return keeps_order(n) ? counted(sink(n), &moved) : ValueId();
      default: return moves_codes(graph_, n) ? counted(sink(n), &moved) : ValueId();
    }
  }
  static ValueId counted(ValueId v, int64_t* count) {
    *count += v.valid();
    return v;
  }

  // Whether the node is a max pooling of 8-bit codes that have the order of their values.
  bool keeps_order(NodeId n) const {
    if (!pools_codes(graph_, n)) return false;
    const auto d = dequantized(graph_, graph_.operand(n, 0), false);
    return d && scalar(graph_, d->scale).value_or(0) > 0;
  }

  // Moves the integers, then dequantizes.
  ValueId sink(NodeId n) {
    const auto d = dequantized(graph_, graph_.operand(n, 0), words_);
    if (!d) return {};
    int64_t axis = d->axis;
    if (!d->per_tensor) {
      if (graph_.op(n) != OpKind::Transpose) return {};
      const auto& perm = graph_.attrs<PermAttrs>(n).perm;
      axis = std::ranges::find(perm, axis) - perm.begin();
    }
    std::vector<ValueId> operands(graph_.operands(n).begin(), graph_.operands(n).end());
    operands[0] = d->q;
    const ValueId q = builder_.create(graph_.op(n), operands, graph_.module().attrs[graph_.attr_id(n)]);
    QuantAttrs a = graph_.attrs<QuantAttrs>(d->node);
    a.axis = axis;
    return builder_.create(OpKind::Dequantize, {q, d->scale, d->zero}, a);
  }

  // Whether a matmul or convolution reads the value, also behind what moves, clamps or joins codes.
  bool feeds_contraction(ValueId v, int depth = 0) const {
    constexpr int kDeepest = 4;
    constexpr size_t kMostReaders = 8;
    if (depth == kDeepest || graph_.use_count(v) > kMostReaders) return false;
    return std::ranges::any_of(graph_.uses(v), [&](const Graph::Use& use) {
      if (use.user == graph_.terminator()) return false;
      const OpKind op = graph_.op(use.user);
      if (op == OpKind::MatMul || op == OpKind::Conv) return use.index < 2;
      const bool passes = op == OpKind::Relu || op == OpKind::Clamp || op == OpKind::Concat || moves_codes(graph_, use.user);
      return passes && feeds_contraction(graph_.result(use.user), depth + 1);
    });
  }

  // Clamps the integers, then dequantizes.
  ValueId clamp(NodeId n) {
    const auto d = dequantized(graph_, graph_.operand(n, 0), false);
    const auto limits = d ? clamped_codes(graph_, n, *d) : std::nullopt;
    if (!limits || !feeds_contraction(graph_.result(n))) return {};
    const DType t = graph_.dtype(d->q);
    const int64_t least = t == DType::I8 ? -128 : 0;
    ValueId q = d->q;
    const auto limited = [&](OpKind op, int64_t code) {
      q = builder_.create(op, {q, builder_.scalar(t, static_cast<double>(code))});
    };
    if (limits->least > least) limited(OpKind::Max, limits->least);
    if (limits->most < least + 255) limited(OpKind::Min, limits->most);
    return builder_.create(OpKind::Dequantize, {q, d->scale, d->zero}, graph_.attrs<QuantAttrs>(d->node));
  }

  // Concatenates integers of one scale and zero point, then dequantizes.
  ValueId join(NodeId n) {
    const auto of = [&](ValueId v) { return dequantized(graph_, v, words_); };
    if (!joins_codes(graph_, n, of) || !feeds_contraction(graph_.result(n))) return {};
    std::vector<ValueId> codes;
    for (ValueId v : graph_.operands(n)) codes.push_back(of(v)->q);
    const auto d = of(graph_.operand(n, 0));
    const ValueId q = builder_.concat(codes, graph_.attrs<AxisAttrs>(n).axis);
    return builder_.create(OpKind::Dequantize, {q, d->scale, d->zero}, graph_.attrs<QuantAttrs>(d->node));
  }

  ValueId cancel(NodeId n) {
    const auto d = dequantized(graph_, graph_.operand(n, 0), words_);
    const bool same = d && graph_.dtype(d->q) == graph_.dtype(graph_.result(n)) && equal(graph_.operand(n, 1), d->scale) &&
                      equal(unless_zero(graph_, graph_.operand(n, 2)), d->zero) &&
                      (d->per_tensor || d->axis == graph_.attrs<QuantAttrs>(n).axis);
    return same && graph_.attrs<QuantAttrs>(n).block == 0 ? d->q : ValueId();
  }
  bool equal(ValueId a, ValueId b) const {
    if (a == b) return true;
    if (!a.valid() || !b.valid() || !same_type(graph_, a, b)) return false;
    const auto x = elements(graph_, a, 1 << 12), y = elements(graph_, b, 1 << 12);
    return !x.empty() && x == y;
  }

  std::optional<std::array<Dequantized, 2>> operands(NodeId n, int64_t axis) {
    const auto a = dequantized(graph_, graph_.operand(n, 0), words_), b = dequantized(graph_, graph_.operand(n, 1), false);
    if (!a && !b) return std::nullopt;
    const auto decline = [&](std::string_view reason, std::string detail) {
      decisions_.push_back(declined(graph_, kQuantizedContraction, n, reason, std::move(detail),
                                    "give the operand one scale per tensor, a weight one per output channel"));
      return std::nullopt;
    };
    if (!a || !b) return decline("operand_not_quantized", std::string(a ? "second" : "first") + " operand");
    if (!a->per_tensor) return decline("scale_per_axis", "first operand");
    if (!b->per_tensor && b->axis != axis)
      return decline("scale_per_contracted_axis", "axis " + std::to_string(b->axis) + " of the second operand");
    return std::array{*a, *b};
  }

  // Bound of the sum of |q - zero| of a row of rounded probabilities. A probability below half the scale s becomes 0, and others
  // p at most 2 p / s. They sum to 1, however many there are.
  std::optional<double> sum_of_codes(const Dequantized& d) const {
    const NodeId quantize = defining_op(graph_, d.q, OpKind::Quantize);
    if (!quantize.valid() || graph_.attrs<QuantAttrs>(quantize).block != 0) return std::nullopt;
    const auto s = scalar(graph_, graph_.operand(quantize, 1)), own = scalar(graph_, d.scale);
    const ValueId zero = graph_.operand(quantize, 2);
    const bool same_zero = zero == d.zero || equal(unless_zero(graph_, zero), d.zero);
    ValueId v = graph_.operand(quantize, 0);
    // NaN replaced by 0, as in rows without keys.
    if (const NodeId where = defining_op(graph_, v, OpKind::Where); where.valid())
      for (const size_t i : {size_t{1}, size_t{2}})
        if (scalar(graph_, graph_.operand(where, 3 - i)) == 0.0 && same_dims(graph_, graph_.operand(where, i), v))
          v = graph_.operand(where, i);
    const NodeId softmax = defining_op(graph_, v, OpKind::Softmax);
    if (!s || s != own || !same_zero || !(*s > 0) || !softmax.valid() ||
        graph_.attrs<AxisAttrs>(softmax).axis != graph_.rank(v) - 1)
      return std::nullopt;
    constexpr double kRounding = 1.01;  // of f32
    return 2 * kRounding / *s + 1;
  }

  // Bound of |q - zero|, or of that of its digits.
  int64_t reach(const Dequantized& d) const { return d.zero.valid() || graph_.dtype(d.q) != DType::I8 ? 255 : 128; }
  bool fits(NodeId n, const std::array<Dequantized, 2>& ab, std::optional<int64_t> terms) {
    if (terms && *terms <= INT32_MAX / (reach(ab[0]) * reach(ab[1]))) return true;
    const auto sum = graph_.op(n) == OpKind::MatMul && is_int8(graph_.dtype(ab[0].q)) && !graph_.attrs<MatMulAttrs>(n).trans_a
                         ? sum_of_codes(ab[0])
                         : std::nullopt;
    if (sum && *sum <= static_cast<double>(INT32_MAX / reach(ab[1]))) return true;
    decisions_.push_back(
        declined(graph_, kQuantizedContraction, n, "accumulator_may_overflow",
                 terms ? std::to_string(*terms) + " products are added" : "a symbolic number of products is added"));
    return false;
  }

  // Whether an element of the first operand has products enough, if it has 16 bits. `products`: how many; nullopt: not known.
  bool repays(NodeId n, const Dequantized& a, std::optional<int64_t> products) {
    if (is_int8(graph_.dtype(a.q)) || products.value_or(kLeastProducts) >= kLeastProducts) return true;
    decisions_.push_back(
        declined(graph_, kQuantizedContraction, n, "small", std::to_string(*products) + " products of a 16-bit integer"));
    return false;
  }

  ValueId single(ValueId v) { return v.valid() ? builder_.reshape(v, {}) : v; }  // [1] as a scalar
  // The product of both scales in f32, because in f16 it may underflow.
  ValueId scale(const std::array<Dequantized, 2>& ab) {
    const ValueId a = builder_.cast(single(ab[0].scale), DType::F32);
    const ValueId b = builder_.cast(ab[1].per_tensor ? single(ab[1].scale) : ab[1].scale, DType::F32);
    return builder_.mul(a, b);
  }
  ValueId zero_point(const Dequantized& d) { return d.per_tensor ? single(d.zero) : d.zero; }

  // A 16-bit integer is 256 * high + low; high has its sign.
  struct Digits {
    ValueId high, low;
  };
  // Arithmetic of floats is exact, and takes less time than that of 16-bit integers.
  Digits digits(ValueId v) {
    const ValueId base = builder_.scalar(DType::F32, 256), whole = builder_.cast(v, DType::F32);
    const ValueId high = builder_.unary(OpKind::Floor, builder_.mul(whole, builder_.scalar(DType::F32, 1.0 / 256)));
    return {builder_.cast(high, graph_.dtype(v) == DType::I16 ? DType::I8 : DType::U8),
            builder_.cast(builder_.sub(whole, builder_.mul(high, base)), DType::U8)};
  }
  Digits digits_of_zero(const Dequantized& d) {
    if (!d.zero.valid()) return {};
    const auto zero = scalar(graph_, d.zero);
    if (!zero) return digits(zero_point(d));
    const double high = std::floor(*zero / 256), low = *zero - 256 * high;
    const auto digit = [&](DType t, double v) { return v == 0 ? ValueId() : builder_.scalar(t, v); };
    return {digit(graph_.dtype(d.q) == DType::I16 ? DType::I8 : DType::U8, high), digit(DType::U8, low)};
  }

  // Sums of products with a, or with its digits: 256 * high + low.
  struct Sums {
    ValueId low, high;
  };
  // The sums of q, whose scale and zero point are those of d. `product` makes those of 8-bit integers.
  Sums sums(const Dequantized& d, ValueId q, const std::function<ValueId(ValueId q, ValueId zero)>& product) {
    if (is_int8(graph_.dtype(q))) return {product(q, zero_point(d)), {}};
    const Digits of_q = digits(q), zero = digits_of_zero(d);
    const ValueId high = product(of_q.high, zero.high);
    return {product(of_q.low, zero.low), high};
  }
  ValueId floats(const Sums& s) {
    if (!s.high.valid()) return builder_.cast(s.low, DType::F32);
    const ValueId high = builder_.mul(builder_.cast(s.high, DType::F32), builder_.scalar(DType::F32, 256));
    return builder_.add(high, builder_.cast(s.low, DType::F32));
  }

  ValueId along_channels(ValueId v, int rank) {
    if (graph_.rank(v) == 0) return v;
    std::vector<Dim> dims(static_cast<size_t>(rank - 1), Dim(1));
    dims[0] = graph_.dims(v)[0];
    return builder_.reshape(v, dims);
  }

  ValueId contraction(NodeId n) {
    const auto& a = graph_.attrs<MatMulAttrs>(n);
    const int rank_a = graph_.rank(graph_.operand(n, 0)), rank_b = graph_.rank(graph_.operand(n, 1));
    const auto ab = operands(n, a.trans_b ? rank_b - 2 : rank_b - 1);
    if (!ab || !repays(n, (*ab)[0], size_at(graph_, graph_.result(n), -1)) ||
        !fits(n, *ab, size_at(graph_, graph_.operand(n, 0), a.trans_a ? -2 : -1)))
      return {};
    const ValueId x = swapped((*ab)[0].q, a.trans_a, rank_a), w = swapped((*ab)[1].q, a.trans_b, rank_b);
    const ValueId zero_of_w = zero_point((*ab)[1]);
    const Sums sum = sums((*ab)[0], x, [&](ValueId q, ValueId zero) {
      return builder_.create(OpKind::QMatMul, {q, w, zero, zero_of_w});
    });
    made(n, *ab);
    const ValueId s = scale(*ab), y = floats(sum);
    return builder_.cast(builder_.mul(y, s), graph_.dtype(graph_.result(n)));
  }
  ValueId swapped(ValueId v, bool swap, int rank) {
    if (!swap) return v;
    std::vector<int64_t> perm(static_cast<size_t>(rank));
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return builder_.transpose(v, perm);
  }

  ValueId convolution(NodeId n) {
    const auto ab = operands(n, 0);
    if (!ab) return {};
    std::optional<int64_t> terms = 1;
    for (int i = 1; i < graph_.rank((*ab)[1].q) && terms; ++i) {
      const auto size = size_at(graph_, (*ab)[1].q, i);
      terms = size ? std::optional(*terms * *size) : std::nullopt;
    }
    const ConvAttrs attrs = graph_.attrs<ConvAttrs>(n);
    auto products = size_at(graph_, (*ab)[1].q, 0);
    for (int i = 2; i < graph_.rank((*ab)[1].q) && products; ++i)
      products = *products * size_at(graph_, (*ab)[1].q, i).value_or(1) / attrs.strides[static_cast<size_t>(i - 2)];
    if (products) *products /= attrs.groups;
    if (!repays(n, (*ab)[0], products) || !fits(n, *ab, terms)) return {};
    const int rank = graph_.rank(graph_.operand(n, 0));
    const ValueId w = (*ab)[1].q, zero_of_w = zero_point((*ab)[1]);
    const Sums sum = sums((*ab)[0], (*ab)[0].q, [&](ValueId q, ValueId zero) {
      return builder_.create(OpKind::QConv, {q, w, zero, zero_of_w}, attrs);
    });
    made(n, *ab);
    const ValueId s = along_channels(scale(*ab), rank), float_sum = floats(sum);
    ValueId y = builder_.cast(builder_.mul(float_sum, s), graph_.dtype(graph_.result(n)));
    if (const ValueId bias = graph_.operand(n, 2); bias.valid()) y = builder_.add(y, along_channels(bias, rank));
    return y;
  }

  // The number of elements that each window averages, by position or one for all; invalid if it is not known.
  ValueId counts(const PoolAttrs& a, ValueId x, ValueId y) {
    int64_t taps = 1, positions = 1;
    bool same = true;
    for (size_t k = 0; k < a.kernel.size(); ++k) {
      taps *= a.kernel[k];
      same = same && (a.count_include_pad || (a.pads_begin[k] == 0 && a.pads_end[k] == 0));
    }
    if (same) return builder_.scalar(DType::F32, static_cast<double>(taps));
    constexpr int64_t kMostPositions = 1 << 16;
    std::vector<int64_t> in, out;
    for (size_t k = 0; k < a.kernel.size(); ++k) {
      const auto from = size_at(graph_, x, static_cast<int>(k) + 2), to = size_at(graph_, y, static_cast<int>(k) + 2);
      if (!from || !to || *to > kMostPositions || (positions *= *to) > kMostPositions) return {};
      in.push_back(*from);
      out.push_back(*to);
    }
    std::vector<float> values(static_cast<size_t>(positions), 1);
    for (int64_t p = 0; p < positions; ++p) {
      int64_t rest = p;
      for (size_t k = out.size(); k-- > 0; rest /= out[k]) {
        const int64_t start = rest % out[k] * a.strides[k] - a.pads_begin[k];
        int64_t inside = 0;
        for (int64_t t = 0; t < a.kernel[k]; ++t) {
          const int64_t at = start + t * a.dilations[k];
          inside += at >= 0 && at < in[k];
        }
        values[static_cast<size_t>(p)] *= static_cast<float>(inside);
      }
    }
    if (std::ranges::find(values, 0.0F) != values.end()) return {};
    return builder_.constant(make_data(DType::F32, out, values));
  }

  // Whether no reader of a dequantized value needs floats in memory, which would be there for a mean, too.
  bool reads_codes(ValueId v) const {
    constexpr size_t kMostReaders = 16;
    return graph_.use_count(v) <= kMostReaders && std::ranges::all_of(graph_.uses(v), [&](const Graph::Use& use) {
             if (use.user == graph_.terminator()) return false;
             const OpKind op = graph_.op(use.user);
             return op == OpKind::MatMul || op == OpKind::Conv || op == OpKind::Pool || op == OpKind::Quantize ||
                    has_trait(op, kElementwise) || moves_codes(graph_, use.user);
           });
  }

  ValueId mean(NodeId n) {
    const auto d = dequantized(graph_, graph_.operand(n, 0), false);
    const auto channels = size_at(graph_, graph_.operand(n, 0), 1);
    const PoolAttrs a = graph_.attrs<PoolAttrs>(n);
    if (!d || !reads_codes(graph_.operand(n, 0)) || !d->per_tensor || !channels || *channels < 1 || a.ceil_mode ||
        graph_.dtype(graph_.result(n)) != DType::F32)
      return {};
    constexpr int64_t kMostTaps = 1 << 8, kMostWeights = 1 << 20;
    std::vector<int64_t> dims{*channels, 1};
    int64_t taps = 1;
    for (const int64_t size : a.kernel) {
      dims.push_back(size);
      if (size > kMostTaps || (taps *= size) > kMostTaps) return {};
    }
    if (*channels > kMostWeights / taps) return {};
    const ValueId count = counts(a, d->q, graph_.result(n));
    if (!count.valid()) return {};
    const std::vector<int8_t> ones(static_cast<size_t>(*channels * taps), 1);
    const ConvAttrs conv{a.strides, a.pads_begin, a.pads_end, a.dilations, std::vector<int64_t>(a.kernel.size()), *channels};
    const ValueId w = builder_.constant(make_data(DType::I8, dims, ones));
    const ValueId sum = builder_.create(OpKind::QConv, {d->q, w, zero_point(*d)}, conv);
    if (!sum.valid()) return {};
    const NodeId members[] = {d->node, n};
    decisions_.push_back(fused(graph_, kQuantizedContraction, n, members, 3 * bytes(graph_, d->q)));
    return builder_.div(builder_.mul(builder_.cast(sum, DType::F32), single(d->scale)), count);
  }

  void made(NodeId n, const std::array<Dequantized, 2>& ab) {
    const NodeId members[] = {ab[0].node, ab[1].node, n};
    decisions_.push_back(fused(graph_, kQuantizedContraction, n, members, 3 * (bytes(graph_, ab[0].q) + bytes(graph_, ab[1].q))));
  }

  Graph& graph_;
  Builder builder_;
  PassContext& context_;
  std::vector<Decision>& decisions_;
  const bool words_;  // operands may have 16 bits
  std::vector<NodeId> dead_;
};

}  // namespace

PassResult quantize_contractions(Module& m, PassContext& context) {
  int64_t contractions = 0, moved = 0, cancelled = 0;
  const auto native = [&](OpKind op) { return context.target.native[static_cast<size_t>(op)]; };
  if (native(OpKind::QMatMul) && native(OpKind::QConv))
    for (GraphId id : graphs_in_use(m)) {
      Quantizer q(m.graph(id), context);
      q.run();
      contractions += q.contractions;
      moved += q.moved;
      cancelled += q.cancelled;
    }
  return {contractions + moved + cancelled > 0,
          {{"contractions", contractions}, {"dequantize_moved", moved}, {"pairs_cancelled", cancelled}}};
}

}  // namespace rlxc
