#include "codegen/lower_blocked.h"

#include <array>

#include "analysis/channel_blocks.h"
#include "codegen/fused_bodies.h"
#include "ir/region.h"
#include "kernel/builders/winograd.h"

namespace rlxc::codegen {
namespace {

using kernel::BlockedConv, kernel::BlockedWindows, kernel::constant_value;

// Returns whether all that the steps do with the sums, step 0, is to convert them to f32.
bool reads_float_sums(std::span<const RegionStep> steps) {
  return steps.size() > 1 && std::ranges::all_of(steps.subspan(1), [](const RegionStep& s) {
           const bool reads = std::ranges::count(s.args, RegionStep::kStep) > 0;
           return !reads || (s.op == OpKind::Cast && s.dtype == DType::F32);
         });
}

BlockedWindows windows_of(const Node& node, int64_t block, const std::vector<int64_t>& strides,
                          const std::vector<int64_t>& dilations, const std::vector<int64_t>& pads,
                          const std::vector<int64_t>& pads_end) {
  BlockedWindows w;
  w.dtype = is_integer_conv(node.op()) ? code_type(node.graph, node.id) : node.dtype(0);
  if (rounds_operand(node.graph, node.id)) w.prologue.body = quantize_body(w.dtype);
  const auto in = node.dims(0), out = node.result_dims();
  if (in[0].is_static()) w.batch = in[0].size();
  w.open = !in[2].is_static() || !in[3].is_static();
  w.channels = node.dims(0)[1].size();
  w.block = block;
  for (size_t d = 0; d < 2; ++d) {
    if (!w.open) w.in[d] = in[d + 2].size(), w.out[d] = out[d + 2].size();
    w.stride[d] = strides[d];
    w.dilation[d] = dilations[d];
    w.pad[d] = pads[d];
    w.pad_end[d] = pads_end[d];
  }
  return w;
}

// Sets the sizes that are known in a run only to arguments of the kernel.
void bind_sizes(const Node& node, Scope& s, BlockedWindows* w) {
  w->batch = s.size(node.dims(0)[0]);
  for (size_t d = 0; d < 2 && w->open; ++d) {
    w->open_in[d] = s.size(node.dims(0)[d + 2]);
    w->open_out[d] = s.size(node.result_dims()[d + 2]);
  }
}

// The size of the image with its padding along an axis.
Dim extent_of(const Node& node, const BlockedWindows& w, size_t axis) {
  if (!w.open) return Dim(w.extent(axis));
  if (!w.padded()) return node.dims(0)[axis + 2];
  DimTable& t = node.table();
  const Dim steps = t.mul(t.sub(node.result_dims()[axis + 2], Dim(1)), Dim(w.stride[axis]));
  return t.add(steps, Dim((w.kernel[axis] - 1) * w.dilation[axis] + 1));
}

// The elements of a row of a block of the image with its padding.
Dim pitch_of(const Node& node, const BlockedWindows& w) {
  DimTable& t = node.table();
  return t.add(t.mul(extent_of(node, w, 1), Dim(w.block)), Dim(w.slack()));
}

// Binds the operands of the epilogue in the order in which the builders add them: bias and residual, or those of the steps.
// row_major: with strides over a row-major result.
void bind_epilogue(Node& node, Scope& s, kernel::Epilogue* e, bool row_major = false) {
  const ConvParts parts = conv_parts(node);
  const size_t first = parts.integers ? kQuantOperands : 2;
  for (size_t i = first; i < node.graph.operands(node.id).size(); ++i) {
    if (!node.has(i)) continue;
    const bool bias = !parts.integers && i == 2, one = !bias && num_elements(node.graph.type(node.in(i))) == 1;
    Operand o = row_major && !bias ? s.in(i, node.result_dims()) : s.in(i);
    if (!row_major) o.strides = {one ? 0 : 1, std::ranges::equal(node.dims(i), node.result_dims()) && !one ? 1 : 0};
    else if (bias) o.strides = {0, 1, 0, 0};
    e->inputs.push_back(std::move(o));
  }
  e->body = parts.steps.empty() ? sum_body(e->inputs.size(), parts.act) : results_body(parts.steps, parts.also);
}

// Writes blocked sums [N, C / lanes, H, W, lanes] to a result that is not blocked, with the epilogue.
void write_row_major(Node& node, const BlockedConv& c, uint32_t sums) {
  Scope s(node, "image");
  kernel::MapSpec spec;
  spec.shape = s.shape(node.result_dims());
  kernel::Epilogue e;
  Operand from = s.scratch(sums);
  const int64_t blocks = c.groups * c.blocks();  // groups have whole blocks
  const Expr columns = spec.shape[3].in(s.kernel()), positions = spec.shape[2].in(s.kernel()) * columns;
  from.strides = {positions * (blocks * c.lanes), 1, columns * c.lanes, c.lanes};
  from.factors.resize(4);
  from.factors[1] = {{blocks, positions * c.lanes}, {c.lanes, 1}};
  bind_epilogue(node, s, &e, true);
  spec.inputs = {std::move(from)};
  spec.inputs.insert(spec.inputs.end(), e.inputs.begin(), e.inputs.end());
  for (size_t i = 0; i < node.graph.result_count(node.id); ++i) spec.outputs.push_back(s.out(i));
  spec.body = [&](const std::vector<Expr>& v) { return kernel::fused_values(e.body, {v.data(), 1}, {v.begin() + 1, v.end()}); };
  if (c.group_outputs % c.lanes == 0) {  // [N, C / lanes, lanes, H, W]: the map turns squares of channels and positions
    const auto split = [&](Operand& o) {
      const bool factors = o.split(1);
      const Index outer = factors ? o.factors[1][0].stride : Index(o.strides[1].in(s.kernel()) * c.lanes);
      const Index inner = factors ? o.factors[1][1].stride : o.strides[1];
      o.strides[1] = outer;
      o.strides.insert(o.strides.begin() + 2, inner);
      o.factors.clear();
    };
    for (Operand& o : spec.inputs) split(o);
    for (Operand& o : spec.outputs) split(o);
    spec.shape[1] = blocks;
    spec.shape.insert(spec.shape.begin() + 2, c.lanes);
  }
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
}

}  // namespace

int64_t block_of(const Node& node, ValueId v) { return node.layouts.channel_block(v); }

ConvParts conv_parts(const Node& node) {
  switch (node.op()) {
    case OpKind::FusedConvBiasAct:
    case OpKind::FusedConvTransposeBiasAct: return {node.attrs<FusedConvAttrs>().conv, node.attrs<FusedConvAttrs>().act};
    case OpKind::QConv: return {node.attrs<ConvAttrs>(), {}, true};
    case OpKind::FusedQConv: {
      const auto& a = node.attrs<FusionAttrs>();
      return {conv_step(a), {}, true, a.steps, a.also};
    }
    default: return {node.attrs<ConvAttrs>()};
  }
}

namespace {

Index times(const Index& i, int64_t n) { return i.expr.kernel ? Index(i.expr * n) : Index(i.value * n); }

}  // namespace

void split_channels(int64_t block, Operand* o) {
  Index outer = times(o->strides[1], block), inner = o->strides[1];
  if (o->split(1)) {
    outer = o->factors[1][0].stride;
    inner = o->factors[1][1].stride;
    if (!o->starts.empty()) {
      const Index first = times(outer, constant_value(o->starts[1]) / block);  // channels are constants
      o->offset = first.expr.kernel ? Index(first.expr + o->offset.in(first.expr.kernel))
                                    : Index(constant_value(o->offset) + first.value);
    }
  }
  o->strides[1] = outer;
  o->strides.push_back(inner);
  o->starts.clear();
  if (o->factors.empty()) return;
  o->factors[1].clear();
  o->factors.resize(o->strides.size());
}

void split_channels(int64_t block, Dims* shape) {
  (*shape)[1] = constant_value((*shape)[1]) / block;
  shape->push_back(block);
}

void split_channels(int64_t block, kernel::MapSpec* spec) {
  if (block == 0) return;
  for (Operand& o : spec->inputs) split_channels(block, &o);
  for (Operand& o : spec->outputs) split_channels(block, &o);
  split_channels(block, &spec->shape);
}

void split_channels(Scope& s, int64_t block, kernel::MapSpec* spec) {
  split_channels(block, spec);
  if (block == 0 || !kernel::is_constant(spec->shape[0], 1)) return;
  const auto is_known = [](const Operand& o) {
    int64_t n = 0;
    return kernel::constant(o.extent, &n);
  };
  if (!std::ranges::all_of(spec->inputs, is_known) || !std::ranges::all_of(spec->outputs, is_known)) return;
  const int64_t count = constant_value(spec->shape[1]);
  const Index blocks = s.parameter("blocks", Dim(count));
  const auto resize = [&](Operand& o) {
    const bool varies = !kernel::is_constant(o.strides[1], 0) && constant_value(o.extent) % count == 0;
    if (varies) o.extent = blocks.in(s.kernel()) * (constant_value(o.extent) / count);
  };
  for (Operand& o : spec->inputs) resize(o);
  for (Operand& o : spec->outputs) resize(o);
  spec->shape[1] = blocks;
}

namespace {

// The lanes of a convolution with a large window and few results in a row, such as the gradient of weights: vectors of channels,
// packed in every run, pay even where images are row-major. 0 for others.
int64_t lanes_of_large_window(const Node& node, const ConvChannels& c, bool integers) {
  constexpr int64_t kLeastReuse = 9;  // products of a packed weight
  const auto w = node.dims(1), y = node.result_dims();
  if (integers || node.mapping().workgroups || c.depthwise() || !y[2].is_static() || !y[3].is_static()) return 0;
  int64_t lanes = node.mapping().vector_lanes(4);
  if (c.out < lanes && lanes >= 16) lanes /= 2;
  const bool narrow = y[3].size() < lanes && w[2].size() * w[3].size() > y[2].size() * y[3].size();
  const int64_t images = y[0].is_static() ? y[0].size() : 1;
  const bool reused = images * y[2].size() * y[3].size() >= kLeastReuse;
  const bool fills = c.groups == 1 ? c.out >= lanes : c.out % lanes == 0;
  return narrow && reused && fills ? lanes : 0;
}

// The channels of a vector of depthwise windows between images with channels last; 0 for other nodes.
int64_t lanes_of_channels_last(const Node& node) {
  const auto is_last = [&](ValueId v) {
    const Layout* l = node.layouts.of(v);
    return l && is_channels_last(*l);
  };
  const int lanes = node.mapping().vector_lanes(sizeof(float));
  const bool fits = !node.mapping().workgroups && takes_channels_last(node.graph, node.id, lanes);
  return fits && is_last(node.in(0)) && is_last(node.result()) ? lanes : 0;
}

// Computes in whole vectors of the processor, of which blocks of the result may be halves.
void widen(const Node& node, BlockedConv* c, bool blocked_result) {
  const int64_t lanes = node.mapping().vector_lanes(sizeof(float));
  if (c->groups > 1 || c->lanes >= lanes || c->group_outputs <= c->lanes) return;
  if (blocked_result) c->narrow = c->lanes;
  c->lanes = lanes;
  c->dots = kernel::conv_fits_blocked_dots(*c, node.mapping());
}

}  // namespace

std::optional<BlockedConvNode> blocked_conv_of(const Node& node) {
  if (!is_blocked_conv(node.op())) return std::nullopt;
  int64_t in = block_of(node, node.in(0)), out = block_of(node, node.result());
  const auto channels = blocked_conv_channels(node.graph, node.id);
  if (!channels) return std::nullopt;
  const ConvParts parts = conv_parts(node);
  const bool row_major = in == 0 && out == 0;
  if (row_major) in = out = lanes_of_channels_last(node);
  const bool channels_last = row_major && out > 0;
  int64_t lanes = out ? out : in ? in : lanes_of_large_window(node, *channels, parts.integers);
  const bool row_major_ends = lanes == 0 && parts.integers && !channels->depthwise();
  if (row_major_ends) lanes = node.mapping().vector_lanes(4);
  if (lanes == 0) return std::nullopt;
  const ConvAttrs& a = parts.attrs;
  BlockedConvNode n;
  n.depthwise = channels->depthwise();
  n.row_major_result = out == 0;
  n.channels_last = channels_last;
  n.conv.windows = windows_of(node, in ? in : 1, a.strides, a.dilations, a.pads_begin, a.pads_end);
  n.conv.windows.kernel = {node.dims(1)[2].size(), node.dims(1)[3].size()};
  n.conv.groups = channels->groups;
  n.conv.group_outputs = channels->out;
  n.conv.lanes = lanes;
  n.conv.weight = node.dtype(1);
  n.conv.result = node.result_dtype();
  n.conv.float_sums = n.depthwise && !n.row_major_result && reads_float_sums(parts.steps);
  BlockedWindows& w = n.conv.windows;
  const bool by_planes = parts.integers && w.block == 1;
  const auto set_block = [&](int64_t block) {
    if (!by_planes) return;
    w.block = w.joins_taps ? w.planes : block;
    w.channels = (w.planes + w.block - 1) / w.block * w.block;
  };
  if (by_planes) {
    w.planes = w.channels;
    w.joins_taps = !n.depthwise && kernel::joined_taps_pay(w);
  }
  const auto fits_dots = [&] { return !n.depthwise && kernel::conv_fits_blocked_dots(n.conv, node.mapping()); };
  const bool bands = node.dims(0)[0].is_static() && !w.open && !n.depthwise;  // that Winograd's algorithm needs
  if (bands && (parts.integers || (node.row.winograd > 0 && !n.row_major_result))) {
    set_block(lanes);
    n.conv.dots = fits_dots();
    n.tile = kernel::winograd_tile(n.conv, node.mapping(), parts.integers ? 4 : node.row.winograd);
  }
  n.row_major_ends = row_major_ends;
  if (n.tile == 0) {
    set_block(w.planes % lanes == 0 ? lanes : int64_t{kernel::kWordCodes});
    n.conv.dots = fits_dots();
    if (row_major_ends && !(bands && kernel::blocks_of_codes_pay(n.conv, node.mapping()))) return std::nullopt;
  }
  if (n.tile == 0 && !n.depthwise) widen(node, &n.conv, out > 0);
  return n;
}

int64_t winograd_tile(const Graph& g, const GraphLayouts& layouts, NodeId n, const CapabilityRow& row) {
  const auto conv = blocked_conv_of(Node{g, layouts, n, row});
  return conv ? conv->tile : 0;
}

int64_t BlockedConvNode::weight_elements() const {
  if (tile > 0) return kernel::WinogradConv(conv, tile).weight_elements();
  return depthwise ? conv.windows.channels * conv.windows.taps() : conv.weight_elements();
}

namespace {

// The image as a row-major copy, where a kernel needs one.
std::optional<uint32_t> row_major_image(Node& node, const BlockedWindows& w) {
  const auto image = w.block == 1 || w.planes > 0 ? row_major_scratch(node, node.in(0)) : std::nullopt;
  if (image) copy_image(node, *image);
  return image;
}

void bind_image(Scope& s, std::optional<uint32_t> scratch) {
  if (scratch) s.bind({Binding::Kind::Scratch, *scratch});
  else s.in(0);
}

void bind_zero(Node& node, Scope& s, DType weight, BlockedWindows* w) {
  w->zero.reset();
  if (is_integer(weight) && node.has(2)) w->zero = s.in(2);
}

// Copies the image with its padding to a scratch buffer.
uint32_t padded_image(Node& node, BlockedConv conv, std::optional<uint32_t> image) {
  BlockedWindows& w = conv.windows;
  const Dim batch = node.dims(0)[0];
  const std::array<Dim, 4> wide_dims{batch, Dim(w.channels / w.block), extent_of(node, w, 0), pitch_of(node, w)};
  const uint32_t wide = node.scratch(conv.image(), node.table().product(wide_dims));
  Scope s(node, "pad");
  bind_image(s, image);
  bind_sizes(node, s, &w);
  bind_zero(node, s, conv.weight, &w);
  if (w.prologue.body) w.prologue = quantized_operand(s.in(kQuantOperands), *w.zero, w.dtype);
  s.bind({Binding::Kind::Scratch, wide});
  const Index all = s.parameter("blocks", node.table().mul(batch, Dim(w.channels / w.block)));
  kernel::build_pad_blocked(s.builder(), conv, all, node.mapping());
  s.finish();
  return wide;
}

// A buffer of blocked sums for a result that is not blocked.
uint32_t scratch_of_sums(Node& node, const BlockedConv& conv, DType type) {
  const Dim channels(conv.groups * conv.blocks() * conv.lanes);
  const std::array<Dim, 4> dims{node.dims(0)[0], channels, node.result_dims()[2], node.result_dims()[3]};
  return node.scratch(type, node.table().product(dims));
}

// Binds the operands of the epilogue and all results.
void bind_epilogue_and_results(Node& node, Scope& s, kernel::Epilogue* e) {
  bind_epilogue(node, s, e);
  s.out();
  for (size_t i = 1; i < node.graph.result_count(node.id); ++i) e->also.push_back(s.out(i));
}

bool lower_winograd(Node& node, const BlockedConvNode& n) {
  kernel::WinogradConv conv(n.conv, n.tile);
  const BlockedConv products = conv.products();
  const Dim in_blocks(conv.padded.channels / conv.padded.block), out_blocks(conv.results / conv.lanes);
  const uint32_t packed = *node.prepacked_operand(1);
  {
    Scope s(node, "transform_weights");
    s.in(1);
    s.bind({Binding::Kind::Scratch, packed});
    kernel::build_winograd_weights(s.builder(), conv, s.parameter("blocks", in_blocks), node.mapping());
    s.finish(true);
  }
  std::optional<uint32_t> image = row_major_image(node, conv.padded);
  if (conv.image().copies()) image = padded_image(node, conv.image(), image);
  std::optional<uint32_t> blocked_sums;
  if (n.row_major_result) blocked_sums = scratch_of_sums(node, n.conv, conv.result = conv.sum());
  const uint32_t points = node.scratch(conv.point(), Dim(conv.image_points()));
  const uint32_t sums = node.scratch(conv.sum(), Dim(conv.sum_points()));
  for (int64_t band = 0; band < conv.bands(); ++band) {
    const Dim first(band * conv.band);
    {
      Scope s(node, "tiles");
      bind_image(s, image);
      s.bind({Binding::Kind::Scratch, points});
      const Index row = s.parameter("first", first), blocks = s.parameter("blocks", in_blocks);
      kernel::build_winograd_tiles(s.builder(), conv, row, blocks, node.mapping());
      s.finish();
    }
    {
      Scope s(node, "products");
      for (uint32_t buffer : {packed, points, sums}) s.bind({Binding::Kind::Scratch, buffer});
      const Index blocks = s.parameter("blocks", Dim(in_blocks.size() / conv.parts));
      const Index tiles = s.parameter("band", Dim(kernel::tiles_per_task(products, node.mapping())));
      kernel::build_conv_blocked(s.builder(), products, blocks, tiles, node.mapping());
      s.finish();
    }
    Scope s(node);
    s.bind({Binding::Kind::Scratch, sums});
    if (conv.integers()) s.bind({Binding::Kind::Scratch, packed});
    bind_zero(node, s, conv.weight, &conv.padded);
    conv.epilogue = {};
    if (blocked_sums) s.bind({Binding::Kind::Scratch, *blocked_sums});
    else bind_epilogue_and_results(node, s, &conv.epilogue);
    const Index row = s.parameter("first", first), blocks = s.parameter("blocks", out_blocks);
    kernel::build_winograd_results(s.builder(), conv, row, blocks, node.mapping());
    s.finish();
  }
  if (blocked_sums) write_row_major(node, n.conv, *blocked_sums);
  return true;
}

}  // namespace

bool lower_blocked_conv(Node& node, BlockedConvNode n) {
  if (n.tile > 0 && !node.prepacked.empty()) return lower_winograd(node, n);
  n.tile = 0;
  BlockedConv conv = n.conv;
  const BlockedWindows& w = conv.windows;
  if (conv.integers() && !n.depthwise && !conv.dots) return node.fail("no dot unit for blocks of this size");
  const int64_t group_blocks = w.channels / w.block / (n.depthwise ? 1 : conv.groups);
  const auto blocks = [&](Scope& s) { return s.parameter("blocks", Dim(group_blocks)); };
  const bool on_load = !node.prepacked.empty();
  const uint32_t packed = on_load ? *node.prepacked_operand(1) : node.scratch(conv.packed(), Dim(n.weight_elements()));
  {
    Scope s(node, "pack");
    s.in(1);
    s.bind({Binding::Kind::Scratch, packed});
    n.depthwise ? kernel::build_pack_depthwise(s.builder(), w, conv.weight, blocks(s), node.mapping())
                : kernel::build_pack_blocked(s.builder(), conv, blocks(s), node.mapping());
    s.finish(on_load);
  }
  std::optional<uint32_t> image = row_major_image(node, w);
  if (!n.depthwise && conv.copies()) image = padded_image(node, conv, image);
  std::optional<uint32_t> sums;
  if (n.row_major_result) {
    conv.result = conv.integers() ? conv.accumulator() : w.dtype;
    sums = scratch_of_sums(node, conv, conv.result);
  }
  Scope s(node);
  s.bind({Binding::Kind::Scratch, packed});
  if (n.channels_last) conv.windows.image = s.in(0);
  else bind_image(s, image);
  bind_zero(node, s, conv.weight, &conv.windows);
  if (sums) {
    s.bind({Binding::Kind::Scratch, *sums});
  } else if (n.channels_last) {
    bind_epilogue(node, s, &conv.epilogue);
    conv.windows.result = s.out();
  } else {
    bind_epilogue_and_results(node, s, &conv.epilogue);
  }
  bind_sizes(node, s, &conv.windows);
  const Index in = blocks(s);
  if (n.depthwise) {
    kernel::build_depthwise_blocked(s.builder(), conv, in, node.mapping());
  } else {
    const Index band = w.open ? Index(1) : s.parameter("band", Dim(kernel::tiles_per_task(conv, node.mapping())));
    kernel::build_conv_blocked(s.builder(), conv, in, band, node.mapping());
  }
  s.finish();
  if (sums) write_row_major(node, conv, *sums);
  return true;
}

bool lower_blocked_pool(Node& node, const kernel::PoolFunction& p) {
  const auto& a = node.attrs<PoolAttrs>();
  BlockedWindows w = windows_of(node, block_of(node, node.result()), a.strides, a.dilations, a.pads_begin, a.pads_end);
  w.kernel = {a.kernel[0], a.kernel[1]};
  w.overhangs = a.ceil_mode;
  Scope s(node);
  bind_sizes(node, s, &w);
  s.in(0);
  s.out();
  kernel::build_pool_blocked(s.builder(), w, p, s.parameter("blocks", Dim(w.channels / w.block)), node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
