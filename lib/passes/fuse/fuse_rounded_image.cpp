// Quantises the image of an integer convolution where the convolution copies it. The input of a graph with Q/DQ pairs has no
// producer that could round it, and would be read and written once more.
//   fused_q_conv(region(x / scale, round, + zero, clamp, cast), w, zero, ...)  ->  fused_q_conv(x, w, zero, _, scale, ...)
// Declines for windows of single channels that vectors of channels compute without a copy. A grid rounds those where it reads
// them. Runs after all other fusions of elementwise nodes, which save a launch without a copy. O(nodes).
#include <algorithm>

#include "analysis/channel_blocks.h"
#include "ir/region.h"
#include "passes/fuse/rounding.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRoundedImage = "rounded_image";
constexpr uint16_t kAbsent = RegionStep::kNone;

bool take_rounding(Graph& g, NodeId n, PassContext& context) {
  const ValueId codes = g.operand(n, 0);
  const NodeId source = g.def(codes);
  const auto r = fuse::rounding_of(g, source);
  if (!r) return false;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kRoundedImage, n, reason, std::move(detail));
  };
  if (g.use_count(codes) != 1) return refuse("multi_consumer", std::to_string(g.use_count(codes)) + " readers of the image");
  const ValueId zero = g.operands(n).size() > 2 ? g.operand(n, 2) : ValueId();
  if (!fuse::same_zero(g, r->zero, zero)) return false;
  const bool fused_steps = g.op(n) == OpKind::FusedQConv;
  const ConvAttrs conv = fused_steps ? g.attrs<FusedQConvAttrs>(n).conv : g.attrs<ConvAttrs>(n);
  const auto dims = g.dims(g.operand(n, 1));
  if (conv.groups > 1 && dims[1] == Dim(1) && context.target.threads && blocked_conv_channels(g, n))
    return refuse("groups", "convolutions of single channels copy no image");
  std::vector<RegionStep> steps{{OpKind::QConv, DType::I32, {kAbsent, kAbsent, kAbsent}}};
  std::vector<int64_t> also;
  if (fused_steps) {
    steps = g.attrs<FusedQConvAttrs>(n).steps;
    also = g.attrs<FusedQConvAttrs>(n).also;
  }
  const size_t count = std::max(g.operands(n).size(), kQuantOperands) + 1;
  if (count > context.target.region_max_inputs) return refuse("operand_limit", std::to_string(count) + " operands");
  const std::vector<ValueId> operands = fuse::rounding_operands(g, n, *r, &steps);
  Builder b(g, nullptr, n);
  const NodeId whole = b.create_node(OpKind::FusedQConv, operands, FusedQConvAttrs{conv, std::move(steps), std::move(also)});
  if (!whole.valid()) return false;
  fuse::take_over_rounding(g, n, source, whole, kRoundedImage, context);
  return true;
}

}  // namespace

PassResult fuse_rounded_image(Module& m, PassContext& context) {
  int64_t found = 0;
  if (!context.target.native.test(static_cast<size_t>(OpKind::FusedQConv))) return {};
  each_graph(m, [&](Graph& g) {
    for (NodeId n : g.nodes())
      if (g.op(n) == OpKind::FusedQConv || g.op(n) == OpKind::QConv)
        found += context.rewrite([&] { return take_rounding(g, n, context); });
  });
  return {found > 0, {{"rounded_image", found}}};
}

}  // namespace rlxc
