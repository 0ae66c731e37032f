// Matmuls, convolutions and pooling.
#include <algorithm>

#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

// An operand of a matmul.
struct Side {
  explicit Side(const Hlo& v) : x(v) {}
  const Hlo& x;
  Ints dims, batch;

  // The size of leading axis i of a result with `leading` of them; 1 where the operand has none.
  int64_t size(size_t leading, size_t i) const {
    const size_t own = x.dims.size() - 2, missing = leading - own;
    return i < missing ? 1 : x.dims[i - missing];
  }
  // Drops the other leading axes, which have one element.
  void keep(size_t leading, const Ints& both, const Ints& free) {
    for (size_t i = 0; i < leading; ++i) {
      const bool shared = std::ranges::count(both, static_cast<int64_t>(i)) > 0;
      if (shared) batch.push_back(static_cast<int64_t>(dims.size()));
      if (shared || std::ranges::count(free, static_cast<int64_t>(i))) dims.push_back(size(leading, i));
    }
    dims.insert(dims.end(), x.dims.end() - 2, x.dims.end());
  }
};

class Linear : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  // A leading axis that one operand repeats is a free axis of the other one, so that no operand is broadcast.
  bool matmul() {
    const auto& a = attrs<MatMulAttrs>();
    const Ints y = result_dims();
    const size_t leading = y.size() - 2;
    Side left(in(0)), right(in(1));
    Ints both, only_left, only_right;  // axes of the result
    for (size_t i = 0; i < leading; ++i) {
      const int64_t l = left.size(leading, i), r = right.size(leading, i);
      const auto axis = static_cast<int64_t>(i);
      if (l == r && l != 1) both.push_back(axis);
      else (r == 1 ? only_left : only_right).push_back(axis);
    }
    const auto row = static_cast<int64_t>(leading), column = row + 1;
    left.keep(leading, both, only_left);
    right.keep(leading, both, only_right);
    const Hlo l = b_.reshape(left.x, left.dims), r = b_.reshape(right.x, right.dims);
    const auto rank_l = static_cast<int64_t>(l.dims.size()), rank_r = static_cast<int64_t>(r.dims.size());
    // The order in which dot_general has the axes of the result.
    Ints order = both;
    order.insert(order.end(), only_left.begin(), only_left.end());
    order.push_back(row);
    order.insert(order.end(), only_right.begin(), only_right.end());
    order.push_back(column);
    Ints dims, perm(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      dims.push_back(y[static_cast<size_t>(order[i])]);
      perm[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    }
    const Ints whole = perm;
    const Hlo product = b_.dot(l, r, left.batch, right.batch, {rank_l - (a.trans_a ? 2 : 1)}, {rank_r - (a.trans_b ? 1 : 2)},
                               dims, exact_dtype());
    std::erase_if(perm, [&](int64_t i) { return dims[static_cast<size_t>(i)] == 1; });  // these move nothing
    if (std::ranges::is_sorted(perm)) return set(b_.reshape(product, y));
    return set(b_.transpose(product, whole));
  }
  bool dot_general() {
    const auto& a = attrs<DotGeneralAttrs>();
    return set(
        b_.dot(in(0), in(1), a.lhs_batch, a.rhs_batch, a.lhs_contracting, a.rhs_contracting, result_dims(), exact_dtype()));
  }
  // Weights have their spatial axes first where they can be prepared so: the order in which XLA multiplies.
  Hlo spatial_first(const Hlo& w, size_t rank) {
    if (!b_.is_stored(w)) return w;
    Ints perm = range(2, static_cast<int64_t>(2 + rank));
    perm.insert(perm.end(), {1, 0});
    return b_.transpose(w, perm);
  }
  std::string convolution(const ConvAttrs& a, size_t rank, const Ints& low, const Ints& high, const Ints& lhs_dilation,
                          const Ints& strides, bool weight_stored) {
    std::string spatial, reversal;
    for (size_t i = 0; i < rank; ++i) {
      spatial += ", " + std::to_string(i);
      reversal += i ? ", false" : "false";
    }
    const std::string weight = weight_stored ? spatial.substr(2) + ", i, o" : "o, i" + spatial;
    return "dimension_numbers = #stablehlo.conv<[b, f" + spatial + "]x[" + weight + "]->[b, f" + spatial +
           "]>, feature_group_count = " + std::to_string(a.groups) +
           " : i64, batch_group_count = 1 : i64, window_strides = " + HloBuilder::ints(strides) +
           ", padding = " + HloBuilder::pairs(low, high) + ", lhs_dilation = " + HloBuilder::ints(lhs_dilation) +
           ", rhs_dilation = " + HloBuilder::ints(a.dilations) + ", window_reversal = array<i1: " + reversal + ">" +
           b_.precision_config(in(0).dtype);
  }
  // The type of the sums: that of the result where matrix units round once, at the end.
  DType sums() const { return in(0).dtype == DType::BF16 && !has(2) ? exact_dtype() : wide(in(0).dtype); }
  bool with_bias(const Hlo& y) {
    if (!has(2)) return set(b_.convert(y, exact_dtype()));
    return set(b_.convert(bin("add", y, b_.broadcast(b_.convert(in(2), y.dtype), y.dims, {1})), exact_dtype()));
  }
  bool conv() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    return with_bias(b_.op("convolution", {in(0), spatial_first(in(1), rank)}, sums(), result_dims(),
                           convolution(a, rank, a.pads_begin, a.pads_end, Ints(rank, 1), a.strides, b_.is_stored(in(1)))));
  }
  bool conv_transpose() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    Hlo w = in(1);  // [in, out / groups, ...] -> [out, in / groups, ...], spatially reversed
    const int64_t per = w.dims[0] / a.groups, out = w.dims[1];
    Ints split = {a.groups, per, out}, perm = {0, 2, 1}, merged = {a.groups * out, per}, spatial;
    for (size_t i = 0; i < rank; ++i) {
      split.push_back(w.dims[2 + i]);
      merged.push_back(w.dims[2 + i]);
      perm.push_back(static_cast<int64_t>(3 + i));
      spatial.push_back(static_cast<int64_t>(2 + i));
    }
    w = b_.reshape(b_.transpose(b_.reshape(w, split), perm), merged);
    w = reversed(w, spatial);
    Ints low, high;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t reach = (in(1).dims[2 + i] - 1) * a.dilations[i],
                    extra = i < a.output_padding.size() ? a.output_padding[i] : 0;
      low.push_back(reach - a.pads_begin[i]);
      high.push_back(reach - a.pads_end[i] + extra);
    }
    return with_bias(b_.op("convolution", {in(0), spatial_first(w, rank)}, sums(), result_dims(),
                           convolution(a, rank, low, high, a.strides, Ints(rank, 1), b_.is_stored(w))));
  }
  bool pool() {
    const auto& a = attrs<PoolAttrs>();
    const Ints y = result_dims();
    Ints window = {1, 1}, strides = {1, 1}, dilations = {1, 1}, low = {0, 0}, high = {0, 0};
    for (size_t i = 0; i < a.kernel.size(); ++i) {
      window.push_back(a.kernel[i]);
      strides.push_back(a.strides[i]);
      dilations.push_back(a.dilations[i]);
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
    if (a.op == ReduceOp::Sum) return set(b_.convert(total, exact_dtype()));
    Hlo inside = b_.constant(x.dtype, 1, x.dims);
    if (a.count_include_pad) {  // padding counts, elements beyond it do not
      Ints before = {0, 0}, after = {0, 0};
      before.insert(before.end(), a.pads_begin.begin(), a.pads_begin.end());
      after.insert(after.end(), a.pads_end.begin(), a.pads_end.end());
      inside = b_.pad(inside, b_.constant(x.dtype, 1), before, after);
      Ints rest = high;
      for (size_t i = 2; i < rest.size(); ++i) rest[i] -= a.pads_end[i - 2];
      const size_t padding = attributes.find("padding = ");
      const Hlo count = b_.window("add", inside, zero,
                                  attributes.substr(0, padding) + "padding = " + HloBuilder::pairs(Ints(low.size(), 0), rest), y);
      return set(b_.convert(bin("divide", total, count), exact_dtype()));
    }
    return set(b_.convert(bin("divide", total, b_.window("add", inside, zero, attributes, y)), exact_dtype()));
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
