// Resize: along each axis a sum of gathers, at constant places with constant weights where the sizes are known, else at places
// and with weights that are computed.
#include <algorithm>

#include "ops/resize.h"
#include "ops/resize_rule.h"
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

constexpr size_t kMaxWeights = size_t{1} << 22;
constexpr int64_t kMaxComputedTaps = 64;

// The taps of every result coordinate of an axis: vectors of places, and of weights where there is more than one tap; those that
// have no weight at all are left out. `outside` marks the results that are the extrapolation value.
struct AxisTaps {
  std::vector<ValueId> at, weight;
  ValueId outside;
};

ValueId weights(Expansion& e, DType t, const std::vector<double>& w) {
  const std::vector<int64_t> dims = {static_cast<int64_t>(w.size())};
  if (t == DType::F64) return e.b.constant(make_data(t, dims, w));
  return e.b.constant(make_data(t, dims, std::vector<float>(w.begin(), w.end())));
}

std::optional<AxisTaps> constant_taps(Expansion& e, const ResizeAttrs& a, const ops::ResizeAxis& k, DType real) {
  if (k.in == 0 || !(k.scale >= k.kMinScale && k.scale <= k.kMaxScale)) return std::nullopt;
  std::vector<std::vector<int64_t>> at;
  std::vector<std::vector<double>> weight;
  std::vector<uint8_t> outside;
  for (int64_t x = 0; x < k.out; ++x) {
    const auto taps = ops::resize_taps(a, k, x);
    if (!taps || taps->at.size() * static_cast<size_t>(k.out) > kMaxWeights) return std::nullopt;
    at.resize(taps->at.size()), weight.resize(taps->at.size());
    for (size_t t = 0; t < taps->at.size(); ++t) at[t].push_back(taps->at[t]), weight[t].push_back(taps->weight[t]);
    outside.push_back(taps->outside);
  }
  AxisTaps all;
  for (size_t t = 0; t < at.size(); ++t) {
    if (std::ranges::all_of(weight[t], [](double w) { return w == 0; })) continue;
    all.at.push_back(e.b.ints(at[t]));
    if (a.mode != ResizeMode::Nearest) all.weight.push_back(weights(e, real, weight[t]));
  }
  if (std::ranges::count(outside, 0) != std::ssize(outside)) all.outside = e.b.constant(make_data(DType::Bool, {k.out}, outside));
  return all;
}

// A float value of the graph, or a literal of the type of what it meets, with the operators of a number.
struct Real {
  Expansion* e = nullptr;
  ValueId v;
  double literal = 0;

  Real(Expansion* expansion, ValueId value) : e(expansion), v(value) {}
  Real(double number) : literal(number) {}  // NOLINT: numbers convert
  ValueId like(Real other) const { return e ? v : other.e->num(other.v, literal); }
};
Real binary(OpKind op, Real a, Real b) {
  Expansion* e = a.e ? a.e : b.e;
  return {e, e->b.create(op, {a.like(b), b.like(a)})};
}
Real operator+(Real a, Real b) { return binary(OpKind::Add, a, b); }
Real operator-(Real a, Real b) { return binary(OpKind::Sub, a, b); }
Real operator*(Real a, Real b) { return binary(OpKind::Mul, a, b); }
Real operator/(Real a, Real b) { return binary(OpKind::Div, a, b); }
Real operator==(Real a, Real b) { return binary(OpKind::Eq, a, b); }
Real operator<(Real a, Real b) { return binary(OpKind::Lt, a, b); }
Real operator>(Real a, Real b) { return binary(OpKind::Gt, a, b); }
Real operator<=(Real a, Real b) { return binary(OpKind::Le, a, b); }
Real operator>=(Real a, Real b) { return binary(OpKind::Ge, a, b); }
Real operator||(Real a, Real b) { return binary(OpKind::Or, a, b); }
Real max(Real a, Real b) { return binary(OpKind::Max, a, b); }
Real min(Real a, Real b) { return binary(OpKind::Min, a, b); }
Real floor(Real a) { return {a.e, a.e->b.unary(OpKind::Floor, a.v)}; }
Real ceil(Real a) { return {a.e, a.e->b.unary(OpKind::Ceil, a.v)}; }
Real abs(Real a) { return {a.e, a.e->b.unary(OpKind::Abs, a.v)}; }
Real lit(Real, double v) { return v; }
Real select(Real condition, Real a, Real b) {
  return {condition.e, condition.e->b.create(OpKind::Where, {condition.v, a.like(b), b.like(a)})};
}

std::optional<AxisTaps> computed_taps(Expansion& e, const ResizeAttrs& a, size_t axis, Dim in, Dim out, DType real) {
  const auto number = [&](ValueId v) { return Real{&e, e.b.cast(v, real)}; };
  const auto shared = ops::resize_axis(a, axis, 1, 1);
  ops::ResizeNumbers<Real> k{number(e.size(in)), number(e.size(out)), 1.0, shared.roi_start, shared.roi_end};
  k.scale = a.scales.empty() ? k.out / k.in : Real(a.scales[axis]);
  const Real x = ops::source_coordinate(a.coord, k, number(e.positions(out)));
  const auto place = [&](Real at) { return e.b.cast(max(min(at, k.in - 1.0), 0.0).v, DType::I64); };
  AxisTaps all;
  if (a.coord == CoordMode::TfCropAndResize) all.outside = (x < 0.0 || x > k.in - 1.0).v;
  if (a.mode == ResizeMode::Nearest) {
    all.at = {place(ops::nearest_coordinate(a.nearest, x))};
    return all;
  }
  if (a.antialias && a.scales.empty()) return std::nullopt;
  const double shrink = a.antialias ? std::min(shared.scale, 1.0) : 1.0, radius = (a.mode == ResizeMode::Linear ? 1 : 2) / shrink;
  if (!(radius < static_cast<double>(kMaxComputedTaps) / 2)) return std::nullopt;
  const Real below = floor(x), whole = x - below, base = select(whole == 0.0, below - 1.0, below),
             ratio = select(whole == 0.0, 1.0, whole);
  const auto start = static_cast<int64_t>(std::floor(-radius)) + 1;
  std::vector<Real> weight;
  for (int64_t i = start; i < 2 - start; ++i) {
    const Real at = base + static_cast<double>(i);
    Real w = ops::interpolation_weight(a.mode, a.cubic_a, (static_cast<double>(i) - ratio) * shrink);
    if (a.exclude_outside) w = select(at < 0.0 || at >= k.in, 0.0, w);
    all.at.push_back(place(at)), weight.push_back(w);
  }
  Real sum = weight[0];
  for (size_t i = 1; i < weight.size(); ++i) sum = sum + weight[i];
  for (Real w : weight) all.weight.push_back((w / sum).v);
  return all;
}

std::vector<ValueId> resize(Expansion& e) {
  const auto& a = e.attrs<ResizeAttrs>();
  const bool nearest = a.mode == ResizeMode::Nearest;
  ValueId x = e.in(0);
  if (!nearest) x = is_float(e.g.dtype(x)) ? e.wide(x) : e.b.cast(x, DType::F32);
  const int rank = e.g.rank(x);
  const DType real = e.g.dtype(x) == DType::F64 ? DType::F64 : DType::F32;
  for (int64_t axis = 0; axis < rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    const Dim in = e.dim(x, static_cast<int>(axis)), out = a.sizes[i];
    const bool known = in.is_static() && out.is_static();
    const auto k = ops::resize_axis(a, i, known ? in.size() : 1, known ? out.size() : 1);
    if (in == out && !ops::resizes(a, k)) continue;
    const auto taps = known ? constant_taps(e, a, k, real) : computed_taps(e, a, i, in, out, real);
    if (!taps) return {};
    ValueId sum = out == Dim(0) ? e.b.narrow(x, axis, Dim(0), Dim(0)) : ValueId();
    for (size_t t = 0; t < taps->at.size(); ++t) {
      ValueId part = e.b.create(OpKind::Gather, {x, taps->at[t]}, AxisAttrs{axis});
      if (!nearest) part = e.b.mul(part, e.along(taps->weight[t], axis, rank));
      sum = sum.valid() ? e.b.add(sum, part) : part;
    }
    x = taps->outside.valid() ? e.b.create(OpKind::Where, {e.along(taps->outside, axis, rank), e.num(sum, a.extrapolation), sum})
                              : sum;
  }
  return {e.b.cast(x, e.result_dtype())};
}

}  // namespace

std::span<const DecompositionEntry> resize_decompositions() {
  static constexpr DecompositionEntry kTable[] = {{OpKind::Resize, resize}};
  return kTable;
}

}  // namespace rlxc::legalise
