// Crops the outer taps of a convolution that meet only padding, as in small images with large or dilated windows. The weights are
// cropped at load time. Exact: the products of the cropped taps are zero. O(nodes).
#include <algorithm>

#include "analysis/channel_blocks.h"
#include "ir/graphs.h"
#include "ir/region.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

// The taps of an axis that meet the image, from `first` on.
struct Taps {
  int64_t first, count;
};

// The taps of a window at `results` positions that meet one of `size` elements. Pads stay nonnegative.
Taps useful_taps(const ConvAttrs& a, size_t d, int64_t size, int64_t kernel, int64_t results) {
  const int64_t last = (results - 1) * a.strides[d], step = a.dilations[d], begin = a.pads_begin[d], end = a.pads_end[d];
  const auto ceil_div = [](int64_t x, int64_t y) { return x > 0 ? (x - 1) / y + 1 : 0; };
  const int64_t first = std::clamp<int64_t>(std::min(ceil_div(begin - last, step), begin / step), 0, kernel - 1);
  const int64_t beyond = std::min(kernel - ceil_div(size + begin, step), end / step);
  return {first, kernel - first - std::clamp<int64_t>(beyond, 0, kernel - first - 1)};
}

bool crop(Graph& g, NodeId n) {
  if (!conv_attrs(g, n) || !match::is_weight(g, g.operand(n, 1))) return false;
  const DimTable& t = g.module().dims;
  Attrs attrs = g.module().attrs[g.attr_id(n)];
  ConvAttrs& a = *conv_attrs(attrs);
  ValueId w = g.operand(n, 1);
  Builder b(g, nullptr, n);
  for (size_t d = 0; d < a.strides.size(); ++d) {
    const auto size = t.constant_value(g.dims(g.operand(n, 0))[d + 2]), kernel = t.constant_value(g.dims(w)[d + 2]),
               results = t.constant_value(g.dims(g.result(n))[d + 2]);
    if (!size || !kernel || !results || *kernel == 0 || *results == 0) continue;
    const Taps taps = useful_taps(a, d, *size, *kernel, *results);
    if (taps.count == *kernel) continue;
    a.pads_begin[d] -= taps.first * a.dilations[d];
    a.pads_end[d] -= (*kernel - taps.first - taps.count) * a.dilations[d];
    w = b.narrow(w, static_cast<int64_t>(d) + 2, Dim(taps.first), Dim(taps.count));
  }
  if (w == g.operand(n, 1)) return false;
  g.set_attrs(n, g.module().attrs.intern(std::move(attrs)));
  g.set_operand(n, 1, w);
  return true;
}

}  // namespace

PassResult crop_conv_windows(Module& m, PassContext&) {
  int64_t cropped = 0;
  for (GraphId id : graphs_in_use(m)) {
    Graph& g = m.graph(id);
    for (NodeId n : g.nodes()) cropped += crop(g, n);
  }
  return {cropped > 0, {{"windows_cropped", cropped}}};
}

}  // namespace rlxc
