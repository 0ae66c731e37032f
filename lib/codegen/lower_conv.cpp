// Convolutions and pooling.
#include <cmath>
#include <limits>

#include "codegen/fused_bodies.h"
#include "codegen/lower_blocked.h"
#include "ir/region.h"
#include "kernel/builders/conv.h"
#include "kernel/builders/conv_dots.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/map.h"

namespace rlxc::codegen {
namespace {

using kernel::WindowSpec;

constexpr int64_t kMostTaps = 2048;  // largest window whose panel is on the stack
constexpr double kWeightNs = 0.1;    // time per run lost for each element of an unpacked weight

WindowSpec window_of(Node& node, Scope& s, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                     const std::vector<int64_t>& begin, const std::vector<int64_t>& end, const std::vector<int64_t>& dilations) {
  WindowSpec w;
  const auto x = node.dims(0), y = node.result_dims();
  w.batch = s.size(x[0]);
  w.in_channels = s.size(x[1]);
  w.out_channels = s.size(y[1]);
  w.in_size = s.shape(x.subspan(2));
  w.out_size = s.shape(y.subspan(2));
  w.kernel = kernel;
  w.strides = strides;
  w.pads_begin = begin;
  w.pads_end = end;
  w.dilations = dilations;
  w.input = node.dtype(0);
  w.output = node.result_dtype();
  w.accumulate = kernel::compute_dtype(node.dtype(0));
  return w;
}

WindowSpec window_of(Node& node, Scope& s, const ConvAttrs& a) {
  std::vector<int64_t> kernel;
  for (Dim d : node.dims(1).subspan(2)) kernel.push_back(node.table().constant_value(d).value_or(1));
  WindowSpec w = window_of(node, s, kernel, a.strides, a.pads_begin, a.pads_end, a.dilations);
  w.groups = a.groups;
  w.weight = node.dtype(1);
  return w;
}

bool is_same_at_all_positions(const Node& node, size_t operand) {
  const auto own = node.dims(operand);
  const size_t spatial = node.result_dims().size() - 2;
  return std::ranges::all_of(own.last(std::min(spatial, own.size())), [](Dim d) { return d == Dim(1); });
}

WindowSpec spec_of(Node& node, Scope& s, const ConvParts& c) {
  WindowSpec w = window_of(node, s, c.attrs);
  if (c.integers) {
    w.input = code_type(node.graph, node.id);
    w.accumulate = DType::I32;
  }
  return w;
}

// Binds the inputs of the epilogue: bias and residual, or the operands of the steps. Along the positions these have the dims of
// the result or are constant.
void bind_epilogue(Node& node, Scope& s, WindowSpec* w, const ConvParts& c) {
  kernel::Epilogue& e = w->epilogue;
  for (size_t i = kQuantOperands; !c.steps.empty() && i < node.graph.operands(node.id).size(); ++i) {
    Operand o = s.in(i, node.result_dims());
    o.strides = {o.strides[0], o.strides[1], is_same_at_all_positions(node, i) ? Index(0) : Index(1)};
    e.inputs.push_back(std::move(o));
  }
  if (!c.integers && node.has(2)) {
    Operand bias = s.in(2);
    bias.strides = {0, 1, 0};
    e.inputs.push_back(std::move(bias));
  }
  if (!c.integers && node.has(3)) {
    Operand residual = s.in(3);
    const Expr plane = kernel::product(s.kernel(), w->out_size);
    residual.strides = {w->out_channels.in(s.kernel()) * plane, plane, 1};
    e.inputs.push_back(std::move(residual));
  }
  e.body = c.steps.empty() ? sum_body(e.inputs.size(), c.act) : results_body(c.steps, c.also);
}

void bind_zero(Node& node, Scope& s, size_t i, std::optional<Operand>* zero) {
  if (!node.has(i)) return;
  *zero = s.in(i);
  (*zero)->strides = {num_elements(node.graph.type(node.in(i))) == 1 ? Index(0) : Index(1)};
}

bool is_strided(const Node& node, ValueId v) { return node.layouts.of(v); }

// Returns an image with the stride of its pixels last.
Operand as_planes(Operand x, const Dims& size) {
  int64_t n = 0;
  for (size_t d = size.size(); d-- > 1 && kernel::constant(size[d], &n) && n == 1;) x.strides.back() = x.strides[d + 1];
  return x;
}

void bind_image(Node& node, Scope& s, WindowSpec* w) {
  Operand x = s.in(0);
  if (is_strided(node, node.in(0))) w->image = as_planes(std::move(x), w->in_size);
}

void bind_result(Node& node, Scope& s, WindowSpec* w) {
  Operand y = s.out();
  if (is_strided(node, node.result())) w->result = as_planes(std::move(y), w->out_size);
  for (size_t i = 1; i < node.graph.result_count(node.id); ++i) w->epilogue.also.push_back(as_planes(s.out(i), w->out_size));
}

// Whether to use a phase-split image, whether it is a copy, and its elements. For few pixels the copy has their windows instead,
// for matrix units its channels are last.
struct PhaseSplit {
  bool used = false, copied = false, windows = false;
  Dim elements;
  bool channels_last = false;
};

// Whether the result has so few pixels that sums along the windows are faster than tiles.
bool has_few_pixels(const Node& node, const WindowSpec& w) {
  if (kernel::taps_of(w) == 1 || node.mapping().workgroups || !is_float(w.accumulate)) return false;
  int64_t pixels = 1;
  for (const Index& n : w.out_size) {
    int64_t size = 0;
    if (!kernel::constant(n, &size) || !kernel::gemm_has_few_columns(pixels *= size, w.accumulate, node.mapping())) return false;
  }
  return true;
}

PhaseSplit phase_split_of(const Node& node, const WindowSpec& w, Dim channels) {
  DimTable& t = node.table();
  PhaseSplit s;
  int64_t taps = 1;
  for (int64_t k : w.kernel) taps = std::min(taps * k, kMostTaps + 1);
  s.used = taps > 0 && taps <= kMostTaps;
  for (Dim d : node.result_dims()) s.used = s.used && t.constant_value(d) != 0;
  // Single channels are read by rows.
  s.copied = s.used && (!kernel::is_phase_split(w) || (w.groups > 1 && is_strided(node, node.in(0))));
  if (!s.copied) return s;
  s.elements = t.mul(node.dims(0)[0], channels);
  const auto axes = kernel::phase_split_axes(w);
  for (size_t d = 0; d < axes.size(); ++d)
    s.elements = t.mul(
        s.elements, t.mul(Dim(axes[d].phases), t.add(t.mul(node.result_dims()[d + 2], Dim(axes[d].step)), Dim(axes[d].extra))));
  s.elements = t.add(s.elements, Dim(kernel::kPhaseSplitSlack));
  return s;
}

// Returns the dot unit for words of channels, if any.
const kernel::DotUnit* dots_of(Node& node, const WindowSpec& w, const ConvParts& c) {
  if (!c.integers || !node.dims(1)[0].is_static()) return nullptr;
  return kernel::conv_dot_unit(w, node.table().constant_value(node.dims(1)[1]).value_or(0), node.mapping());
}

PhaseSplit phase_split_of(Node& node, const ConvParts& c) {
  const auto channels = node.table().constant_value(node.dims(1)[1]);
  if (!channels || *channels == 0) return {};
  // A grid computes depthwise convolutions element by element, and threads write their rows only one after another.
  const bool depthwise = *channels == 1 && c.attrs.groups > 1;
  if (depthwise && (node.mapping().workgroups || is_strided(node, node.result()))) return {};
  Scope probe(node);
  WindowSpec w = spec_of(node, probe, c);
  if (c.integers && node.has(2)) w.x_zero.emplace();
  if (!depthwise && has_few_pixels(node, w)) {
    DimTable& t = node.table();
    const Dim pixels = t.product(node.result_dims().subspan(2));
    return {true, true, true, t.mul(t.mul(t.mul(node.dims(0)[0], node.dims(0)[1]), pixels), Dim(kernel::taps_of(w)))};
  }
  w.dots = dots_of(node, w, c);
  const auto split_of_copy = [&](WindowSpec copy, Dim in_channels) {
    PhaseSplit split = phase_split_of(node, copy, in_channels);
    const bool last = node.mapping().workgroups && split.copied && node.dims(1)[0].is_static() &&
                      kernel::conv_reads_channels_last(w, *channels, node.mapping());
    if (!last) return split;
    copy.channels_last = true;
    split = phase_split_of(node, copy, in_channels);
    split.channels_last = true;
    return split;
  };
  if (!w.dots) return split_of_copy(w, node.dims(0)[1]);
  w.x_zero.reset();
  // A grid makes words of what it reads.
  const PhaseSplit bytes = phase_split_of(node, w, node.dims(0)[1]);
  if (node.mapping().workgroups && !bytes.copied && !rounds_operand(node.graph, node.id)) return bytes;
  const WindowSpec words = kernel::window_of_words(w, *channels);
  return split_of_copy(words, Dim(words.in_channels.value));
}

// Returns the spec for packing the weights; nullopt if packing does not pay.
std::optional<WindowSpec> packed_weights(Node& node, const ConvParts& c, int64_t channels, const PhaseSplit& split) {
  const auto out = node.table().constant_value(node.dims(1)[0]);
  if (!out || (channels == 1 && c.attrs.groups > 1)) return std::nullopt;
  Scope probe(node);
  const WindowSpec all = spec_of(node, probe, c);
  if (has_few_pixels(node, all)) return std::nullopt;
  WindowSpec w;
  w.dots = dots_of(node, all, c);
  w.channels_last = split.channels_last;
  w.bytes = w.dots && !split.copied;
  if (!w.dots && !w.channels_last &&
      (node.mapping().workgroups || !kernel::conv_is_tiled(probe.kernel(), all, channels, node.mapping())))
    return std::nullopt;
  w.out_channels = *out;
  w.kernel = all.kernel;
  w.groups = all.groups;
  w.weight = all.weight;
  w.accumulate = all.accumulate;
  return w;
}

Dim packed_elements(const Node& node, const WindowSpec& w, int64_t channels) {
  const int64_t out = node.table().constant_value(node.dims(1)[0]).value_or(0);
  if (w.dots) return Dim(kernel::weight_words(w, channels, out));
  Dim elements(w.channels_last ? out : kernel::packed_channels(w, out, node.mapping()));
  for (Dim d : node.dims(1).subspan(1)) elements = node.table().mul(elements, d);
  return elements;
}

DType packed_type(const WindowSpec& w) { return w.channels_last && !w.dots ? w.weight : w.accumulate; }

// Packs the weights in the order in which threads read them, into the prepacked buffer if there is one. Dot units and
// channels-last images always need packed weights.
std::optional<uint32_t> pack_weights(Node& node, const ConvParts& c, int64_t channels, const PhaseSplit& split) {
  const bool on_load = !node.prepacked.empty();
  auto w = packed_weights(node, c, channels, split);
  if (!w || !(on_load || w->dots || w->channels_last)) return std::nullopt;
  const uint32_t packed =
      on_load ? *node.prepacked_operand(1) : node.scratch(packed_type(*w), packed_elements(node, *w, channels));
  Scope s(node, "pack");
  s.in(1);
  if (!w->dots && c.integers && node.has(3)) bind_zero(node, s, 3, &w->w_zero);
  s.bind({Binding::Kind::Scratch, packed});
  (w->dots ? kernel::build_pack_weight_words : kernel::build_pack_weights)(s.builder(), *w, channels, node.mapping());
  s.finish(on_load);
  return packed;
}

// Emits a matmul of weights and windows, or shifted rows.
bool emit_phase_split(Node& node, const ConvParts& c) {
  const PhaseSplit split = phase_split_of(node, c);
  if (!split.used) return false;
  const int64_t channels = node.table().constant_value(node.dims(1)[1]).value_or(0);
  uint32_t image = 0;
  if (split.copied) {
    Scope s(node, "spread");
    WindowSpec w = spec_of(node, s, c);
    bind_image(node, s, &w);
    if (c.integers) bind_zero(node, s, 2, &w.x_zero);
    if (rounds_operand(node.graph, node.id)) w.prologue = quantized_operand(s.in(kQuantOperands), *w.x_zero, w.input);
    w.dots = dots_of(node, w, c);
    w.channels_last = split.channels_last;
    image = node.scratch(w.x_zero || w.dots ? w.accumulate : w.input, split.elements);
    s.bind({Binding::Kind::Scratch, image});
    if (split.windows) kernel::build_windows(s.builder(), w, node.mapping());
    else if (node.mapping().workgroups)
      kernel::build_image_on_grid(s.builder(), w, w.dots ? kernel::window_of_words(w, channels) : w, node.mapping());
    else if (w.dots) kernel::build_phase_split_words(s.builder(), w, kernel::window_of_words(w, channels), node.mapping());
    else kernel::build_phase_split(s.builder(), w, nullptr, node.mapping());
    s.finish();
  }
  const auto packed = pack_weights(node, c, channels, split);
  Scope s(node);
  WindowSpec w = spec_of(node, s, c);
  if (packed) {
    s.bind({Binding::Kind::Scratch, *packed});
    w.weights_packed = true;
  } else s.in(1);
  if (split.copied) s.bind({Binding::Kind::Scratch, image});
  else bind_image(node, s, &w);
  w.windows = split.windows;
  w.channels_last = split.channels_last;
  w.dots = dots_of(node, w, c);
  if (w.dots) {
    w.bytes = !split.copied;
    bind_zero(node, s, 3, &w.w_zero);
    bind_zero(node, s, 2, &w.x_zero);
  } else if (c.integers && node.has(2)) w.x_zero.emplace();
  if (c.integers && !packed) bind_zero(node, s, 3, &w.w_zero);
  bind_epilogue(node, s, &w, c);
  bind_result(node, s, &w);
  kernel::build_conv(s.builder(), w, channels, node.mapping());
  s.finish();
  return true;
}

}  // namespace

uint32_t rounded_operand(Node& node) {
  const uint32_t codes = node.scratch(code_type(node.graph, node.id), node.table().product(node.dims(0)));
  Scope s(node, "round");
  kernel::MapSpec spec;
  spec.shape = s.shape(node.dims(0));
  for (const size_t i : {size_t{0}, kQuantOperands, size_t{2}}) {
    spec.inputs.push_back(s.in(i));
    if (i > 0) spec.inputs.back().strides.assign(spec.shape.size(), 0);
  }
  Operand to = s.scratch(codes);
  to.strides = kernel::dense(s.kernel(), to.name, to.dtype, spec.shape).strides;
  spec.outputs = {std::move(to)};
  spec.body = [quantize = quantize_body(code_type(node.graph, node.id))](const std::vector<Expr>& v) {
    return kernel::fused_values(quantize, {v.data(), 1}, {v.begin() + 1, v.end()});
  };
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
  return codes;
}

std::optional<uint32_t> row_major_scratch(Node& node, ValueId v) {
  if (!is_strided(node, v)) return std::nullopt;
  return node.scratch(node.graph.dtype(v), node.table().product(node.graph.dims(v)));
}

void copy_image(Node& node, uint32_t image, std::optional<size_t> result) {
  Scope s(node, "image");
  const Dims shape = s.shape(result ? node.result_dims() : node.dims(0));
  Operand from = result ? s.scratch(image) : s.in(0), to = result ? s.out(*result) : s.scratch(image);
  Operand& dense = result ? from : to;
  dense.strides = kernel::dense(s.kernel(), dense.name, dense.dtype, shape).strides;
  kernel::build_map(s.builder(), {shape, {std::move(from)}, {std::move(to)}, [](const std::vector<Expr>& v) { return v; }},
                    node.mapping());
  s.finish();
}

bool lower_conv(Node& node) {
  if (const auto blocked = blocked_conv_of(node); blocked && !(blocked->row_major_ends && node.prepacked.empty()))
    return lower_blocked_conv(node, *blocked);
  const ConvParts c = conv_parts(node);
  const bool transposed = node.op() == OpKind::ConvTranspose || node.op() == OpKind::FusedConvTransposeBiasAct;
  if (!transposed && emit_phase_split(node, c)) return true;
  const bool rounds = rounds_operand(node.graph, node.id), on_read = rounds && node.mapping().workgroups;
  const auto codes = rounds && !on_read ? std::optional(rounded_operand(node)) : std::nullopt;
  std::vector<std::optional<uint32_t>> results;
  for (size_t i = 0; i < node.graph.result_count(node.id); ++i) results.push_back(row_major_scratch(node, node.result(i)));
  Scope s(node);
  WindowSpec w = spec_of(node, s, c);
  if (codes) s.bind({Binding::Kind::Scratch, *codes});
  else bind_image(node, s, &w);
  s.in(1);
  if (c.integers) {
    bind_zero(node, s, 2, &w.x_zero);
    bind_zero(node, s, 3, &w.w_zero);
  }
  if (on_read) w.prologue = quantized_operand(s.in(kQuantOperands), *w.x_zero, w.input);
  bind_epilogue(node, s, &w, c);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) s.bind({Binding::Kind::Scratch, *results[i]});
    else s.out(i);
    if (i > 0) w.epilogue.also.push_back({"y" + std::to_string(i), node.result_dtype(i), {}});
  }
  (transposed ? kernel::build_window_conv_transpose : kernel::build_window_conv)(s.builder(), w, node.mapping());
  s.finish();
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]) copy_image(node, *results[i], i);
  return true;
}

std::vector<PrepackedBuffer> prepack_conv(Node& node, const std::vector<bool>& on_load) {
  if (const auto blocked = blocked_conv_of(node)) {
    if (!on_load[1]) return {};
    const int64_t elements = blocked->weight_elements();
    return {{blocked->conv.packed(), Dim(elements), {1}, kWeightNs * static_cast<double>(elements)}};
  }
  const ConvParts c = conv_parts(node);
  const int64_t channels = node.table().constant_value(node.dims(1)[1]).value_or(0);
  if (!on_load[1]) return {};
  const PhaseSplit split = phase_split_of(node, c);
  const auto w = split.used ? packed_weights(node, c, channels, split) : std::nullopt;
  const bool zero = c.integers && node.has(3) && !(w && w->dots);
  if (!w || (zero && !on_load[3])) return {};
  const Dim elements = packed_elements(node, *w, channels);
  const double saved = kWeightNs * static_cast<double>(node.table().constant_value(elements).value_or(0));
  return {{packed_type(*w), elements, zero ? std::vector<uint32_t>{1, 3} : std::vector<uint32_t>{1}, saved}};
}

bool lower_pool(Node& node) {
  const auto& a = node.attrs<PoolAttrs>();
  auto window = [&](Scope& s) { return window_of(node, s, a.kernel, a.strides, a.pads_begin, a.pads_end, a.dilations); };
  if (node.op() == OpKind::MaxPoolIndices) {
    Scope s(node);
    s.in(0);
    s.out(0);
    s.out(1);
    kernel::build_max_pool_indices(s.builder(), window(s), a.column_major, node.mapping());
    s.finish();
    return true;
  }
  kernel::PoolSpec p;
  const DType t = kernel::compute_dtype(node.dtype(0));
  p.count_padding = a.count_include_pad;
  auto extreme = [t](kernel::Kernel* k, bool low) {
    if (is_float(t))
      return kernel::constant(k, t, low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
    const int width = rlxc::bits(t);
    const int64_t least = is_signed(t) ? std::numeric_limits<int64_t>::min() >> (64 - width) : 0;
    return kernel::constant_int(k, t, low ? least : is_signed(t) ? ~least : -1);
  };
  p.start = [t](kernel::Kernel* k) { return kernel::constant_int(k, t, 0); };
  p.step = [](Expr sum, Expr v) { return sum + v; };
  const auto finish = [&](std::function<Expr(Expr, Expr count)> f) {
    p.epilogue.body = [f](std::span<const Expr> roots, const kernel::LoadInput&) -> std::vector<Expr> {
      return {f(roots[0], roots[1])};
    };
  };
  switch (a.op) {
    case ReduceOp::Max:
      p.start = [extreme](kernel::Kernel* k) { return extreme(k, true); },
      p.step = [](Expr best, Expr v) { return max(best, v); };
      break;
    case ReduceOp::Min:
      p.start = [extreme](kernel::Kernel* k) { return extreme(k, false); },
      p.step = [](Expr best, Expr v) { return min(best, v); };
      break;
    case ReduceOp::Prod:
      p.start = [t](kernel::Kernel* k) { return kernel::constant_int(k, t, 1); },
      p.step = [](Expr product, Expr v) { return product * v; };
      break;
    case ReduceOp::Mean:
      p.counts = true;
      finish([](Expr sum, Expr count) { return sum / cast_to(count, sum.dtype()); });
      break;
    case ReduceOp::L1: p.step = [](Expr sum, Expr v) { return sum + abs(v); }; break;
    case ReduceOp::SumSquare: p.step = [](Expr sum, Expr v) { return sum + v * v; }; break;
    case ReduceOp::L2: {
      const double power = a.p;
      if (power == 2) {
        p.step = [](Expr sum, Expr v) { return sum + v * v; };
        finish([](Expr sum, Expr) { return sqrt(sum); });
      } else {
        p.step = [power](Expr sum, Expr v) { return sum + pow(abs(v), power); };
        finish([power](Expr sum, Expr) { return pow(sum, 1 / power); });
      }
      break;
    }
    case ReduceOp::Sum: break;
    default: return node.fail("no pooling by this reduction");
  }
  if (block_of(node, node.result()) > 0) return lower_blocked_pool(node, p);
  PhaseSplit split;
  if (!node.mapping().workgroups) {
    Scope probe(node);
    split = phase_split_of(node, window(probe), node.dims(0)[1]);
  }
  uint32_t image = 0;
  if (split.copied) {
    Scope s(node, "spread");
    image = node.scratch(node.dtype(0), split.elements);
    s.in(0);
    s.bind({Binding::Kind::Scratch, image});
    kernel::build_phase_split(s.builder(), window(s), p.start, node.mapping());
    s.finish();
  }
  Scope s(node);
  p.window = window(s);
  if (split.copied) s.bind({Binding::Kind::Scratch, image});
  else s.in(0);
  s.out();
  (split.used ? kernel::build_pool_rows : kernel::build_pool)(s.builder(), p, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
