// Writes transposed convolutions as convolutions, which have fast kernels. A phase is the set of result rows r, r + s, r + 2s,
// ... of a stride s. Each phase is a convolution of stride 1 by the taps r, r + s, ... in reverse order. One convolution computes
// the phases of all axes as output channels. A transpose interleaves them, and a Narrow crops the pads. Windows are filled with
// zeros to a multiple of the stride. Weights are rearranged at load time. O(nodes).
#include "passes/lower/lower_conv_transpose.h"

#include <algorithm>

#include "ir/graphs.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace rlxc {
namespace {

using legalise::Expansion;

// An axis: of the transposed convolution, and of the convolution that it becomes, whose stride is 1.
struct Axis {
  int64_t stride, kernel, gaps;  // gaps: zeros to insert between the taps of the kernel
  int64_t taps, dilation;        // of the convolution
  int64_t pad_begin, pad_end;    // of the convolution
  int64_t crop;                  // rows before the result
};

int64_t floor_div(int64_t n, int64_t by) { return n >= 0 ? n / by : -((-n + by - 1) / by); }

Axis axis_of(const ConvAttrs& a, size_t d, int64_t kernel) {
  Axis x{a.strides[d], kernel, 0, kernel, a.dilations[d], 0, 0, 0};
  const int64_t window = x.dilation * (kernel - 1) + 1;
  if (x.stride > 1) {
    x.gaps = x.dilation - 1;
    x.dilation = 1;
    x.taps = (window + x.stride - 1) / x.stride;
  }
  const int64_t reach = x.dilation * (x.taps - 1), begin = a.pads_begin[d];
  const int64_t end = a.pads_end[d] - (a.output_padding.empty() ? 0 : a.output_padding[d]);
  // The uncropped result has (size - 1) * stride + window rows. `begin` of them are cropped in front and `end` behind.
  x.pad_begin = std::max<int64_t>(reach - floor_div(begin, x.stride), 0);
  x.pad_end = std::max<int64_t>(floor_div(window - 1 - end, x.stride), 0);
  x.crop = begin + (x.pad_begin - reach) * x.stride;
  return x;
}

ValueId pad_behind(Expansion& e, ValueId v, size_t axis, int64_t zeros) {
  if (zeros == 0) return v;
  const std::vector<Dim> none(e.dims(v).size(), Dim(0));
  PadAttrs pad{none, none, PadMode::Constant};
  pad.after[axis] = Dim(zeros);
  return e.b.create(OpKind::Pad, {v}, pad);
}

// Inserts the gaps between the taps of each axis, and fills the window to a multiple of the stride.
ValueId filled_weights(Expansion& e, ValueId w, const std::vector<Axis>& axes) {
  for (size_t d = 0; d < axes.size(); ++d) {
    const Axis& x = axes[d];
    int64_t size = x.kernel;
    if (x.gaps > 0) {
      std::vector<Dim> sizes = e.dims(w), joined = sizes;
      sizes.insert(sizes.begin() + static_cast<int64_t>(d) + 3, Dim(1));
      size *= x.gaps + 1;
      joined[d + 2] = Dim(size);
      w = e.b.reshape(pad_behind(e, e.b.reshape(w, sizes), d + 3, x.gaps), joined);
    }
    const int64_t filled = x.stride > 1 ? x.taps * x.stride : size;
    w = filled < size ? e.b.narrow(w, static_cast<int64_t>(d) + 2, Dim(0), Dim(filled)) : pad_behind(e, w, d + 2, filled - size);
  }
  return w;
}

// The weights [in, out / groups, window...] as [out * phases, in / groups, taps...]; the phases of an output channel are
// adjacent.
ValueId weights_of_phases(Expansion& e, ValueId w, int64_t groups, const std::vector<Axis>& axes) {
  DimTable& t = e.b.dims();
  w = filled_weights(e, w, axes);
  const Dim in = t.floor_div(e.dim(w, 0), Dim(groups)), out = e.dim(w, 1);
  std::vector<Dim> split{Dim(groups), in, out}, phases{t.mul(Dim(groups), out), in};
  std::vector<int64_t> order{0, 2}, taps;
  int64_t at = 3;
  for (const Axis& x : axes) {
    taps.push_back(at++);
    split.emplace_back(x.taps);
    phases.emplace_back(x.taps);
    if (x.stride == 1) continue;
    order.push_back(at++);
    split.emplace_back(x.stride);
    phases[0] = t.mul(phases[0], Dim(x.stride));
  }
  order.push_back(1);
  order.insert(order.end(), taps.begin(), taps.end());
  const ValueId turned = e.b.create(OpKind::Reverse, {e.b.reshape(w, split)}, AxesAttrs{taps});
  return e.b.reshape(e.b.transpose(turned, order), phases);
}

// The result [N, C * phases, ...] with its phases interleaved along their axes and cropped.
ValueId interleaved(Expansion& e, ValueId y, const std::vector<Axis>& axes) {
  const std::vector<Dim> sizes = e.dims(y), result = e.result_dims();
  DimTable& t = e.b.dims();
  std::vector<Dim> split{sizes[0], result[1]}, joined = split;
  std::vector<int64_t> order{0, 1};
  int64_t phase = 2, at = 2;
  for (const Axis& x : axes) at += x.stride > 1;
  for (const Axis& x : axes)
    if (x.stride > 1) split.emplace_back(x.stride);
  for (size_t d = 0; d < axes.size(); ++d) {
    split.push_back(sizes[d + 2]);
    joined.push_back(t.mul(sizes[d + 2], Dim(axes[d].stride)));
    order.push_back(at++);
    if (axes[d].stride > 1) order.push_back(phase++);
  }
  y = e.b.reshape(e.b.transpose(e.b.reshape(y, split), order), joined);
  for (size_t d = 0; d < axes.size(); ++d)
    if (axes[d].crop != 0 || !t.equal(joined[d + 2], result[d + 2]))
      y = e.b.narrow(y, static_cast<int64_t>(d) + 2, Dim(axes[d].crop), result[d + 2]);
  return y;
}

// A vector [C] repeated for the phases of each channel.
ValueId repeated(Expansion& e, ValueId v, int64_t phases) {
  if (!v.valid() || phases == 1) return v;
  const Dim channels = e.dim(v, 0);
  const ValueId column = e.b.reshape(v, {channels, Dim(1)});
  return e.b.reshape(e.b.expand(column, {channels, Dim(phases)}), {e.b.dims().mul(channels, Dim(phases))});
}

// The phases of a dequantized value, whose scales are repeated.
ValueId dequantized_phases(Expansion& e, NodeId dequantize, int64_t groups, const std::vector<Axis>& axes, int64_t phases) {
  QuantAttrs a = e.g.attrs<QuantAttrs>(dequantize);
  a.axis = 0;
  const ValueId codes = weights_of_phases(e, e.g.operand(dequantize, 0), groups, axes), scale = e.g.operand(dequantize, 1);
  return e.b.create(OpKind::Dequantize, {codes, e.g.rank(scale) == 1 ? repeated(e, scale, phases) : scale}, a);
}

}  // namespace

NodeId quantized_weight(const Graph& g, NodeId n) {
  const NodeId d = match::defining_op(g, g.operand(n, 1), OpKind::Dequantize);
  if (!d.valid() || !is_int8(g.dtype(g.operand(d, 0)))) return {};
  const auto& a = g.attrs<QuantAttrs>(d);
  const bool symmetric = match::is_absent_or_zero(g, g.operand(d, 2));
  const bool by_output = a.axis == 1 && g.attrs<ConvAttrs>(n).groups == 1;
  return symmetric && a.block == 0 && (g.rank(g.operand(d, 1)) == 0 || by_output) ? d : NodeId();
}

std::vector<ValueId> conv_of_phases(Expansion& e) {
  const bool fused = e.g.op(e.n) == OpKind::FusedConvTransposeBiasAct;
  const ConvAttrs& a = fused ? e.attrs<FusedConvAttrs>().conv : e.attrs<ConvAttrs>();
  std::vector<Axis> axes;
  int64_t phases = 1;
  ConvAttrs conv;
  conv.groups = a.groups;
  for (size_t d = 0; d < a.strides.size(); ++d) {
    const auto kernel = e.b.dims().constant_value(e.dim(e.in(1), static_cast<int>(d) + 2));
    if (!kernel) return {};
    const Axis& x = axes.emplace_back(axis_of(a, d, *kernel));
    phases *= x.stride;
    conv.strides.push_back(1);
    conv.dilations.push_back(x.dilation);
    conv.pads_begin.push_back(x.pad_begin);
    conv.pads_end.push_back(x.pad_end);
  }
  for (Dim d : e.result_dims())
    if (d == Dim(0)) return {};
  const bool residual = fused && e.has(3);
  const Epilogue act = fused ? e.attrs<FusedConvAttrs>().act : Epilogue{};
  const NodeId codes = fused ? NodeId() : quantized_weight(e.g, e.n);
  const ValueId w =
      codes.valid() ? dequantized_phases(e, codes, a.groups, axes, phases) : weights_of_phases(e, e.in(1), a.groups, axes);
  const ValueId bias = repeated(e, e.in(2), phases);
  ValueId y = fused && !residual && act.has
                  ? e.b.create(OpKind::FusedConvBiasAct, {e.in(0), w, bias, {}}, FusedConvAttrs{conv, act})
                  : e.b.create(OpKind::Conv, {e.in(0), w, bias}, conv);
  if (!y.valid()) return {};
  y = interleaved(e, y, axes);
  if (residual) y = e.activation(e.b.add(y, e.in(3)), act);
  return {y};
}

PassResult lower_conv_transpose(Module& m, PassContext&) {
  int64_t lowered = 0;
  for (GraphId id : graphs_in_use(m))
    for (const OpKind op : {OpKind::ConvTranspose, OpKind::FusedConvTransposeBiasAct})
      lowered += legalise::expand_all(m.graph(id), op, conv_of_phases);
  return {lowered > 0, {{"nodes_lowered", lowered}}};
}

}  // namespace rlxc
