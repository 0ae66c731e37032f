// Image, signal and cache ops of the reference vocabulary.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "import/json/reference_rows.h"
#include "transform/nn_gradients.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::make, transform::Term;

std::optional<int64_t> known(Node& n, Dim d) {
  const auto v = n.b.dims().constant_value(d);
  if (!v) n.fail(Code::UnsupportedAttribute, "needs known sizes");
  return v;
}
Term gathered(Term x, const std::vector<int64_t>& index, std::vector<int64_t> dims, int64_t axis) {
  return make(OpKind::Gather, {x, x.with(x.b->constant(make_data(DType::I64, std::move(dims), index)))}, AxisAttrs{axis});
}

// x [N,C,H,W] -> [N*Ho*Wo, C*kH*kW]: windows as rows.
ValueId im2col(Node& n) {
  if (!n.count(1, 1) || n.rank(0) != 4) return n.fail(Code::BadShape, "needs one input of rank 4"), ValueId();
  const ConvAttrs a = reference_conv_attrs(n);
  const auto kernel = n.integers(n.find("kernel") ? "kernel" : "kernel_size");
  if (!n.good) return {};
  if (kernel.size() != 2 || a.strides.size() != 2 || a.pads_begin.size() != 2 || a.dilations.size() != 2)
    return n.fail(Code::BadAttribute, "kernel, stride, padding and dilation have two entries"), ValueId();
  const auto d = term(n, 0).dims();
  const Dim none(0), top(a.pads_begin[0]), left(a.pads_begin[1]);
  Term x = make(OpKind::Pad, {term(n, 0)}, PadAttrs{{none, none, top, left}, {none, none, top, left}, PadMode::Constant});
  std::array<int64_t, 2> out{};
  for (size_t i = 0; i < 2; ++i) {
    const auto size = known(n, x.dims()[i + 2]);
    const int64_t reach = a.dilations[i] * (kernel[i] - 1) + 1;
    if (!size) return {};
    if (kernel[i] < 1 || a.dilations[i] < 1 || a.strides[i] < 1 || reach > *size)
      return n.fail(Code::BadAttribute, "a window does not fit the image"), ValueId();
    out[i] = (*size - reach) / a.strides[i] + 1;
  }
  for (size_t i = 0; i < 2; ++i) {  // [N,C,Ho,kH,W], then [N,C,Ho,kH,Wo,kW]
    std::vector<int64_t> index;
    for (int64_t o = 0; o < out[i]; ++o)
      for (int64_t k = 0; k < kernel[i]; ++k) index.push_back(o * a.strides[i] + k * a.dilations[i]);
    x = gathered(x, index, {out[i], kernel[i]}, i == 0 ? 2 : 4);
  }
  DimTable& t = n.b.dims();
  return reshape(transpose(x, {0, 2, 4, 1, 3, 5}), {t.mul(d[0], Dim(out[0] * out[1])), t.mul(d[1], Dim(kernel[0] * kernel[1]))})
      .v;
}

// Nearest neighbour, rounding down, by the ratio of sizes.
ValueId interpolate_3d(Node& n) {
  const auto size = n.integers("size");
  if (!n.count(1, 1) || n.rank(0) != 5 || size.size() != 3)
    return n.fail(Code::BadShape, "needs one input of rank 5 and three sizes"), ValueId();
  Term x = term(n, 0);
  for (size_t i = 0; i < 3; ++i) {
    const auto in = known(n, x.dims()[i + 2]);
    if (!in) return {};
    if (size[i] < 1 || *in < 1 || size[i] > 1 << 20 || *in > 1 << 20)
      return n.fail(Code::BadAttribute, "a size is out of range"), ValueId();
    std::vector<int64_t> index;
    for (int64_t o = 0; o < size[i]; ++o) index.push_back(std::min(o * *in / size[i], *in - 1));
    x = gathered(x, index, {size[i]}, static_cast<int64_t>(i) + 2);
  }
  return x.v;
}

// Concatenates the cache rows before `pos` and the new row. Does not modify the cache: the caller stores the result.
ValueId kv_append(Node& n) {
  const int64_t pos = n.integer("pos"), axis = n.count(2, 2) ? n.axis(n.integer("axis"), n.rank(0)) : 0;
  if (!n.good) return {};
  const Term row = term(n, 1), cache = term(n, 0);
  const auto capacity = n.b.dims().constant_value(cache.dims()[static_cast<size_t>(axis)]);
  if (row.rank() != cache.rank() || !(row.dims()[static_cast<size_t>(axis)] == Dim(1)) || pos < 0 ||
      (capacity && pos >= *capacity))
    return n.fail(Code::BadShape, "needs a row of extent 1 and a position within the cache"), ValueId();
  return n.b.concat(std::array{narrow(cache, axis, Dim(0), Dim(pos)).v, row.v}, axis);
}

// Cumulative maximum by doubling, in log n steps.
ValueId cummax(Node& n) {
  const int64_t axis = n.axis(n.integer("axis", -1), n.rank(0));
  if (!n.good || !n.count(1, 1)) return {};
  const auto at = static_cast<size_t>(axis);
  Term x = term(n, 0);
  const auto size = known(n, x.dims()[at]);
  if (!size) return {};
  const DType t = x.dtype();
  const Term low = x.number(is_float(t) ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::lowest());
  const auto shifted = [&](int64_t by) {
    std::vector<Dim> before(x.dims().size()), after(before);
    before[at] = Dim(by);
    return make(OpKind::Pad, {narrow(x, axis, Dim(0), Dim(*size - by)), low}, PadAttrs{before, after, PadMode::Constant});
  };
  if (n.flag("exclusive") && *size > 0) x = shifted(1);
  for (int64_t by = 1; by < *size; by *= 2) x = max(x, shifted(by));
  return x.v;
}

template <bool kNormal>
ValueId random(Node& n) {
  RandomAttrs a;
  a.dims = n.type.dims, a.to = n.type.dtype, a.normal = kNormal;
  a.a = n.number(kNormal ? "mean" : "low", 0), a.b = n.number(kNormal ? "scale" : "high", 1);
  a.seed = n.integer("key", 0) ^ n.integer("op_seed", 0);
  return n.good && n.count(0, 1) ? n.b.create(OpKind::Random, {}, std::move(a)) : ValueId();
}

// Full convolution of x [.., L] with h [M], length L+M-1. The partitioning of other engines does not affect the result.
ValueId partitioned_conv(Node& n) {
  if (!n.count(2, 2) || n.rank(0) < 1 || n.rank(1) != 1) return n.fail(Code::BadShape, "needs x [.., L] and h [M]"), ValueId();
  const auto d = term(n, 0).dims();
  const auto taps = known(n, term(n, 1).dims()[0]);
  if (!taps || *taps < 1) return {};
  const Dim rows = n.b.dims().product(std::span(d).first(d.size() - 1));
  const Term x = reshape(term(n, 0), {rows, Dim(1), d.back()});
  const Term h = reshape(make(OpKind::Reverse, {term(n, 1)}, AxesAttrs{{0}}), {Dim(1), Dim(1), Dim(*taps)});
  const Term y = make(OpKind::Conv, {x, h}, ConvAttrs{{1}, {*taps - 1}, {*taps - 1}, {1}, {0}, 1});
  auto out = d;
  out.back() = n.b.dims().add(d.back(), Dim(*taps - 1));
  return reshape(y, out).v;
}

}  // namespace

std::span<const ReferenceRow> reference_signal_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"Im2Col", im2col},
      {"Interpolate3d", interpolate_3d},
      {"KvAppend", kv_append},
      {"CumMax", cummax},
      {"RngNormal", random<true>},
      {"RngUniform", random<false>},
      {"PartitionedConv", partitioned_conv},
  };
  return kRows;
}

}  // namespace rlxc::import_json
