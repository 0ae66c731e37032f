// Ops along an axis: reductions, normalisations, scans, sorting, Fourier transforms.
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Reducing : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  bool reduce() {
    const auto& a = attrs<ReduceAttrs>();
    const DType given = in(0).dtype;  // narrow integers overflow in counts and sums
    Hlo x = b_.convert(in(0), is_integer(given) && rlxc::bits(given) < 32 ? DType::I32 : wide(given));
    int64_t count = 1;
    for (int64_t axis : a.axes) count *= x.dims[static_cast<size_t>(axis)];
    if (a.op == ReduceOp::Max)
      return set(b_.convert(b_.reduce("maximum", x, lowest(x.dtype), a.axes, a.keep_dim), exact_dtype()));
    if (a.op == ReduceOp::Min)
      return set(b_.convert(b_.reduce("minimum", x, highest(x.dtype), a.axes, a.keep_dim), exact_dtype()));
    if (a.op == ReduceOp::Prod)
      return set(b_.convert(b_.reduce("multiply", x, b_.constant(x.dtype, 1), a.axes, a.keep_dim), exact_dtype()));
    if (a.op == ReduceOp::LogSumExp) {
      const Hlo top = b_.reduce("maximum", x, lowest(x.dtype), a.axes, true);
      const Hlo e = one("exponential", bin("subtract", x, top));
      return set(b_.convert(b_.reshape(bin("add", one("log", sum(e, a.axes)), top), result_dims()), exact_dtype()));
    }
    if (a.op == ReduceOp::L1) x = one("abs", x);
    if (a.op == ReduceOp::L2 || a.op == ReduceOp::SumSquare) x = bin("multiply", x, x);
    Hlo y = sum(x, a.axes, a.keep_dim);
    if (a.op == ReduceOp::Mean) y = bin("divide", y, static_cast<double>(count));
    if (a.op == ReduceOp::L2) y = one("sqrt", y);
    if (a.op == ReduceOp::LogSum) y = one("log", y);
    return set(b_.convert(y, exact_dtype()));
  }
  bool softmax() {
    const Ints axes = {attrs<AxisAttrs>().axis};
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const Hlo shifted = bin("subtract", x, b_.reduce("maximum", x, lowest(x.dtype), axes, true)), e = one("exponential", shifted),
              total = sum(e, axes);
    return set(b_.convert(g_.op(n_) == OpKind::Softmax ? bin("divide", e, total) : bin("subtract", shifted, one("log", total)),
                          exact_dtype()));
  }
  Hlo normalised(const Hlo& x, const Ints& axes, double eps, bool centre) {
    int64_t count = 1;
    for (int64_t a : axes) count *= x.dims[static_cast<size_t>(a)];
    const auto mean = [&](const Hlo& v) { return bin("divide", sum(v, axes), static_cast<double>(count)); };
    const Hlo y = centre ? bin("subtract", x, mean(x)) : x;
    return bin("multiply", y, one("rsqrt", bin("add", mean(bin("multiply", y, y)), eps)));
  }
  bool norm() {
    const auto& a = attrs<NormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    Hlo y = normalised(x, range(a.axis, static_cast<int64_t>(x.dims.size())), a.eps, g_.op(n_) == OpKind::LayerNorm);
    if (has(1)) y = bin("multiply", y, b_.convert(in(1), y.dtype));
    if (has(2)) y = bin("add", y, b_.convert(in(2), y.dtype));
    return set(b_.convert(y, exact_dtype()));
  }
  bool group_norm() {
    const auto& a = attrs<GroupNormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    Hlo y = b_.reshape(x, {x.dims[0], a.groups, volume(x) / std::max<int64_t>(x.dims[0] * a.groups, 1)});
    y = b_.reshape(normalised(y, {2}, a.eps, true), x.dims);
    if (has(1)) y = bin("multiply", y, b_.broadcast(b_.convert(in(1), y.dtype), x.dims, {1}));
    if (has(2)) y = bin("add", y, b_.broadcast(b_.convert(in(2), y.dtype), x.dims, {1}));
    return set(b_.convert(y, exact_dtype()));
  }
  bool batch_norm() {
    const auto& a = attrs<NormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const auto channel = [&](const Hlo& v) { return b_.broadcast(v, x.dims, {a.axis}); };
    const Hlo scale = bin("multiply", b_.convert(in(1), x.dtype), one("rsqrt", bin("add", b_.convert(in(4), x.dtype), a.eps)));
    const Hlo y = bin("multiply", bin("subtract", x, channel(b_.convert(in(3), x.dtype))), channel(scale));
    return set(b_.convert(bin("add", y, channel(b_.convert(in(2), x.dtype))), exact_dtype()));
  }
  // Cumulative sum by doubling: log n shifted additions.
  bool cumsum() {
    const auto& a = attrs<CumAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const int64_t n = x.dims[axis];
    const auto shifted = [&](const Hlo& v, int64_t by) {
      Ints low(v.dims.size(), 0), high(v.dims.size(), 0);
      (a.reverse ? high : low)[axis] = by;
      (a.reverse ? low : high)[axis] = -by;
      return b_.pad(v, b_.constant(v.dtype, 0), low, high);
    };
    for (int64_t by = 1; by < n; by *= 2) x = bin("add", x, shifted(x, by));
    if (a.exclusive && n > 0) x = shifted(x, 1);
    return set(b_.convert(x, exact_dtype()));
  }
  bool arg_reduce() {
    const auto& a = attrs<ArgAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const Hlo& x = in(0);
    const Hlo best = b_.broadcast(
        b_.reduce(a.largest ? "maximum" : "minimum", x, a.largest ? lowest(x.dtype) : highest(x.dtype), {a.axis}, true), x.dims);
    const Hlo at = b_.iota(DType::I64, x.dims, axis),
              none = b_.constant_int(DType::I64, a.select_last ? -1 : x.dims[axis], x.dims);
    const Hlo candidates = b_.op("select", {b_.compare("EQ", x, best), at, none}, DType::I64, x.dims);
    return set(b_.reduce(a.select_last ? "maximum" : "minimum", candidates,
                         a.select_last ? lowest(DType::I64) : highest(DType::I64), {a.axis}, a.keep_dim));
  }
  // Sorts by value, ties by index, and takes the first k.
  bool topk() {
    const auto& a = attrs<TopKAttrs>();
    const Hlo& x = in(0);
    const auto axis = static_cast<size_t>(a.axis);
    const std::string before =
        b_.region({{"", x.dtype, {}}, {"", x.dtype, {}}, {"", DType::I64, {}}, {"", DType::I64, {}}},
                  [&](const std::vector<Hlo>& v) { return std::vector{b_.compare(a.largest ? "GT" : "LT", v[0], v[1])}; });
    const std::vector<Hlo> sorted = b_.ops("sort", {x, b_.iota(DType::I64, x.dims, axis)}, {x, {"", DType::I64, x.dims}},
                                           "dimension = " + std::to_string(a.axis) + " : i64, is_stable = true", before);
    const int64_t k = result_dims()[axis];
    return set(b_.slice(sorted[0], axis, 0, k), 0) && set(b_.slice(sorted[1], axis, 0, k), 1);
  }
  // The last axis has real and imaginary parts. XLA transforms the last axis of complex values.
  bool fft() {
    const auto& a = attrs<FftAttrs>();
    const DType t = wide(in(0).dtype), complex = t == DType::F64 ? DType::C128 : DType::C64;
    const Ints y = result_dims();
    Hlo x = b_.convert(in(0), t);
    const size_t parts = x.dims.size() - 1, axis = static_cast<size_t>(a.axis);
    const bool mirrored = a.onesided && a.inverse;  // the second half of the spectrum is the conjugate of the first
    const int64_t given = x.dims[axis], n = a.length == Dim(0) ? given : a.length.size(),
                  read = mirrored ? std::min(given, n / 2 + 1) : std::min(given, n);
    if (n < 1) return fail("a transform of no elements");
    x = b_.slice(x, axis, 0, read);
    const auto part = [&](int64_t i) {
      Hlo v = b_.slice(x, parts, i, i + 1);
      v.dims.pop_back();
      return b_.reshape(b_.slice(x, parts, i, i + 1), v.dims);
    };
    const Hlo real = part(0), imaginary = x.dims[parts] == 2 ? part(1) : b_.constant(t, 0, real.dims);
    Hlo z = b_.op("complex", {real, imaginary}, complex, real.dims);
    const auto padded = [&](const Hlo& v, int64_t to) {
      Ints low(v.dims.size(), 0), high(v.dims.size(), 0);
      high[axis] = to - v.dims[axis];
      return high[axis] == 0 ? v : b_.pad(v, b_.op("complex", {b_.constant(t, 0), b_.constant(t, 0)}, complex, {}), low, high);
    };
    z = padded(z, mirrored ? n / 2 + 1 : n);
    if (mirrored) {  // x[n - k] = conj x[k]
      const Hlo tail = reversed(b_.slice(z, axis, 1, n - n / 2), {a.axis});
      z = concatenated(
          {z, b_.op("complex", {b_.op("real", {tail}, t, tail.dims), one("negate", b_.op("imag", {tail}, t, tail.dims))}, complex,
                    tail.dims)},
          a.axis);
    }
    Ints perm = range(0, static_cast<int64_t>(parts));
    std::swap(perm[axis], perm.back());
    z = b_.transpose(z, perm);
    z = b_.op(
        "fft", {z}, complex, z.dims,
        "fft_type = #stablehlo<fft_type " + std::string(a.inverse ? "IFFT" : "FFT") + ">, fft_length = " + HloBuilder::ints({n}));
    z = b_.slice(b_.transpose(z, perm), axis, 0, y[axis]);
    const double own = a.inverse ? 1.0 / static_cast<double>(n) : 1.0;  // the scale that XLA applies
    const double scale = a.norm == FftNorm::InverseN  ? 1.0 / static_cast<double>(n)
                         : a.norm == FftNorm::Unitary ? 1 / std::sqrt(static_cast<double>(n))
                                                      : 1;
    std::vector<Hlo> out;
    for (int64_t i = 0; i < y.back(); ++i) {
      Hlo v = b_.op(i == 0 ? "real" : "imag", {z}, t, z.dims);
      if (scale != own) v = bin("multiply", v, scale / own);
      Ints dims = v.dims;
      dims.push_back(1);
      out.push_back(b_.reshape(v, dims));
    }
    return set(b_.convert(out.size() == 1 ? out[0] : concatenated(out, static_cast<int64_t>(parts)), exact_dtype()));
  }
};

}  // namespace

std::span<const Translation> reduce_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::Reduce, call<Reducing, &Reducing::reduce>},
      {OpKind::Softmax, call<Reducing, &Reducing::softmax>},
      {OpKind::LogSoftmax, call<Reducing, &Reducing::softmax>},
      {OpKind::LayerNorm, call<Reducing, &Reducing::norm>},
      {OpKind::RmsNorm, call<Reducing, &Reducing::norm>},
      {OpKind::GroupNorm, call<Reducing, &Reducing::group_norm>},
      {OpKind::BatchNormInference, call<Reducing, &Reducing::batch_norm>},
      {OpKind::Cumsum, call<Reducing, &Reducing::cumsum>},
      {OpKind::ArgReduce, call<Reducing, &Reducing::arg_reduce>},
      {OpKind::TopK, call<Reducing, &Reducing::topk>},
      {OpKind::Fft, call<Reducing, &Reducing::fft>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
