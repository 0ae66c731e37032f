// Operations that move elements, reductions and control flow as operators of ONNX.
#include <algorithm>
#include <limits>

#include "export/onnx/writer.h"

namespace rlxc::onnx_export {
namespace {

Attributes axis_of(int64_t axis) { return std::move(Attributes().integer("axis", axis)); }

// The reshape that drops the axis of which this narrow leaves one element: together they are a Gather.
NodeId reshape_of_gather(const Graph& g, NodeId n) {
  const NarrowAttrs& a = g.attrs<NarrowAttrs>(n);
  const NodeId user = a.len == Dim(1) ? g.only_user(g.result(n)) : NodeId();
  if (!user.valid() || g.op(user) != OpKind::Reshape) return {};
  std::vector<Dim> left(g.dims(g.result(n)).begin(), g.dims(g.result(n)).end());
  left.erase(left.begin() + a.axis);
  return std::ranges::equal(left, g.dims(g.result(user))) ? user : NodeId();
}

// All narrows along an axis of a value, if they cut it into parts one behind the other: together they are a Split.
std::vector<NodeId> parts_of_split(const Graph& g, NodeId n) {
  constexpr size_t kMost = 64;
  const ValueId x = g.operand(n, 0);
  const int64_t axis = g.attrs<NarrowAttrs>(n).axis;
  if (g.use_count(x) < 2 || g.use_count(x) > kMost) return {};
  std::vector<NodeId> parts;
  for (const auto use : g.uses(x)) {
    if (g.op(use.user) != OpKind::Narrow || g.attrs<NarrowAttrs>(use.user).axis != axis) continue;
    const NarrowAttrs& a = g.attrs<NarrowAttrs>(use.user);
    if (!a.start.is_static() || !a.len.is_static() || reshape_of_gather(g, use.user).valid()) return {};
    parts.push_back(use.user);
  }
  std::ranges::sort(parts, {}, [&](NodeId p) { return g.attrs<NarrowAttrs>(p).start.size(); });
  int64_t end = 0;
  for (NodeId p : parts) {
    if (g.attrs<NarrowAttrs>(p).start.size() != end) return {};
    end += g.attrs<NarrowAttrs>(p).len.size();
  }
  return parts.size() > 1 && Dim(end) == g.dims(x)[static_cast<size_t>(axis)] ? parts : std::vector<NodeId>();
}

Attributes allow_zero(const Site& s, bool allowed) {
  Attributes a;
  if (s.w.opset() >= 14) a.integer("allowzero", allowed);
  return a;
}
bool reshape(const Site& s) {
  const NodeId from = s.g.def(s.g.operand(s.n, 0));
  if (s.g.op(from) == OpKind::Narrow && reshape_of_gather(s.g, from) == s.n) {
    const NarrowAttrs& a = s.g.attrs<NarrowAttrs>(from);
    return s.be("Gather", {s.w.name_of(s.g, s.g.operand(from, 0)), s.w.size(a.start)}, axis_of(a.axis));
  }
  if (s.g.op(from) == OpKind::Fft && reshape_of_real_part(s.g, from) == s.n)
    return s.be("Gather", {s.in(0), s.w.scalar(DType::I64, 0)}, axis_of(s.rank(0) - 1));
  return s.be("Reshape", {s.in(0), s.w.sizes(s.attrs<DimsAttrs>().dims)}, allow_zero(s, true));
}
// Before allowzero, a 0 stands for the operand's dim at the same axis.
bool is_known_reshape(const Graph& g, NodeId n, int64_t opset) {
  const auto from = g.dims(g.operand(n, 0)), to = g.dims(g.result(n));
  for (size_t i = 0; i < to.size() && opset < 14; ++i)
    if (to[i] == Dim(0) && (i >= from.size() || from[i] != Dim(0))) return false;
  return true;
}
bool reshape_to(const Site& s) { return s.be("Reshape", s.all(), allow_zero(s, s.attrs<ReshapeToAttrs>().allow_zero)); }
bool is_known_reshape_to(const Graph& g, NodeId n, int64_t opset) {
  return opset >= 14 || !g.attrs<ReshapeToAttrs>(n).allow_zero;
}
bool transpose(const Site& s) { return s.be("Transpose", s.all(), Attributes().integers("perm", s.attrs<PermAttrs>().perm)); }
bool expand(const Site& s) { return s.be("Expand", {s.in(0), s.w.sizes(s.attrs<DimsAttrs>().dims)}); }
bool tile(const Site& s) { return s.be("Tile", {s.in(0), s.w.sizes(s.attrs<DimsAttrs>().dims)}); }

DimTable& table(const Site& s) { return const_cast<Module&>(s.w.module()).dims; }

bool narrow(const Site& s) {
  const NarrowAttrs& a = s.attrs<NarrowAttrs>();
  if (reshape_of_gather(s.g, s.n).valid()) return true;  // written there
  if (const std::vector<NodeId> parts = parts_of_split(s.g, s.n); !parts.empty()) {
    if (!s.w.once(s.g.operand(s.n, 0), a.axis)) return true;
    std::vector<int64_t> sizes;
    Names names;
    for (NodeId p : parts) {
      sizes.push_back(s.g.attrs<NarrowAttrs>(p).len.size());
      names.push_back(s.w.name_of(s.g, s.g.result(p)));
    }
    s.w.node_of("Split", {s.in(0), s.w.ints(sizes)}, axis_of(a.axis), names);
    return true;
  }
  const Dim end = table(s).add(a.start, a.len);
  return s.be("Slice", {s.in(0), s.w.sizes(std::array{a.start}), s.w.sizes(std::array{end}), s.w.ints({a.axis})});
}
bool slice(const Site& s) {
  const SliceAttrs& a = s.attrs<SliceAttrs>();
  DimTable& t = table(s);
  const Dim end = t.add(a.start, t.mul(a.len, t.constant(a.step)));
  const auto known = t.constant_value(end);
  if (a.step < 0 && !known) return false;
  const std::string x = s.in(0), first = s.w.sizes(std::array{a.start});
  const std::string last = known && *known < 0 ? s.w.ints({std::numeric_limits<int64_t>::min()}) : s.w.sizes(std::array{end});
  return s.be("Slice", {x, first, last, s.w.ints({a.axis}), s.w.ints({a.step})});
}
bool reverse(const Site& s) {
  const std::vector<int64_t> axes = s.attrs<AxesAttrs>().axes;
  const std::vector<int64_t> from(axes.size(), -1), to(axes.size(), std::numeric_limits<int64_t>::min());
  return s.be("Slice", {s.in(0), s.w.ints(from), s.w.ints(to), s.w.ints(axes), s.w.ints(from)});
}
bool concat(const Site& s) { return s.be("Concat", s.all(), axis_of(s.attrs<AxisAttrs>().axis)); }
bool gather(const Site& s) { return s.be("Gather", s.all(), axis_of(s.attrs<AxisAttrs>().axis)); }
bool gather_elements(const Site& s) { return s.be("GatherElements", s.all(), axis_of(s.attrs<AxisAttrs>().axis)); }
bool gather_nd(const Site& s) {
  return s.be("GatherND", s.all(), Attributes().integer("batch_dims", s.attrs<BatchDimsAttrs>().batch_dims));
}
Attributes reduction_of(const Site& s) {
  const Reduction r = s.attrs<ScatterAttrs>().reduction;
  Attributes a;
  if (r != Reduction::None) a.string("reduction", enum_names(r)[static_cast<size_t>(r)]);
  return a;
}
bool scatter_elements(const Site& s) {
  return s.be("ScatterElements", s.all(), reduction_of(s).integer("axis", s.attrs<ScatterAttrs>().axis));
}
bool scatter_nd(const Site& s) { return s.be("ScatterND", s.all(), reduction_of(s)); }
bool pad(const Site& s) {
  const NodeId user = s.g.only_user(s.g.result(s.n));
  if (user.valid() && !same_padding(s.w, s.g, user).empty()) return true;  // written there
  const PadAttrs& a = s.attrs<PadAttrs>();
  std::vector<Dim> all = a.before;
  all.insert(all.end(), a.after.begin(), a.after.end());
  return s.be("Pad", {s.in(0), s.w.sizes(all), s.has(1) ? s.scalar(1) : std::string()},
              Attributes().string("mode", enum_names(a.mode)[static_cast<size_t>(a.mode)]));
}
bool trilu(const Site& s) {
  const TriluAttrs& a = s.attrs<TriluAttrs>();
  const std::string diagonal = s.has(1) ? s.in(1) : s.w.scalar(DType::I64, static_cast<double>(a.diagonal));
  return s.be("Trilu", {s.in(0), diagonal}, Attributes().integer("upper", a.upper));
}
bool range(const Site& s) {
  const std::string count = s.w.size(s.attrs<DimsAttrs>().dims[0]);
  const bool casts = s.dtype(0) != DType::I64, scales = !s.is_number(1, 1), moves = !s.is_number(0, 0);
  std::string v;
  const auto add = [&](bool last, std::string_view op, const Names& in, const Attributes& a = {}) {
    if (last) s.be(op, in, a);
    else v = s.w.node(op, in, a);
  };
  add(!casts && !scales && !moves, "Range", {s.w.scalar(DType::I64, 0), count, s.w.scalar(DType::I64, 1)});
  if (casts) add(!scales && !moves, "Cast", {v}, Attributes().integer("to", onnx_dtype(s.dtype(0))));
  if (scales) add(!moves, "Mul", {v, s.in(1)});
  if (moves) add(true, "Add", {v, s.in(0)});
  return true;
}
bool iota(const Site& s) {
  const std::string n = s.w.node("Cast", {s.scalar(0)}, Attributes().integer("to", onnx_dtype(DType::I64)));
  return s.be("Range", {s.w.scalar(DType::I64, 0), n, s.w.scalar(DType::I64, 1)});
}
bool one_hot(const Site& s) {
  const OneHotAttrs& a = s.attrs<OneHotAttrs>();
  return s.be("OneHot", {s.in(0), s.w.size(a.depth), s.in(1)}, axis_of(a.axis));
}
bool dim_value(const Site& s) {
  const DimsAttrs& a = s.attrs<DimsAttrs>();
  return s.be("Identity", {a.scalar ? s.w.size(a.dims[0]) : s.w.sizes(a.dims)});
}
bool non_zero(const Site& s) { return s.be("NonZero", s.all()); }
bool unique(const Site& s) {
  const UniqueAttrs& a = s.attrs<UniqueAttrs>();
  Attributes attributes;
  attributes.integer("sorted", a.sorted);
  if (!a.flat) attributes.integer("axis", a.axis);
  return s.be("Unique", s.all(), attributes);
}
bool non_max_suppression(const Site& s) {
  return s.be("NonMaxSuppression", s.all(), Attributes().integer("center_point_box", s.attrs<NmsAttrs>().center_point));
}
bool resize(const Site& s) {
  const ResizeAttrs& a = s.attrs<ResizeAttrs>();
  Attributes attributes;
  attributes.string("mode", enum_names(a.mode)[static_cast<size_t>(a.mode)]);
  attributes.string("coordinate_transformation_mode", enum_names(a.coord)[static_cast<size_t>(a.coord)]);
  attributes.string("nearest_mode", enum_names(a.nearest)[static_cast<size_t>(a.nearest)]);
  attributes.number("cubic_coeff_a", a.cubic_a).number("extrapolation_value", a.extrapolation);
  attributes.integer("exclude_outside", a.exclude_outside);
  if (s.w.opset() >= 18) attributes.integer("antialias", a.antialias);
  std::string roi, scales;
  if (!a.roi.empty()) {
    const auto count = static_cast<int64_t>(a.roi.size());
    roi = s.w.constant(make_data(DType::F32, {count}, std::vector<float>(a.roi.begin(), a.roi.end())), "roi");
  }
  if (a.scales.empty()) return s.be("Resize", {s.in(0), roi, "", s.w.sizes(a.sizes)}, attributes);
  scales = s.w.constant(
      make_data(DType::F32, {static_cast<int64_t>(a.scales.size())}, std::vector<float>(a.scales.begin(), a.scales.end())),
      "scales");
  return s.be("Resize", {s.in(0), roi, scales}, attributes);
}
bool has_known_resize(const Graph& g, NodeId n, int64_t opset) {
  const ResizeAttrs& a = g.attrs<ResizeAttrs>(n);
  return a.coord != CoordMode::TfHalfPixelForNn && (!a.antialias || opset >= 18) &&
         (a.coord != CoordMode::HalfPixelSymmetric || opset >= 19);
}
bool has_known_reduction(const Graph& g, NodeId n, int64_t opset) {
  const Reduction r = g.attrs<ScatterAttrs>(n).reduction;
  return r == Reduction::None || opset >= (r < Reduction::Max ? 16 : 18);
}
bool has_known_pad(const Graph& g, NodeId n, int64_t opset) { return g.attrs<PadAttrs>(n).mode != PadMode::Wrap || opset >= 19; }

bool reduce(const Site& s) {
  static constexpr std::string_view kNames[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                                                "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};
  const ReduceAttrs& a = s.attrs<ReduceAttrs>();
  if (a.axes.empty()) return s.be("Identity", s.all());
  Attributes attributes;
  attributes.integer("keepdims", a.keep_dim);
  if (s.w.opset() >= 18 || a.op == ReduceOp::Sum)
    return s.be(kNames[static_cast<size_t>(a.op)], {s.in(0), s.w.ints(a.axes)}, attributes);
  return s.be(kNames[static_cast<size_t>(a.op)], s.all(), attributes.integers("axes", a.axes));
}
bool arg_reduce(const Site& s) {
  const ArgAttrs& a = s.attrs<ArgAttrs>();
  return s.be(a.largest ? "ArgMax" : "ArgMin", s.all(),
              Attributes().integer("axis", a.axis).integer("keepdims", a.keep_dim).integer("select_last_index", a.select_last));
}
bool cumsum(const Site& s) {
  const CumAttrs& a = s.attrs<CumAttrs>();
  return s.be("CumSum", {s.in(0), s.w.scalar(DType::I64, static_cast<double>(a.axis))},
              Attributes().integer("exclusive", a.exclusive).integer("reverse", a.reverse));
}
bool topk(const Site& s) {
  const TopKAttrs& a = s.attrs<TopKAttrs>();
  return s.be("TopK", {s.in(0), s.w.sizes(std::array{a.k})},
              Attributes().integer("axis", a.axis).integer("largest", a.largest).integer("sorted", a.sorted));
}

Names captured(const Site& s, size_t from, size_t count) {  // names for the inputs of a body
  Names out(from);
  for (size_t i = 0; i < count; ++i) out.push_back(s.in(i));
  return out;
}

bool if_(const Site& s) {
  Names outer;
  for (size_t i = 1; i < s.g.operands(s.n).size(); ++i) outer.push_back(s.in(i));
  Attributes a;
  a.graph("then_branch", s.w.body(s.g.bodies(s.n)[0], outer, 0, 0));
  a.graph("else_branch", s.w.body(s.g.bodies(s.n)[1], outer, 0, 0));
  return s.be("If", {s.in(0)}, a);
}
bool loop(const Site& s) {
  const auto carries = static_cast<size_t>(s.attrs<LoopAttrs>().carries);
  const Names all = captured(s, 0, s.g.operands(s.n).size());
  Attributes a;
  a.graph("body", s.w.body(s.g.bodies(s.n)[0], all, 0, 2 + carries));
  const auto scalar = [&](size_t i) { return i < all.size() && s.has(i) ? s.scalar(i) : std::string(); };
  Names in{scalar(0), scalar(1)};
  in.insert(in.end(), all.begin() + 2, all.begin() + 2 + static_cast<std::ptrdiff_t>(carries));
  return s.be("Loop", in, a);
}
bool scan(const Site& s) {
  const ScanAttrs& c = s.attrs<ScanAttrs>();
  const auto own = static_cast<size_t>(c.states + c.scan_inputs);
  const Names all = captured(s, 0, s.g.operands(s.n).size());
  Attributes a;
  a.graph("body", s.w.body(s.g.bodies(s.n)[0], all, 0, own)).integer("num_scan_inputs", c.scan_inputs);
  a.integers("scan_input_axes", c.input_axes).integers("scan_input_directions", c.input_reverse);
  if (!c.output_axes.empty()) a.integers("scan_output_axes", c.output_axes).integers("scan_output_directions", c.output_reverse);
  return s.be("Scan", {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own)}, a);
}

}  // namespace

std::span<const RuleEntry> movement_rules() {
  static constexpr RuleEntry kTable[] = {
      {OpKind::Reshape, reshape, is_known_reshape},
      {OpKind::ReshapeTo, reshape_to, is_known_reshape_to},
      {OpKind::Transpose, transpose},
      {OpKind::Expand, expand},
      {OpKind::Tile, tile},
      {OpKind::Narrow, narrow},
      {OpKind::Slice, slice},
      {OpKind::Reverse, reverse},
      {OpKind::Concat, concat},
      {OpKind::Gather, gather},
      {OpKind::GatherElements, gather_elements},
      {OpKind::GatherNd, gather_nd},
      {OpKind::ScatterElements, scatter_elements, has_known_reduction},
      {OpKind::ScatterNd, scatter_nd, has_known_reduction},
      {OpKind::Pad, pad, has_known_pad},
      {OpKind::Trilu, trilu, nullptr, 14},
      {OpKind::Range, range},
      {OpKind::Iota, iota},
      {OpKind::OneHot, one_hot},
      {OpKind::DimValue, dim_value},
      {OpKind::NonZero, non_zero},
      {OpKind::Unique, unique},
      {OpKind::NonMaxSuppression, non_max_suppression},
      {OpKind::Resize, resize, has_known_resize},
      {OpKind::Reduce, reduce},
      {OpKind::ArgReduce, arg_reduce},
      {OpKind::Cumsum, cumsum, nullptr, kOldestOpset, {14, is_wide}},
      {OpKind::TopK, topk},
      {OpKind::If, if_},
      {OpKind::Loop, loop},
      {OpKind::Scan, scan},
  };
  return kTable;
}

}  // namespace rlxc::onnx_export
