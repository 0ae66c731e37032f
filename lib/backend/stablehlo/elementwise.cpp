// Elementwise ops through their meaning in the kernel language, and quantization.
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Elementwise : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  // The StableHLO operation that rounds a 16-bit result as one computed in f32 and rounded then.
  std::string_view exact_operation() const {
    switch (g_.op(n_)) {
      case OpKind::Add: return "add";
      case OpKind::Sub: return "subtract";
      case OpKind::Mul: return "multiply";
      case OpKind::Div: return "divide";
      case OpKind::Max:
      case OpKind::Relu: return "maximum";
      case OpKind::Min: return "minimum";
      case OpKind::Neg: return "negate";
      case OpKind::Abs: return "abs";
      case OpKind::Where: return "select";
      default: return {};
    }
  }

  bool cast() {
    const auto plain = [](DType t) { return is_low_float(t) || t == DType::F32 || t == DType::F64; };
    if (plain(in(0).dtype) && plain(result_dtype())) return set(b_.convert(in(0), result_dtype()));
    return elementwise();
  }

  bool elementwise() {
    if (const std::string_view exact = exact_operation(); !exact.empty() && is_low_float(result_dtype())) {
      std::vector<Hlo> x;
      for (size_t i = 0; i < operand_count(); ++i) x.push_back(b_.broadcast(in(i), result_dims()));
      if (g_.op(n_) == OpKind::Relu) x.push_back(b_.constant(result_dtype(), 0, result_dims()));
      return set(b_.op(exact, x, result_dtype(), result_dims()));
    }
    kernel::Builder builder("elementwise");
    kernel::Kernel* k = builder.kernel();
    const Ints dims = result_dims();
    std::vector<kernel::Expr> x;
    std::vector<Hlo> parameters;
    for (size_t i = 0; i < operand_count(); ++i) {
      const DType t = wide(in(i).dtype);
      x.push_back(builder.parameter("x" + std::to_string(i), kernel::Type(t)));
      parameters.resize(k->vars.size());
      parameters.back() = b_.broadcast(b_.convert(in(i), t), dims);
    }
    const auto [alpha, beta] = codegen::elementwise_parameters(m_.attrs[g_.attr_id(n_)]);
    kernel::Expr y;
    if (g_.op(n_) == OpKind::ElementwiseRegion) {
      std::vector<kernel::Expr> steps;
      for (const RegionStep& s : attrs<FusionAttrs>().steps) {
        std::vector<kernel::Expr> args;
        for (uint16_t a : s.args)
          if (a != RegionStep::kNone) args.push_back(a & RegionStep::kStep ? steps[a & ~RegionStep::kStep] : x[a]);
        steps.push_back(codegen::elementwise(s.op, s.alpha(), s.beta(), s.dtype, args));
      }
      y = steps.back();
    } else {
      y = codegen::elementwise(g_.op(n_), alpha, beta, result_dtype(), x);
    }
    if (!y.kernel) return fail("no expression of " + std::string(kind_name(g_.op(n_))));
    return set(b_.convert(b_.expression(*k, y.id, parameters, dims), exact_dtype()));
  }

  bool bit_cast() {
    const Hlo x = in(0).dtype == DType::Bool ? b_.convert(in(0), DType::U8) : in(0);
    const DType to = result_dtype();
    if (to == DType::Bool || x.dtype == to) return set(b_.convert(x, to));
    return set(b_.op("bitcast_convert", {x}, to, x.dims));
  }

  // saturate(round(x / scale) + zero point), and the inverse. Scales are per tensor, per axis coordinate or per block.
  bool quantize() {
    const auto& a = attrs<QuantAttrs>();
    const DType t = wide(in(1).dtype), to = result_dtype();
    Hlo q = bin("divide", b_.convert(in(0), t), scale_like(1, t));
    if (is_integer(to)) q = one("round_nearest_even", q);
    if (has(2)) q = bin("add", q, scale_like(2, t));
    if (is_integer(to) && a.saturate)
      q = bin("minimum", bin("maximum", q, b_.convert(lowest(to), t)), b_.convert(highest(to), t));
    return set(b_.convert(q, to));
  }
  bool dequantize() {
    const DType t = wide(result_dtype());
    Hlo x = b_.convert(in(0), t);
    if (has(2)) x = bin("subtract", x, scale_like(2, t));
    return set(b_.convert(bin("multiply", x, scale_like(1, t)), exact_dtype()));
  }

 private:
  Hlo scale_like(size_t i, DType t) {
    const auto& a = attrs<QuantAttrs>();
    const Ints& dims = in(0).dims;
    const Hlo s = b_.convert(in(i), t);
    if (volume(s) == 1) return b_.broadcast(b_.reshape(s, {}), dims);
    if (a.block == 0) return b_.broadcast(b_.reshape(s, {volume(s)}), dims, {a.axis});
    const auto axis = static_cast<size_t>(a.axis);
    Ints split = s.dims, merged = s.dims, axes = range(0, static_cast<int64_t>(dims.size()) + 1);
    split.insert(split.begin() + a.axis + 1, a.block);
    merged[axis] *= a.block;
    axes.erase(axes.begin() + a.axis + 1);
    return b_.slice(b_.reshape(b_.broadcast(s, split, axes), merged), axis, 0, dims[axis]);
  }
};

}  // namespace

bool translate_elementwise(ModuleTranslator& module, const Graph& g, NodeId n, std::string* reason) {
  return Elementwise(module, g, n, reason).elementwise();
}

std::span<const Translation> elementwise_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::Where, call<Elementwise, &Elementwise::elementwise>},
      {OpKind::Cast, call<Elementwise, &Elementwise::cast>},
      {OpKind::BitCast, call<Elementwise, &Elementwise::bit_cast>},
      {OpKind::ElementwiseRegion, call<Elementwise, &Elementwise::elementwise>},
      {OpKind::Quantize, call<Elementwise, &Elementwise::quantize>},
      {OpKind::Dequantize, call<Elementwise, &Elementwise::dequantize>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
