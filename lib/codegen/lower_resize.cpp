// ONNX Resize. Nearest: one copy with mapped coordinates. Other modes go axis by axis: a result coordinate is a weighted sum of
// source coordinates of its axis.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "analysis/repeat_factors.h"
#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"
#include "kernel/builders/resample.h"
#include "ops/resize.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMaxTaps = 4096;
constexpr int64_t kTableTaps = 64;  // most taps whose weights are computed once per coordinate

// One axis: its dims, and the scale p / q = result / operand of the coordinate rule. Integers if exact, which avoids rounding
// errors in the nearest coordinate.
struct Axis {
  Expr in, out, p, q;
  double roi_start = 0, roi_end = 1;
};

using Quotient = ops::ResizeCoordinate<Expr>;

// Returns a scale as a quotient of small integers, or nullopt. Models mostly use 2, 4, 0.5, 1.5.
std::optional<std::pair<int64_t, int64_t>> small_quotient(double scale) {
  for (int64_t q = 1; q <= 64; q *= 2) {
    const double p = scale * static_cast<double>(q);
    if (p >= 1 && p <= 4096 && p == std::floor(p)) return std::pair(static_cast<int64_t>(p), q);
  }
  return std::nullopt;
}

class Resizer {
 public:
  Resizer(Node& node)
      : node_(node),
        a_(node.attrs<ResizeAttrs>()),
        real_(node.row.dtypes.test(static_cast<size_t>(DType::F64)) ? DType::F64 : DType::F32) {}

  bool changes(size_t k) const {
    if (a_.coord == CoordMode::TfCropAndResize) return true;
    return !(node_.table().equal(node_.dims(0)[k], a_.sizes[k]) && (a_.scales.empty() || a_.scales[k] == 1));
  }

  Axis axis(Scope& s, size_t k) const {
    Axis x;
    x.in = s.size(node_.dims(0)[k]).in(s.kernel());
    x.out = s.size(a_.sizes[k]).in(s.kernel());
    if (const Dim in = node_.dims(0)[k], out = a_.sizes[k]; a_.scales.empty() && in.is_static() && out.is_static()) {
      // In lowest terms: division by a power of two is exact on every device.
      const int64_t common = std::max<int64_t>(std::gcd(in.size(), out.size()), 1);
      x.p = kernel::lit(x.in, out.size() / common);
      x.q = kernel::lit(x.in, in.size() / common);
    } else if (a_.scales.empty()) {
      x.p = x.out;
      x.q = x.in;
    } else if (const auto ratio = small_quotient(a_.scales[k])) {
      x.p = kernel::lit(x.in, ratio->first);
      x.q = kernel::lit(x.in, ratio->second);
    } else {
      x.p = kernel::constant(s.kernel(), real_, a_.scales[k]);
      x.q = kernel::lit(x.p, 1.0);
    }
    if (!a_.roi.empty()) {
      x.roi_start = a_.roi[k];
      x.roi_end = a_.roi[node_.dims(0).size() + k];
    }
    return x;
  }

  Quotient source(const Axis& k, Expr i) const {
    const DType t = a_.coord == CoordMode::TfCropAndResize ? real_ : k.p.dtype();
    const Expr x = cast_to(i, t), in = cast_to(k.in, t), out = cast_to(k.out, t);
    return ops::resize_source(a_, x, in, out, k.p, k.q, k.out > 1, k.roi_start, k.roi_end);
  }
  Expr value(Quotient x) const { return real(x.over) / real(x.under); }

  Expr nearest(const Axis& k, Quotient x) const {
    if (is_float(x.over.dtype())) return clamped(k, cast_to(ops::resize_nearest(a_.nearest, value(x)), DType::I64));
    const Expr a = x.over, b = x.under;
    switch (a_.nearest) {
      case NearestMode::RoundPreferFloor: return min(max(a * 2 + b - 1, 0) / (b * 2), k.in - 1);
      case NearestMode::RoundPreferCeil: return min(max(a * 2 + b, 0) / (b * 2), k.in - 1);
      case NearestMode::Floor: return min(max(a, 0) / b, k.in - 1);
      case NearestMode::Ceil: return min(max(a + b - 1, 0) / b, k.in - 1);
    }
    return a;
  }

  Expr outside(const Axis& k, Expr x) const { return x < 0.0 || x > real(k.in - 1); }
  static Expr clamped(const Axis& k, Expr at) { return max(min(at, k.in - 1), 0); }

  bool copy_nearest() const {
    Scope s(node_);
    const auto x = node_.dims(0);
    const Dims from = s.shape(x), to = s.shape(node_.result_dims());
    Buf data = s.in_buf(0);
    const kernel::Epilogue epilogue = s.quantized_result(kResultScale, x.size());
    const kernel::FusedInputs inputs(s.builder(), epilogue.inputs);
    kernel::build_generate(s.builder(), to, s.outputs(), 16, node_.mapping(), [&](const std::vector<Expr>& index) {
      std::vector<Expr> at = index;
      Expr hidden = kernel::constant_int(s.kernel(), DType::Bool, 0);
      for (size_t k = 0; k < x.size(); ++k) {
        if (!changes(k)) continue;
        const Axis axis_k = axis(s, k);
        const Quotient c = source(axis_k, index[k]);
        at[k] = s.builder().let("at", nearest(axis_k, c));
        if (a_.coord == CoordMode::TfCropAndResize) hidden = hidden || outside(axis_k, value(c));
      }
      Expr value = data[kernel::linear_index(s.kernel(), at, from)];
      if (a_.coord == CoordMode::TfCropAndResize)
        value = select(hidden, kernel::constant(s.kernel(), value.dtype(), a_.extrapolation), value);
      return inputs.values(epilogue.body, {&value, 1}, index);
    });
    s.finish();
    return true;
  }

  // The source coordinates of a result coordinate are base + start + i for i < taps. An antialiasing filter covers all source
  // pixels of a result pixel.
  struct Filter {
    double shrink = 1;
    int64_t start = 0, taps = 0;
  };
  std::optional<Filter> filter(size_t k) const {
    Filter f;
    if (a_.antialias) {
      const auto in = node_.table().constant_value(node_.dims(0)[k]), out = node_.table().constant_value(a_.sizes[k]);
      if (a_.scales.empty() && !(in && out && *in > 0)) {
        node_.fail("an antialiasing filter needs constant sizes or scales");
        return std::nullopt;
      }
      f.shrink = std::min(1.0, a_.scales.empty() ? static_cast<double>(*out) / static_cast<double>(*in) : a_.scales[k]);
    }
    const double radius = (a_.mode == ResizeMode::Linear ? 1 : 2) / f.shrink;
    if (!(radius < static_cast<double>(kMaxTaps) / 2)) {
      node_.fail("the antialiasing filter is too wide");
      return std::nullopt;
    }
    f.start = static_cast<int64_t>(std::floor(-radius)) + 1;
    f.taps = 2 - 2 * f.start;
    return f;
  }

  // Calls tap(i, source coordinate, weight) in a loop over the taps of source position x.
  void each_tap(kernel::Builder& b, const Axis& k, const Filter& f, Expr x,
                const std::function<void(Expr, Expr, Expr)>& tap) const {
    const Expr below = floor(x), whole = x - below;
    const Expr base = b.let("base", cast_to(select(whole == 0.0, below - 1.0, below), DType::I64)),
               ratio = b.let("ratio", select(whole == 0.0, kernel::lit(x, 1.0), whole));
    b.loop("tap", f.taps, [&](Expr i) {
      const Expr at = b.let("at", base + (f.start + i));
      Expr w = ops::resize_weight(a_.mode, a_.cubic_a, (real(f.start + i) - ratio) * f.shrink);
      if (a_.exclude_outside) w = select(at < 0 || at >= k.in, kernel::lit(w, 0.0), w);
      tap(i, clamped(k, at), b.let("w", w));
    });
  }

  // Interpolates axis k of a tensor of dims `now`. `from` and `to` are scratch buffers; nullopt: the operand, the result.
  bool interpolate(size_t k, const std::vector<Dim>& now, std::optional<uint32_t> from, std::optional<uint32_t> to) const {
    const auto f = filter(k);
    if (!f) return false;
    if (!node_.mapping().workgroups && a_.coord != CoordMode::TfCropAndResize && f->taps <= kTableTaps)
      return by_tables(k, *f, now, from, to);
    Scope s(node_, "axis");
    kernel::Builder& b = s.builder();
    std::vector<Dim> then = now;
    then[k] = a_.sizes[k];
    const Dims shape = s.shape(now);
    const Axis axis_k = axis(s, k);
    const Operand source_operand = from ? s.scratch(*from) : s.in(0);
    Buf data = b.input(source_operand.name, source_operand.dtype, source_operand.extent);
    const DType t = sum_type();
    const kernel::Epilogue epilogue = to ? kernel::Epilogue() : s.quantized_result(kResultScale, then.size());
    std::vector<std::pair<std::string, DType>> outputs;
    if (to) {
      s.scratch(*to);
      outputs = {{"y", t}};
    } else outputs = s.outputs();
    const kernel::FusedInputs inputs(b, epilogue.inputs);
    kernel::build_generate(b, s.shape(then), outputs, 16 * f->taps, node_.mapping(),
                           [&](const std::vector<Expr>& index) -> std::vector<Expr> {
                             const Expr x = b.let("x", value(source(axis_k, index[k])));
                             Buf sum = b.variable("sum", kernel::constant(s.kernel(), t, 0)),
                                 weights = b.variable("weights", kernel::constant(s.kernel(), real_, 0));
                             each_tap(b, axis_k, *f, x, [&](Expr, Expr at, Expr w) {
                               std::vector<Expr> place = index;
                               place[k] = at;
                               const Expr value = cast_to(data[kernel::linear_index(s.kernel(), place, shape)], t);
                               sum.set(fma(cast_to(w, t), value, sum.get()));
                               weights.set(weights.get() + w);
                             });
                             Expr value = sum.get() / cast_to(weights.get(), t);
                             if (a_.coord == CoordMode::TfCropAndResize)
                               value = select(outside(axis_k, x), kernel::constant(s.kernel(), t, a_.extrapolation), value);
                             return inputs.values(epilogue.body, {&value, 1}, index);
                           });
    s.finish();
    return true;
  }

  // The same with tables of source coordinates and weights, which all rows share.
  bool by_tables(size_t k, const Filter& f, const std::vector<Dim>& now, std::optional<uint32_t> from,
                 std::optional<uint32_t> to) const {
    const Dim entries = node_.table().mul(a_.sizes[k], Dim(f.taps));
    const uint32_t places = node_.scratch(DType::I64, entries), weights = node_.scratch(sum_type(), entries);
    {
      Scope s(node_, "taps");
      kernel::Builder& b = s.builder();
      const Axis axis_k = axis(s, k);
      const Operand place = s.scratch(places), weight = s.scratch(weights);
      Buf at_out = b.output(place.name, place.dtype, place.extent), w_out = b.output(weight.name, weight.dtype, weight.extent);
      kernel::for_each(b, node_.mapping(), "i", axis_k.out, 64 * f.taps, [&](Expr i) {
        Buf sum = b.variable("sum", kernel::constant(s.kernel(), real_, 0)), own = b.registers("own", real_, f.taps);
        each_tap(b, axis_k, f, b.let("x", value(source(axis_k, i))), [&](Expr tap, Expr at, Expr w) {
          at_out.store(i * f.taps + tap, at);
          own.store(tap, w);
          sum.set(sum.get() + w);
        });
        b.loop("tap", f.taps, [&](Expr tap) { w_out.store(i * f.taps + tap, cast_to(own[tap] / sum.get(), sum_type())); });
      });
      s.finish();
    }
    Scope s(node_, "axis");
    const std::span<const Dim> dims = now;
    kernel::ResampleSpec spec;
    spec.outer = s.size(node_.table().product(dims.first(k)));
    spec.in = s.size(now[k]);
    spec.out = s.size(a_.sizes[k]);
    spec.inner = s.size(node_.table().product(dims.subspan(k + 1)));
    spec.taps = f.taps;
    spec.at = s.scratch(places);
    spec.weight = s.scratch(weights);
    spec.x = from ? s.scratch(*from) : s.in(0);
    if (!to) spec.epilogue = s.quantized_result(kResultScale, 3);
    spec.y = to ? s.scratch(*to) : s.out();
    kernel::build_resample(s.builder(), spec, node_.mapping());
    s.finish();
    return true;
  }

  // Axes in the order of interpolation: those that shrink, then the others from the last one on, because that one is not computed
  // in vectors.
  std::vector<size_t> changed_axes() const {
    std::vector<size_t> shrinking, others;
    for (size_t k = 0; k < node_.dims(0).size(); ++k) {
      if (!changes(k)) continue;
      const Dim in = node_.dims(0)[k], out = a_.sizes[k];
      (in.is_static() && out.is_static() && out.size() < in.size() ? shrinking : others).push_back(k);
    }
    shrinking.insert(shrinking.end(), others.rbegin(), others.rend());
    return shrinking;
  }

  bool run() const {
    if (a_.coord == CoordMode::TfCropAndResize && a_.roi.size() != 2 * node_.dims(0).size())
      return node_.fail("tf_crop_and_resize needs a start and an end per axis");
    const std::vector<size_t> axes = changed_axes();
    if (a_.mode == ResizeMode::Nearest || axes.empty()) return copy_nearest();
    std::vector<Dim> now(node_.dims(0).begin(), node_.dims(0).end());
    std::optional<uint32_t> from;
    for (size_t k : axes) {
      std::vector<Dim> then = now;
      then[k] = a_.sizes[k];
      std::optional<uint32_t> to;
      if (k != axes.back()) to = node_.scratch(sum_type(), node_.table().product(then));
      if (!interpolate(k, now, from, to)) return false;
      now = then;
      from = to;
    }
    return true;
  }

 private:
  Expr real(Expr i) const { return cast_to(i, real_); }
  DType sum_type() const { return is_float(node_.dtype(0)) ? kernel::compute_dtype(node_.dtype(0)) : real_; }

  Node& node_;
  const ResizeAttrs& a_;
  DType real_;
};

}  // namespace

bool lower_resize(Node& node) {
  const auto times = repeat_factors(node.graph, node.id);
  if (!times) return Resizer(node).run();
  Scope s(node);
  Operand x = s.in(0);
  x.factors.resize(times->size());
  for (size_t axis = 0; axis < times->size(); ++axis) {
    if ((*times)[axis] == 1) continue;
    if (!x.split(axis)) x.factors[axis] = {{s.size(node.dims(0)[axis]), x.strides[axis]}};
    x.factors[axis].push_back({(*times)[axis], Index(0)});
  }
  return copy(node, s, std::move(x), s.shape(node.result_dims()));
}

}  // namespace rlxc::codegen
