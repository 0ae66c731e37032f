// Decomposes Resize of static dims: along each axis, a weighted sum of gathers at constant positions.
#include "ops/resize.h"
#include "passes/legalise/decompositions.h"

namespace rlxc::legalise {
namespace {

constexpr size_t kMaxWeights = size_t{1} << 22;

// The taps of an axis: positions and weights of tap t for every result coordinate. Empty if there are too many.
struct AxisTaps {
  std::vector<std::vector<int64_t>> at;
  std::vector<std::vector<double>> weight;
  std::vector<uint8_t> outside;
};

std::optional<AxisTaps> axis_taps(const ResizeAttrs& a, const ops::ResizeAxis& k) {
  if (k.in == 0 || !(k.scale >= k.kMinScale && k.scale <= k.kMaxScale)) return std::nullopt;
  AxisTaps all;
  for (int64_t x = 0; x < k.out; ++x) {
    const auto taps = ops::resize_taps(a, k, x);
    if (!taps || taps->at.size() * static_cast<size_t>(k.out) > kMaxWeights) return std::nullopt;
    all.at.resize(taps->at.size());
    all.weight.resize(taps->at.size());
    for (size_t t = 0; t < taps->at.size(); ++t) {
      all.at[t].push_back(taps->at[t]);
      all.weight[t].push_back(taps->weight[t]);
    }
    all.outside.push_back(taps->outside);
  }
  return all;
}

ValueId weights(Expansion& e, DType t, const std::vector<double>& w) {
  const std::vector<int64_t> dims = {static_cast<int64_t>(w.size())};
  if (t == DType::F64) return e.b.constant(make_data(t, dims, w));
  return e.b.constant(make_data(t, dims, std::vector<float>(w.begin(), w.end())));
}

std::vector<ValueId> resize(Expansion& e) {
  const auto& a = e.attrs<ResizeAttrs>();
  const bool nearest = a.mode == ResizeMode::Nearest;
  ValueId x = e.in(0);
  if (!nearest) x = is_float(e.g.dtype(x)) ? e.wide(x) : e.b.cast(x, DType::F32);
  const int rank = e.g.rank(x);
  for (int64_t axis = 0; axis < rank; ++axis) {
    const Dim in = e.dim(x, static_cast<int>(axis)), out = a.sizes[static_cast<size_t>(axis)];
    const bool known = in.is_static() && out.is_static();
    const auto k = ops::resize_axis(a, static_cast<size_t>(axis), known ? in.size() : 1, known ? out.size() : 1);
    if (in == out && !ops::resizes(a, k)) continue;
    const auto taps = known ? axis_taps(a, k) : std::nullopt;
    if (!taps) return {};
    const DType t = e.g.dtype(x);
    ValueId sum = out == Dim(0) ? e.b.narrow(x, axis, Dim(0), Dim(0)) : ValueId();
    for (size_t tap = 0; tap < taps->at.size(); ++tap) {
      if (std::all_of(taps->weight[tap].begin(), taps->weight[tap].end(), [](double w) { return w == 0; })) continue;
      ValueId part = e.b.create(OpKind::Gather, {x, e.b.ints(taps->at[tap])}, AxisAttrs{axis});
      if (!nearest) part = e.b.mul(part, e.along(weights(e, t, taps->weight[tap]), axis, rank));
      sum = sum.valid() ? e.b.add(sum, part) : part;
    }
    x = sum;
    if (std::any_of(taps->outside.begin(), taps->outside.end(), [](uint8_t o) { return o != 0; })) {
      const ValueId outside = e.along(e.b.constant(make_data(DType::Bool, {out.size()}, taps->outside)), axis, rank);
      x = e.b.create(OpKind::Where, {outside, e.num(x, a.extrapolation), x});
    }
  }
  return {e.rounded(e.b.cast(x, e.g.dtype(e.in(0))), kResultScale)};
}

}  // namespace

std::span<const DecompositionEntry> resize_decompositions() {
  static constexpr DecompositionEntry kTable[] = {{OpKind::Resize, resize}};
  return kTable;
}

}  // namespace rlxc::legalise
