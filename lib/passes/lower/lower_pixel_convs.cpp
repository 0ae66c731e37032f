// Writes integer convolutions whose window is the whole image as integer matmuls, as those of squeeze-and-excite gates and of
// classifiers. A convolution reads each weight for a vector of pixels, of which an image has one here; a matmul reads vectors of
// weights.
//   fused_q_conv(x[N,C,1,1], w[F,C,1,1], ..)  ->  reshape(fused_q_matmul(reshape(x), transpose(reshape(w)), ..))
// Runs after fusion, since layout ops between contractions and their elementwise readers would stop it. O(nodes).
#include <algorithm>

#include "analysis/channel_blocks.h"
#include "ir/region.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/provenance.h"

namespace rlxc {
namespace {

using namespace match;

// Whether each window has all pixels of an image, and no others.
bool covers_image(const Graph& g, NodeId n, const ConvAttrs& a) {
  const auto x = g.dims(g.operand(n, 0)), w = g.dims(g.operand(n, 1)), y = g.dims(g.result(n));
  const auto none = [](const std::vector<int64_t>& pads) { return std::ranges::all_of(pads, [](int64_t p) { return p == 0; }); };
  if (a.groups != 1 || x.size() < 3 || !none(a.pads_begin) || !none(a.pads_end)) return false;
  for (size_t d = 2; d < x.size(); ++d)
    if (!x[d].is_static() || x[d] != w[d] || y[d] != Dim(1) || (a.dilations[d - 2] != 1 && w[d] != Dim(1))) return false;
  return x[1].is_static() && w[0].is_static();
}

class Convolution {
 public:
  Convolution(Graph& g, NodeId n) : g_(g), n_(n), b_(g, nullptr, n) {}

  bool to_matmul() {
    const bool fused = g_.op(n_) == OpKind::FusedQConv;
    if (!covers_image(g_, n_, *conv_attrs(g_, n_)) || rounds_operand(g_, n_)) return false;
    std::vector<ValueId> operands(g_.operands(n_).begin(), g_.operands(n_).end());
    operands.resize(std::max(operands.size(), kQuantOperands));
    if (operands[3].valid() && num_elements(g_.type(operands[3])) != 1) return false;
    if (!is_weight(g_, operands[1])) return false;
    const size_t before = g_.node_capacity();
    const auto x = g_.dims(operands[0]), w = g_.dims(operands[1]);
    const Dim inner = g_.module().dims.product({w.begin() + 1, w.end()}), images = x[0], channels = w[0];
    operands[0] = b_.reshape(operands[0], {images, inner});
    operands[1] = b_.transpose(b_.reshape(operands[1], {channels, inner}), {1, 0});
    for (size_t i = 2; i < operands.size(); ++i)
      if (operands[i].valid() && !(operands[i] = without_image(operands[i])).valid()) return false;
    const NodeId whole = b_.create_node(fused ? OpKind::FusedQMatMul : OpKind::QMatMul, operands, attrs(fused));
    if (!whole.valid()) return false;
    std::vector<ValueId> results;
    for (size_t i = 0; i < g_.result_count(n_); ++i) {
      const auto y = g_.dims(g_.result(n_, i));
      results.push_back(b_.reshape(g_.result(whole, i), {y.begin(), y.end()}));
    }
    const NodeId members[] = {n_};
    merge_origins_since(g_, before, members);
    for (size_t i = results.size(); i-- > 1;) g_.replace_all_uses(g_.result(n_, i), results[i]);
    replace_group(g_, members, g_.result(n_), results[0]);
    return true;
  }

 private:
  // The operand, of one element or of the rank of the image, without the axes of the pixels.
  ValueId without_image(ValueId v) {
    const auto d = g_.dims(v);
    const size_t pixels = g_.dims(g_.operand(n_, 0)).size() - 2, moved = std::min(pixels, d.size());
    if (!std::ranges::all_of(d.last(moved), [](Dim s) { return s == Dim(1); })) return {};
    return b_.reshape(v, {d.begin(), d.end() - static_cast<std::ptrdiff_t>(moved)});
  }

  Attrs attrs(bool fused) const {
    if (!fused) return NoAttrs{};
    FusionAttrs r = g_.attrs<FusionAttrs>(n_);
    r.steps[0].op = OpKind::QMatMul;
    r.steps[0].attrs = NoAttrs{};
    return r;
  }

  Graph& g_;
  const NodeId n_;
  Builder b_;
};

}  // namespace

PassResult lower_pixel_convs(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::FusedQMatMul))) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQConv || g.op(n) == OpKind::QConv)
        found += context.rewrite([&] { return Convolution(g, n).to_matmul(); });
  });
  return {found > 0, {{"convolutions", found}}};
}

}  // namespace rlxc
