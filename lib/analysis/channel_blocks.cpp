#include "analysis/channel_blocks.h"

#include <algorithm>
#include <numeric>

#include "analysis/repeat_factors.h"
#include "ir/op_rules.h"
#include "ir/region.h"

namespace rlxc {
namespace {

bool is_blocked_float(DType t) { return t == DType::F32 || t == DType::F16 || t == DType::BF16; }

bool is_image(const Graph& g, ValueId v) {
  if (!v.valid() || g.type(v).kind != TypeKind::Tensor || g.rank(v) != 4) return false;
  if (!is_blocked_float(g.dtype(v)) && !is_int8(g.dtype(v)) && g.dtype(v) != DType::I32) return false;
  return g.dims(v)[1].is_static() && std::ranges::all_of(g.dims(v), [](Dim d) { return !d.is_static() || d.size() >= 1; });
}

// Returns whether the image is known to have one position.
bool is_pixel(const Graph& g, ValueId v) { return g.dims(v)[2] == Dim(1) && g.dims(v)[3] == Dim(1); }

// Returns whether an operand of a convolution's epilogue is laid out as the result.
bool is_whole(const Graph& g, NodeId n, ValueId v) { return std::ranges::equal(g.dims(v), g.dims(g.result(n))); }

// Returns whether kernels for blocked images read this operand of the steps: it is one value, one per channel, or whole.
bool is_step_operand(const Graph& g, NodeId n, ValueId v) {
  if (num_elements(g.type(v)) == 1) return true;
  if (is_whole(g, n, v)) return is_image(g, v);
  const auto own = g.dims(v);
  return own.size() >= 3 && own[own.size() - 3] == g.dims(g.result(n))[1] &&
         num_elements(g.type(v)) == own[own.size() - 3].size();
}

// Returns whether an integer convolution has kernels for blocked images: weights without zero points, whose sums are exact.
bool is_blocked_integer_conv(const Graph& g, NodeId n, const ConvChannels& c) {
  const ValueId w = g.operand(n, 1);
  const auto operands = g.operands(n);
  if (c.depthwise() && rounds_operand(g, n)) return false;
  if (!is_int8(code_type(g, n)) || g.dtype(w) != DType::I8 || (operands.size() > 3 && operands[3].valid())) return false;
  if (operands.size() > 2 && operands[2].valid() && num_elements(g.type(operands[2])) != 1) return false;
  if (c.depthwise() && g.dims(w)[2].size() * g.dims(w)[3].size() > kMostExactTaps) return false;
  for (size_t i = kQuantOperands; i < operands.size(); ++i)
    if (!is_step_operand(g, n, operands[i])) return false;
  return true;
}

// Returns whether a task's copy of padded rows is small. Images of symbolic sizes are not copied.
bool windows_fit(const Graph& g, ValueId image, int64_t height, int64_t dilation, int64_t width_of_padding) {
  if (!g.dims(image)[2].is_static() || !g.dims(image)[3].is_static()) return true;
  return ((height - 1) * dilation + 1) * (g.dims(image)[3].size() + width_of_padding) * 16 <= kMostWindowRows;
}

// The layout of a view that repeats rows and columns of an image, if the channels of the image are in blocks.
Layout repeated_blocks(DimTable& dims, Layout l, int64_t block) {
  const DimFactor channels = l.axes[1][0];
  l.axes[1] = {{dims.floor_div(channels.size, Dim(block)), dims.mul(channels.stride, Dim(block))}, {Dim(block), Dim(1)}};
  for (const size_t axis : {2, 3})
    for (DimFactor& f : l.axes[axis]) f.stride = dims.mul(f.stride, Dim(block));
  l.channel_block = block;
  return l;
}

// Values that share a layout, as sets with a representative (union-find).
class ChannelBlocks {
 public:
  ChannelBlocks(const Graph& g, int64_t lanes, GraphLayouts* layouts)
      : g_(g),
        lanes_(lanes),
        layouts_(*layouts),
        parent_(g.value_capacity()),
        divisor_(g.value_capacity()),
        state_(g.value_capacity()),
        is_repeated_(g.value_capacity()) {
    std::iota(parent_.begin(), parent_.end(), uint32_t{0});
  }

  void run() {
    for (NodeId n : g_.nodes())
      for (size_t i = 0; i < g_.result_count(n); ++i) start(n, g_.result(n, i));
    for (NodeId n : g_.nodes()) constrain(n);
    for (ValueId v : g_.outputs()) refuse(v);
    DimTable& dims = g_.module().dims;
    for (NodeId n : g_.nodes())
      for (size_t i = 0; i < g_.result_count(n); ++i) {
        const ValueId v = g_.result(n, i);
        const uint32_t set = find(v);
        if (state_[set].refused || !state_[set].convolved) continue;
        for (const int64_t block : {lanes_, lanes_ / 2})
          if (block >= std::min(kLeastBlock, lanes_) && divisor_[set] % block == 0) {
            if (is_repeated_[v.raw]) {
              layouts_.set(v, repeated_blocks(dims, *layouts_.of(v), block));
              break;
            }
            layouts_.set(v, channel_blocks(dims, g_.dims(v), block));
            layouts_.root[v.raw] = v;  // parts of rows are copied
            layouts_.offset[v.raw] = Dim(0);
            break;
          }
      }
  }

 private:
  static inline const std::vector<int64_t> kPositions = {2, 3};
  static constexpr int64_t kLeastBlock = 8;  // half vectors are worth it from 8 lanes on
  struct State {
    bool refused = false, convolved = false;
  };

  uint32_t find(ValueId v) {
    uint32_t at = v.raw;
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void refuse(ValueId v) {
    if (v.valid()) state_[find(v)].refused = true;
  }
  // The block must divide `channels`.
  void divide(ValueId v, int64_t channels) {
    int64_t& d = divisor_[find(v)];
    d = std::gcd(d, channels);
  }
  void join(ValueId a, ValueId b) {
    const uint32_t x = find(a), y = find(b);
    if (x == y) return;
    parent_[y] = x;
    divisor_[x] = std::gcd(divisor_[x], divisor_[y]);
    state_[x].refused |= state_[y].refused;
    state_[x].convolved |= state_[y].convolved;
  }

  // Rows or columns of an image that is no view itself. They may be a view, if they are not blocked.
  bool is_part(NodeId n) const {
    if (g_.op(n) != OpKind::Narrow || g_.attrs<NarrowAttrs>(n).axis < 2) return false;
    const ValueId x = g_.operand(n, 0);
    return is_image(g_, x) && layouts_.root[x.raw] == x && layouts_.root[g_.result(n).raw] == x;
  }

  // Returns whether the node repeats rows and columns of an image: as a view with strides of 0, or as a copy.
  bool repeats_positions(NodeId n) const {
    if (g_.op(n) != OpKind::Resize || !is_image(g_, g_.operand(n, 0))) return false;
    const auto times = repeat_factors(g_, n);
    return times && (*times)[0] == 1 && (*times)[1] == 1;
  }
  // Kernels that read rows of blocks cannot read repeated ones.
  void refuse_repeated(ValueId v) {
    if (is_repeated_[v.raw]) refuse(v);
  }

  // An image of one pixel is the same in both layouts, and is left to the kernels of matmuls.
  void start(NodeId n, ValueId v) {
    is_repeated_[v.raw] = repeats_positions(n) && layouts_.root[v.raw] == g_.operand(n, 0);
    const bool own = (layouts_.root[v.raw] == v && !layouts_.of(v)) || is_part(n) || is_repeated_[v.raw];
    const bool fits = own && is_image(g_, v) && !has_trait(g_.op(n), kLeaf) && !is_pixel(g_, v);
    if (!fits) return refuse(v);
    divisor_[v.raw] = g_.dims(v)[1].size();
  }

  void refuse_all(NodeId n, size_t first = 0) {
    for (size_t i = first; i < g_.operands(n).size(); ++i) refuse(g_.operand(n, i));
  }

  void constrain(NodeId n) {
    const OpKind op = g_.op(n);
    if (is_blocked_conv(op)) return convolution(n);
    if (op == OpKind::Pool) return pooling(n);
    if (op == OpKind::Reduce) return reduction(n);
    if (op == OpKind::ReduceRegion) return reduce_region(n);
    if (repeats_positions(n)) {
      refuse_repeated(g_.operand(n, 0));
      return join(g_.result(n), g_.operand(n, 0));
    }
    if (op == OpKind::Narrow) refuse_repeated(g_.operand(n, 0));
    const bool joins = (op == OpKind::Concat && g_.operands(n).size() > 1 && g_.attrs<AxisAttrs>(n).axis >= 1) ||
                       (op == OpKind::Narrow && g_.attrs<NarrowAttrs>(n).axis >= 2);
    const bool maps =
        layout_rule(op) == LayoutRule::Elementwise && (has_trait(op, kElementwise) || op == OpKind::ElementwiseRegion);
    if ((!joins && !maps) || (layouts_.is_view(g_, n) && !is_part(n))) {
      refuse_all(n);
      for (size_t i = 0; i < g_.result_count(n); ++i) refuse(g_.result(n, i));
      return;
    }
    const ValueId y = g_.result(n);
    for (ValueId v : g_.operands(n)) {
      if (!v.valid()) continue;
      const bool whole = joins || std::ranges::equal(g_.dims(v), g_.dims(y));
      if (!whole) refuse(v);
      else join(y, v);
    }
    for (size_t i = 1; i < g_.result_count(n); ++i) join(y, g_.result(n, i));
  }

  void convolution(NodeId n) {
    const ValueId y = g_.result(n), x = g_.operand(n, 0);
    const bool integers = is_integer_conv(g_.op(n));
    const auto c = blocked_conv_channels(g_, n);
    if (!c) {
      refuse_all(n);
      for (size_t i = 0; i < g_.result_count(n); ++i) refuse(g_.result(n, i));
      return;
    }
    for (size_t i = 1; i < g_.operands(n).size(); ++i) {
      const ValueId v = g_.operand(n, i);
      if (!v.valid()) continue;
      const bool residual = i >= (integers ? kQuantOperands : size_t{3}) && is_whole(g_, n, v);
      if (residual) join(y, v), refuse_repeated(v);
      else refuse(v);
    }
    refuse_repeated(x);
    state_[find(y)].convolved = true;
    for (size_t i = 1; i < g_.result_count(n); ++i) join(y, g_.result(n, i));
    if (c->groups == 1) return;
    if (!c->depthwise()) {  // a block of channels belongs to one group
      divide(x, c->in);
      divide(y, c->out);
    }
    join(y, x);
  }

  void pooling(NodeId n) {
    const auto& a = g_.attrs<PoolAttrs>(n);
    const ValueId x = g_.operand(n, 0), y = g_.result(n);
    refuse_all(n, 1);
    join(y, x);
    refuse_repeated(x);
    const bool computes = a.op == ReduceOp::Max || a.op == ReduceOp::Min || is_blocked_float(g_.dtype(x));
    if (!is_image(g_, x) || a.kernel.size() != 2 || !computes ||
        !windows_fit(g_, x, a.kernel[0], a.dilations[0], a.pads_begin[1] + a.pads_end[1] + a.kernel[1] * a.strides[1]))
      refuse(y);
  }

  void reduction(NodeId n) {
    const auto& a = g_.attrs<ReduceAttrs>(n);
    refuse(g_.result(n));
    refuse_repeated(g_.operand(n, 0));
    if (a.axes != kPositions || a.op == ReduceOp::LogSumExp) refuse_all(n);
  }

  // A region with one reduction of whole images over their positions (lower_reduce.cpp, reduce_once).
  void reduce_region(NodeId n) {
    const auto& a = g_.attrs<FusionAttrs>(n);
    refuse(g_.result(n));
    const bool once = std::ranges::count_if(a.steps, is_core) == 1 && reduced_axes(a.steps) == kPositions;
    DimTable& dims = g_.module().dims;
    const Dim results = dims.product(g_.dims(g_.result(n)));
    ValueId image;
    for (ValueId v : g_.operands(n)) {
      if (!v.valid()) continue;
      const bool whole = once && is_image(g_, v) && !is_pixel(g_, v) && results == dims.mul(g_.dims(v)[0], g_.dims(v)[1]);
      refuse_repeated(v);
      if (!whole) refuse(v);
      else if (image.valid()) join(image, v);
      else image = v;
    }
  }

  const Graph& g_;
  const int64_t lanes_;
  GraphLayouts& layouts_;
  std::vector<uint32_t> parent_;
  std::vector<int64_t> divisor_;   // by representative: the block must divide it
  std::vector<State> state_;       // by representative
  std::vector<bool> is_repeated_;  // by value: a view of repeated rows and columns
};

}  // namespace

const ConvAttrs* conv_attrs(const Graph& g, NodeId n) {
  switch (g.op(n)) {
    case OpKind::Conv:
    case OpKind::QConv: return &g.attrs<ConvAttrs>(n);
    case OpKind::FusedConvBiasAct: return &g.attrs<FusedConvAttrs>(n).conv;
    case OpKind::FusedQConv: return &conv_step(g.attrs<FusionAttrs>(n));
    default: return nullptr;
  }
}

std::optional<ConvChannels> blocked_conv_channels(const Graph& g, NodeId n) {
  const ConvAttrs* a = conv_attrs(g, n);
  if (!a) return std::nullopt;
  const ValueId x = g.operand(n, 0), w = g.operand(n, 1);
  if (!is_image(g, x) || !is_image(g, w) || !is_image(g, g.result(n)) || a->strides.size() != 2) return std::nullopt;
  if (!std::ranges::all_of(g.dims(w), [](Dim d) { return d.is_static(); })) return std::nullopt;
  const DType t = g.dtype(g.result(n));
  const bool integers = is_integer_conv(g.op(n));
  if (!integers && g.dtype(x) != t) return std::nullopt;
  for (size_t i = 2; !integers && i < g.operands(n).size(); ++i)
    if (g.operand(n, i).valid() && (i == 2 ? !is_blocked_float(g.dtype(g.operand(n, i))) : g.dtype(g.operand(n, i)) != t))
      return std::nullopt;
  const ConvChannels c{a->groups, g.dims(w)[1].size(), g.dims(w)[0].size() / a->groups};
  if (integers && !is_blocked_integer_conv(g, n, c)) return std::nullopt;
  if (c.groups > 1 && c.in == 1) {
    const bool fits = c.out == 1 && windows_fit(g, x, g.dims(w)[2].size(), a->dilations[0],
                                                a->pads_begin[1] + a->pads_end[1] + g.dims(w)[3].size() * a->strides[1]);
    if (!fits) return std::nullopt;
  }
  return c;
}

bool is_integer_conv(OpKind op) { return op == OpKind::QConv || op == OpKind::FusedQConv; }

bool is_blocked_conv(OpKind op) { return op == OpKind::Conv || op == OpKind::FusedConvBiasAct || is_integer_conv(op); }

bool takes_channels_last(const Graph& g, NodeId n, int64_t lanes) {
  if (!is_blocked_conv(g.op(n))) return false;
  const auto channels = blocked_conv_channels(g, n);
  bool residual = false;
  for (size_t i = is_integer_conv(g.op(n)) ? kQuantOperands : 3; i < g.operands(n).size(); ++i)
    residual |= g.operand(n, i).valid() && num_elements(g.type(g.operand(n, i))) != 1 && is_whole(g, n, g.operand(n, i));
  return channels && channels->depthwise() && !residual && channels->groups % lanes == 0;
}

void assign_channel_blocks(const Graph& g, int64_t lanes, GraphLayouts* layouts) { ChannelBlocks(g, lanes, layouts).run(); }

}  // namespace rlxc
