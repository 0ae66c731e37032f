// Writes a transposed convolution of dequantized values as a convolution of dequantized values, which quantize_contractions runs
// on integers:
//   conv_transpose(dequantize(x), dequantize(w))  ->  conv(dequantize(x), dequantize(w of the phases)), reshape, transpose
// The other ones stay as they are until lower_conv_transpose, so that activations fuse with them. O(nodes).
#include "ir/graphs.h"
#include "passes/lower/lower_conv_transpose.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

std::vector<ValueId> quantized_conv(legalise::Expansion& e) {
  const bool codes = match::defining_op(e.g, e.in(0), OpKind::Dequantize).valid() && quantized_weight(e.g, e.n).valid();
  return codes ? conv_of_phases(e) : std::vector<ValueId>{};
}

}  // namespace

PassResult lower_quantized_conv_transpose(Module& m, PassContext& context) {
  int64_t lowered = 0;
  if (context.target.native.test(static_cast<size_t>(OpKind::QConv)))
    for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::ConvTranspose, quantized_conv);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
