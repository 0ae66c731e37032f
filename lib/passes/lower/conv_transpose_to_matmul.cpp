// Writes the transposed convolution of an image of one pixel, as generators begin with, as a matmul: the result is the window,
// scaled by each channel. Runs before quantization and fusion, which know matmuls. O(nodes).
#include "ir/graphs.h"
#include "passes/legalise/decompositions.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using legalise::Expansion;

// The elements of the result along spatial axis d; nullopt unless they are a part of the window.
std::optional<int64_t> part_of_window(const Expansion& e, const ConvAttrs& a, size_t d) {
  const DimTable& t = e.g.module().dims;
  const auto pixels = t.constant_value(e.dim(e.in(0), static_cast<int>(d) + 2)),
             kernel = t.constant_value(e.dim(e.in(1), static_cast<int>(d) + 2)), size = t.constant_value(e.result_dims()[d + 2]);
  const bool fits = pixels == 1 && kernel && size && (a.dilations[d] == 1 || *kernel == 1) && a.pads_begin[d] >= 0 && *size > 0 &&
                    a.pads_begin[d] + *size <= *kernel;
  return fits ? size : std::nullopt;
}

std::vector<ValueId> as_matmul(Expansion& e) {
  const ConvAttrs a = e.attrs<ConvAttrs>();
  if (a.groups != 1) return {};
  DimTable& t = e.b.dims();
  std::vector<Dim> sizes;
  for (size_t d = 0; d < a.strides.size(); ++d) {
    const auto size = part_of_window(e, a, d);
    if (!size) return {};
    sizes.push_back(Dim(*size));
  }
  const Dim elements = t.product(sizes);
  const std::vector<Dim> image = e.dims(e.in(0)), result = e.result_dims();
  ValueId w = e.in(1);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (e.dims(w)[d + 2] != sizes[d]) w = e.b.narrow(w, static_cast<int64_t>(d) + 2, Dim(a.pads_begin[d]), sizes[d]);
  const Dim columns = t.mul(result[1], elements);
  ValueId y = e.b.matmul(e.b.reshape(e.in(0), {image[0], image[1]}), e.b.reshape(w, {image[1], columns}));
  if (e.has(2)) {
    const ValueId bias = e.b.expand(e.b.reshape(e.in(2), {result[1], Dim(1)}), {result[1], elements});
    y = e.b.add(y, e.b.reshape(bias, {columns}));
  }
  return {e.b.reshape(y, result)};
}

}  // namespace

PassResult conv_transpose_to_matmul(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m)) lowered += legalise::expand_all(m.graph(id), OpKind::ConvTranspose, as_matmul);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
