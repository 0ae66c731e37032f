// Quantizes the image of an integer convolution where the convolution copies it. The input of a graph with Q/DQ pairs has no
// producer that could round it, and would be read and written once more.
//   fused_q_conv(region(x / scale, round, + zero, clamp, cast), w, zero, ...)  ->  fused_q_conv(x, w, zero, _, scale, ...)
// Declines for windows of single channels that vectors of channels compute without a copy. A grid rounds those where it reads
// them. Runs after all other fusions of elementwise nodes, which save a launch without a copy. O(nodes).
#include "passes/fuse/rounded_operand.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using namespace match;

constexpr std::string_view kRoundedImage = "rounded_image";

bool take_rounding(Graph& g, NodeId n, PassContext& context) {
  const ValueId codes = g.operand(n, 0);
  const NodeId source = g.def(codes);
  const auto r = fuse::rounding_of(g, source);
  if (!r) return false;
  const auto refuse = [&](std::string_view reason, std::string detail) {
    return decline_end(context, g, kRoundedImage, n, reason, std::move(detail));
  };
  if (g.use_count(codes) != 1) return refuse("multi_consumer", std::to_string(g.use_count(codes)) + " readers of the image");
  const fuse::Verdict verdict = fuse::can_round_image(g, n, *r, context);
  if (!verdict.fits) return !verdict.reason.empty() && refuse(verdict.reason, verdict.detail);
  const NodeId whole = fuse::with_rounding(g, n, *r);
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
