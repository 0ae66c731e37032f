// Mixture of experts of com.microsoft: each token is processed by the k best experts of its router, as matmuls that choose a
// matrix per row. Weights are [experts, out, in] since version 1.22 and [experts, in, out] before; the token size distinguishes
// them.
#include <array>
#include <limits>

#include "import/compose/packed.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

// Input numbers of an expert layer: weights, [scales,] bias.
struct Layer {
  size_t weight, scale, bias, zero;  // scale 0, zero 0: none
};

class Mixture {
 public:
  Mixture(Op& op, bool coded) : op_(op), b_(op.b), coded_(coded), t_(op.dtype(0)) {}

  void run() {
    const int64_t k = op_.i("k", 1);
    if (op_.i("use_sparse_mixer", 0) != 0) return (void)op_.unsupported("use_sparse_mixer");
    if (op_.rank(0) < 2 || op_.rank(1) != 2 || op_.rank(2) != 3)
      return (void)op_.fail(Code::BadShape, "needs tokens, a router [tokens, experts] and weights of three axes");
    const auto experts = op_.dims().constant_value(op_.sizes(1)[1]);
    if (k < 1 || !experts || k > *experts) return (void)op_.fail(Code::BadAttribute, "k is out of range");
    hidden_ = op_.sizes(0).back();
    const Dim tokens = op_.sizes(1)[0], rows = op_.dims().mul(tokens, Dim(k));
    const NodeId best = b_.create_node(OpKind::TopK, std::array{b_.create(OpKind::Softmax, {op_.in(1)}, AxisAttrs{1})},
                                       TopKAttrs{Dim(k), 1, true, true});
    if (!best.valid()) return;
    ValueId share = op_.graph().result(best, 0);
    if (coded_ && op_.has(14))  // weights of the experts that the router only selects
      share = b_.create(OpKind::GatherElements, {op_.in(14), op_.graph().result(best, 1)}, AxisAttrs{1});
    // onnxruntime's QMoE always normalizes the weights of the chosen experts.
    if (op_.i("normalize_routing_weights", 0) != 0 || coded_) share = b_.div(share, b_.reduce(ReduceOp::Sum, share, {1}, true));
    expert_ = b_.reshape(op_.graph().result(best, 1), {rows});
    const ValueId token = b_.reshape(op_.in(0), {tokens, Dim(1), hidden_});
    const ValueId x = b_.reshape(b_.expand(token, {tokens, Dim(k), hidden_}), {rows, hidden_});

    const size_t step = coded_ ? 3 : 2;
    const auto layer = [&](size_t i) {
      return Layer{2 + i * step, coded_ ? 3 + i * step : 0, 1 + step + i * step, coded_ ? 11 + i : 0};
    };
    const ValueId h = inside(x, layer(0), layer(2));
    if (!h.valid()) return;
    const ValueId y = b_.reshape(matmul(h, layer(1)), {tokens, Dim(k), hidden_});
    const ValueId weighted = b_.mul(y, b_.cast(b_.reshape(share, {tokens, Dim(k), Dim(1)}), t_));
    op_.set(0, b_.reshape(b_.reduce(ReduceOp::Sum, weighted, {1}, false), op_.sizes(0)));
  }

 private:
  // Dequantizes q [experts, n, k], centred in its range, with one scale per row or per block of it.
  ValueId decoded(const Layer& l) {
    const int64_t width = op_.i("expert_weight_bits", 4);
    if ((width != 2 && width != 4 && width != 8) || op_.dtype(l.weight) != DType::U8) {
      op_.unsupported("weights must be bytes of 2, 4 or 8 bits a number");
      return ValueId();
    }
    const ValueId q = compose::unpack_bits(b_, op_.in(l.weight), static_cast<int>(width));
    if (!q.valid()) return {};
    std::vector<Dim> sizes(op_.graph().dims(q).begin(), op_.graph().dims(q).end());
    const std::vector<Dim> whole = sizes;
    const Dim blocks = op_.rank(l.scale) == 3 ? op_.sizes(l.scale)[2] : Dim(1);
    if (!op_.dims().divides(blocks, sizes[2])) {
      op_.fail(Code::BadShape, "scales do not divide the rows");
      return ValueId();
    }
    sizes.insert(sizes.begin() + 2, blocks);
    sizes[3] = op_.dims().floor_div(sizes[3], blocks);
    const std::vector<Dim> each{sizes[0], sizes[1], blocks, Dim(1)};
    ValueId zero = b_.scalar(t_, static_cast<double>(1 << (width - 1)));
    if (op_.has(l.zero)) {
      const ValueId points = compose::unpack_bits(b_, op_.in(l.zero), static_cast<int>(width));
      const auto last = points.valid() ? op_.graph().rank(points) - 1 : 0;
      if (last < 1) return {};
      const Dim used = last == 2 ? blocks : sizes[1];  // the last byte of a row may be partly unused
      zero = b_.reshape(b_.cast(b_.narrow(points, last, Dim(0), used), t_), each);
    }
    const ValueId v = b_.sub(b_.reshape(b_.cast(q, t_), sizes), zero);
    return b_.reshape(b_.mul(v, b_.reshape(b_.cast(op_.in(l.scale), t_), each)), whole);
  }

  ValueId matmul(ValueId x, const Layer& l) {
    const ValueId w = coded_ ? decoded(l) : op_.in(l.weight);
    if (!w.valid() || !x.valid()) return {};
    const Dim in = op_.graph().dims(x)[1];
    const auto d = op_.graph().dims(w);
    const bool old = !coded_ && d[2] != in && d[1] == in;
    const ValueId y = b_.create(OpKind::GroupedMatMul, {x, w, expert_}, MatMulAttrs{false, !old});
    return op_.has(l.bias) ? b_.add(y, b_.create(OpKind::Gather, {op_.in(l.bias), expert_}, AxisAttrs{0})) : y;
  }

  // Returns the second layer's input: the activated first layer, times the third one if present; or a gate and its value,
  // interleaved or as halves of one layer.
  ValueId inside(ValueId x, const Layer& first, const Layer& third) {
    const std::string_view name = op_.s("activation_type", "relu");
    const ValueId h = matmul(x, first);
    if (!h.valid()) return {};
    for (const std::string_view of_swiglu : {"swiglu_limit", "activation_alpha", "activation_beta"}) op_.f(of_swiglu, 0);
    op_.i("swiglu_fusion", 0);
    if (name == "swiglu") return gated(x, h, third);
    constexpr std::pair<std::string_view, OpKind> kActivations[] = {
        {"relu", OpKind::Relu}, {"gelu", OpKind::Gelu}, {"silu", OpKind::Silu}};
    const auto times_third = [&](ValueId v) { return op_.has(third.weight) ? b_.mul(v, matmul(x, third)) : v; };
    if (name == "identity") return times_third(h);
    for (const auto& [text, kind] : kActivations)
      if (text == name) return times_third(b_.unary(kind, h));
    op_.unsupported("activation " + quote(name));
    return ValueId();
  }

  // The gate and its value: the first and third layer, or interleaved or halves in the first one.
  ValueId gated(ValueId x, ValueId h, const Layer& third) {
    const int64_t how = op_.i("swiglu_fusion", 0);
    if (how < 0 || how > 2 || op_.has(third.weight) != (how == 0)) {
      op_.unsupported("swiglu_fusion " + std::to_string(how) + " with these layers");
      return ValueId();
    }
    ValueId gate = h, value;
    if (how == 0) {
      value = matmul(x, third);
    } else {
      const Dim rows = op_.graph().dims(h)[0], half = op_.dims().floor_div(op_.graph().dims(h)[1], Dim(2));
      const int64_t axis = how == 1 ? 2 : 1;
      const ValueId both = how == 1 ? b_.reshape(h, {rows, half, Dim(2)}) : b_.reshape(h, {rows, Dim(2), half});
      const auto part = [&](int64_t i) { return b_.reshape(b_.narrow(both, axis, Dim(i), Dim(1)), {rows, half}); };
      gate = part(0);
      value = part(1);
    }
    if (const double limit = op_.f("swiglu_limit", 0); limit > 0) {
      gate = b_.create(OpKind::Clamp, {gate}, ClampAttrs{-std::numeric_limits<double>::infinity(), limit});
      value = b_.create(OpKind::Clamp, {value}, ClampAttrs{-limit, limit});
    }
    const auto number = [&](double v) { return b_.scalar(t_, v); };
    const ValueId slope = b_.unary(OpKind::Sigmoid, b_.mul(gate, number(op_.f("activation_alpha", 1))));
    return b_.mul(b_.mul(gate, slope), b_.add(value, number(op_.f("activation_beta", 0))));
  }

  Op& op_;
  Builder& b_;
  bool coded_;
  DType t_;
  Dim hidden_;
  ValueId expert_;  // by row
};

}  // namespace

// Operands: tokens, router, then weight and bias of the first, second and third layer.
void mixture_of_experts(Op& op) { Mixture(op, false).run(); }

// Operands: tokens, router, then weight, scales and bias of the layers; their zero points; the weights of the experts.
void quantized_mixture(Op& op) {
  op.i("block_size", 0);  // the scales say it
  if (const auto type = op.s("quant_type", "int"); type != "int") return (void)op.unsupported("quant_type " + quote(type));
  if (op.i("weights_prepacked", 0) > 0) return (void)op.unsupported("weights packed for one GPU");
  for (size_t i = 15; i < op.inputs(); ++i)
    if (op.has(i)) return (void)op.unsupported("scales of activations");
  Mixture(op, true).run();
}

}  // namespace rlxc::onnx_import
