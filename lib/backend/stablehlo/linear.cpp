// Matmuls, convolutions and pooling.
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Linear : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  bool matmul() {
    const auto& a = attrs<MatMulAttrs>();
    const Ints y = result_dims();
    const auto batched = [&](const Hlo& v) {
      Ints dims(y.begin(), y.end() - 2);
      dims.insert(dims.end(), v.dims.end() - 2, v.dims.end());
      return b_.broadcast(v, dims);
    };
    const Hlo left = batched(in(0)), right = batched(in(1));
    const auto rank = static_cast<int64_t>(y.size());
    return set(b_.convert(b_.dot(left, right, range(0, rank - 2), range(0, rank - 2), {rank - (a.trans_a ? 2 : 1)},
                                 {rank - (a.trans_b ? 1 : 2)}, y),
                          result_dtype()));
  }
  bool dot_general() {
    const auto& a = attrs<DotGeneralAttrs>();
    return set(b_.dot(in(0), in(1), a.lhs_batch, a.rhs_batch, a.lhs_contracting, a.rhs_contracting, result_dims()));
  }
  std::string convolution(const ConvAttrs& a, size_t rank, const Ints& low, const Ints& high, const Ints& lhs_dilation,
                          const Ints& strides) {
    std::string spatial, reversal;
    for (size_t i = 0; i < rank; ++i) spatial += ", " + std::to_string(i), reversal += i ? ", false" : "false";
    return "dimension_numbers = #stablehlo.conv<[b, f" + spatial + "]x[o, i" + spatial + "]->[b, f" + spatial +
           "]>, feature_group_count = " + std::to_string(a.groups) +
           " : i64, batch_group_count = 1 : i64, window_strides = " + HloBuilder::ints(strides) +
           ", padding = " + HloBuilder::pairs(low, high) + ", lhs_dilation = " + HloBuilder::ints(lhs_dilation) +
           ", rhs_dilation = " + HloBuilder::ints(a.dilations) + ", window_reversal = array<i1: " + reversal + ">";
  }
  bool with_bias(const Hlo& y) {
    if (!has(2)) return set(b_.convert(y, result_dtype()));
    return set(b_.convert(bin("add", y, b_.broadcast(b_.convert(in(2), y.dtype), y.dims, {1})), result_dtype()));
  }
  bool conv() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    const DType t = wide(in(0).dtype);
    return with_bias(b_.op("convolution", {in(0), in(1)}, t, result_dims(),
                           convolution(a, rank, a.pads_begin, a.pads_end, Ints(rank, 1), a.strides)));
  }
  bool conv_transpose() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    Hlo w = in(1);  // [in, out / groups, ...] -> [out, in / groups, ...], spatially reversed
    const int64_t per = w.dims[0] / a.groups, out = w.dims[1];
    Ints split = {a.groups, per, out}, perm = {0, 2, 1}, merged = {a.groups * out, per}, spatial;
    for (size_t i = 0; i < rank; ++i)
      split.push_back(w.dims[2 + i]), merged.push_back(w.dims[2 + i]), perm.push_back(static_cast<int64_t>(3 + i)),
          spatial.push_back(static_cast<int64_t>(2 + i));
    w = b_.reshape(b_.transpose(b_.reshape(w, split), perm), merged);
    w = reversed(w, spatial);
    Ints low, high;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t reach = (in(1).dims[2 + i] - 1) * a.dilations[i],
                    extra = i < a.output_padding.size() ? a.output_padding[i] : 0;
      low.push_back(reach - a.pads_begin[i]), high.push_back(reach - a.pads_end[i] + extra);
    }
    return with_bias(b_.op("convolution", {in(0), w}, wide(in(0).dtype), result_dims(),
                           convolution(a, rank, low, high, a.strides, Ints(rank, 1))));
  }
  bool pool() {
    const auto& a = attrs<PoolAttrs>();
    const Ints y = result_dims();
    Ints window = {1, 1}, strides = {1, 1}, dilations = {1, 1}, low = {0, 0}, high = {0, 0};
    for (size_t i = 0; i < a.kernel.size(); ++i) {
      window.push_back(a.kernel[i]), strides.push_back(a.strides[i]), dilations.push_back(a.dilations[i]),
          low.push_back(a.pads_begin[i]);
      // Pads to exactly the windows of the result: ceil_mode windows may reach beyond the padding.
      high.push_back((y[2 + i] - 1) * a.strides[i] + (a.kernel[i] - 1) * a.dilations[i] + 1 - in(0).dims[2 + i] -
                     a.pads_begin[i]);
    }
    const std::string attributes =
        "window_dimensions = " + HloBuilder::ints(window) + ", window_strides = " + HloBuilder::ints(strides) +
        ", base_dilations = " + HloBuilder::ints(Ints(window.size(), 1)) + ", window_dilations = " + HloBuilder::ints(dilations) +
        ", padding = " + HloBuilder::pairs(low, high);
    if (a.op == ReduceOp::Max) return set(b_.window("maximum", in(0), lowest(in(0).dtype), attributes, y));
    if (a.op != ReduceOp::Mean && a.op != ReduceOp::Sum) return fail("only max, mean and sum pooling");
    const Hlo x = b_.convert(in(0), wide(in(0).dtype)), zero = b_.constant(x.dtype, 0),
              total = b_.window("add", x, zero, attributes, y);
    if (a.op == ReduceOp::Sum) return set(b_.convert(total, result_dtype()));
    Hlo inside = b_.constant(x.dtype, 1, x.dims);
    if (a.count_include_pad) {  // padding counts, elements beyond it do not
      Ints before = {0, 0}, after = {0, 0};
      before.insert(before.end(), a.pads_begin.begin(), a.pads_begin.end()),
          after.insert(after.end(), a.pads_end.begin(), a.pads_end.end());
      inside = b_.pad(inside, b_.constant(x.dtype, 1), before, after);
      Ints rest = high;
      for (size_t i = 2; i < rest.size(); ++i) rest[i] -= a.pads_end[i - 2];
      const size_t padding = attributes.find("padding = ");
      const Hlo count = b_.window("add", inside, zero,
                                  attributes.substr(0, padding) + "padding = " + HloBuilder::pairs(Ints(low.size(), 0), rest), y);
      return set(b_.convert(bin("divide", total, count), result_dtype()));
    }
    return set(b_.convert(bin("divide", total, b_.window("add", inside, zero, attributes, y)), result_dtype()));
  }
};

}  // namespace

std::span<const Translation> linear_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::MatMul, call<Linear, &Linear::matmul>}, {OpKind::DotGeneral, call<Linear, &Linear::dot_general>},
      {OpKind::Conv, call<Linear, &Linear::conv>},     {OpKind::ConvTranspose, call<Linear, &Linear::conv_transpose>},
      {OpKind::Pool, call<Linear, &Linear::pool>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
