#include "analysis/repeat_factors.h"

#include "ir/attrs.h"

namespace rlxc {
namespace {

// The factor by which a Resize repeats each position of the axis, or nullopt if it is no whole factor.
std::optional<int64_t> repeats(const Graph& g, NodeId n, size_t axis) {
  const auto& a = g.attrs<ResizeAttrs>(n);
  DimTable& dims = g.module().dims;
  const Dim in = g.dims(g.operand(n, 0))[axis], out = g.dims(g.result(n))[axis];
  int64_t times = 1;
  if (!a.scales.empty()) {
    if (!(a.scales[axis] >= 1 && a.scales[axis] <= 1 << 20)) return std::nullopt;
    times = static_cast<int64_t>(a.scales[axis]);
    if (static_cast<double>(times) != a.scales[axis]) return std::nullopt;
  } else if (in.is_static() && out.is_static()) {
    times = in.size() > 0 ? out.size() / in.size() : 0;
  }
  return times > 0 && dims.equal(dims.mul(in, Dim(times)), out) ? std::optional(times) : std::nullopt;
}

// Returns whether the pixel nearest to pixel x of an image enlarged k times is pixel x / k, for all k.
bool nearest_is_floor(const ResizeAttrs& a) {
  if (a.mode != ResizeMode::Nearest) return false;
  switch (a.coord) {
    case CoordMode::Asymmetric:
    case CoordMode::TfHalfPixelForNn: return a.nearest == NearestMode::Floor;
    case CoordMode::HalfPixel:
    case CoordMode::HalfPixelSymmetric:
    case CoordMode::PytorchHalfPixel:
      return a.nearest == NearestMode::RoundPreferFloor || a.nearest == NearestMode::RoundPreferCeil;
    default: return false;
  }
}

}  // namespace

std::optional<std::vector<int64_t>> repeat_factors(const Graph& g, NodeId n) {
  if (g.op(n) != OpKind::Resize || !nearest_is_floor(g.attrs<ResizeAttrs>(n))) return std::nullopt;
  std::vector<int64_t> all;
  for (size_t axis = 0; axis < g.dims(g.result(n)).size(); ++axis) {
    const auto times = repeats(g, n, axis);
    if (!times) return std::nullopt;
    all.push_back(*times);
  }
  return all;
}

}  // namespace rlxc
