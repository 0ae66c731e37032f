// The StableHLO module of the tpu target: one function, whose parameters are the inputs and then the weights of model.json. XLA
// fuses, so nodes are translated one by one.
#include <cmath>
#include <functional>
#include <numeric>

#include "codegen/lowerings.h"
#include "driver/graph_package.h"
#include "driver/stablehlo.h"
#include "kernel/builder.h"
#include "target/targets.h"

namespace rlxc {
namespace {

using Ints = std::vector<int64_t>;

class Translator {
 public:
  Translator(const codegen::Package& p, Diagnostics& d)
      : p_(p), m_(*p.lir->module), g_(m_.main()), d_(d), value_(g_.value_capacity()) {}

  std::string run() {
    std::string parameters, results, names;
    size_t weight = 0;
    for (NodeId n : g_.inputs()) bind(n, "%i" + std::to_string(number_++), &parameters);
    for (NodeId n : g_.nodes())
      if (g_.op(n) == OpKind::Param || g_.op(n) == OpKind::Constant) bind(n, "%w" + std::to_string(weight++), &parameters);
    for (NodeId n : g_.nodes()) {
      if (has_trait(g_.op(n), kLeaf | kTerminator)) continue;
      n_ = n, why_.clear();
      b_.comment(g_.label(n) + " (" + std::string(kind_name(g_.op(n))) + ")");
      if (fits() && !translate()) why_ = why_.empty() ? "no translation of " + std::string(kind_name(g_.op(n))) : why_;
      if (!why_.empty())
        d_.error(Code::UnsupportedOnTarget, "the tpu target: " + why_,
                 "node \"" + g_.label(n) + "\" (" + std::string(kind_name(g_.op(n))) + ")");
    }
    for (ValueId v : g_.outputs()) {
      results += (results.empty() ? "" : ", ") + HloBuilder::type(value_[v.raw]);
      names += (names.empty() ? "" : ", ") + value_[v.raw].name;
    }
    return "module @" + p_.name + " {\n  func.func public @main(" + parameters + ") -> (" + results + ") {\n" + b_.take() +
           "    \"func.return\"(" + names + ") : (" + results + ") -> ()\n  }\n}\n";
  }

 private:
  Ints sizes(std::span<const Dim> dims) const {
    Ints out;
    for (Dim d : dims) out.push_back(d.is_static() ? d.size() : 0);
    return out;
  }
  Ints dims_of(ValueId v) const { return sizes(g_.dims(v)); }

  bool is_static(ValueId v) {
    for (Dim d : g_.dims(v))
      if (!d.is_static()) return false;
    return true;
  }

  void bind(NodeId n, const std::string& name, std::string* parameters) {
    const ValueId v = g_.result(n);
    value_[v.raw] = {name, g_.dtype(v), dims_of(v)};
    *parameters += (parameters->empty() ? "" : ", ") + name + ": " + HloBuilder::type(value_[v.raw]);
  }

  bool fits() {
    for (ValueId v : g_.operands(n_))
      if (v.valid() && value_[v.raw].name.empty()) return false;  // follows from another error, which is reported
    for (size_t r = 0; r < g_.result_count(n_); ++r) {
      const ValueId v = g_.result(n_, r);
      const bool known =
          g_.type(v).kind == TypeKind::Tensor && target::has_dtype(target::target(target::TargetId::Tpu), g_.dtype(v));
      if (!known) return why_ = "StableHLO has no values of type " + text(g_.type(v), m_.dims), false;
      if (!is_static(v)) return why_ = "sizes must be known: bind them (" + text(g_.type(v), m_.dims) + ")", false;
    }
    return true;
  }

  // The node at hand.
  const Hlo& in(size_t i) const { return value_[g_.operand(n_, i).raw]; }
  bool has(size_t i) const { return g_.operand(n_, i).valid(); }
  Ints result_dims(size_t r = 0) const { return dims_of(g_.result(n_, r)); }
  DType result_dtype(size_t r = 0) const { return g_.dtype(g_.result(n_, r)); }
  template <class A>
  const A& attrs() const {
    return g_.attrs<A>(n_);
  }
  bool set(Hlo v, size_t r = 0) {
    value_[g_.result(n_, r).raw] = std::move(v);
    return true;
  }

  static DType wide(DType t) { return kernel::compute_dtype(t); }
  Hlo bin(std::string_view o, const Hlo& a, const Hlo& b) {
    const Ints& dims = a.dims.size() >= b.dims.size() && volume(a) >= volume(b) ? a.dims : b.dims;
    return b_.op(o, {b_.broadcast(a, dims), b_.broadcast(b, dims)}, a.dtype, dims);
  }
  Hlo bin(std::string_view o, const Hlo& a, double v) { return bin(o, a, b_.constant(a.dtype, v, a.dims)); }
  Hlo one(std::string_view o, const Hlo& a) { return b_.same(o, {a}); }
  static int64_t volume(const Hlo& v) { return std::accumulate(v.dims.begin(), v.dims.end(), int64_t{1}, std::multiplies<>()); }
  Hlo sum(const Hlo& v, const Ints& axes, bool keep = true) { return b_.reduce("add", v, b_.constant(v.dtype, 0), axes, keep); }
  static Ints range(int64_t from, int64_t to) {
    Ints out(static_cast<size_t>(std::max<int64_t>(to - from, 0)));
    std::iota(out.begin(), out.end(), from);
    return out;
  }
  Hlo lowest(DType t) {
    if (is_float(t)) return b_.constant(t, -INFINITY);
    if (t == DType::Bool || !is_signed(t)) return b_.constant_int(t, 0);
    return b_.constant_int(t, rlxc::bits(t) == 64 ? INT64_MIN : -(int64_t{1} << (rlxc::bits(t) - 1)));
  }
  Hlo highest(DType t) {
    if (is_float(t)) return b_.constant(t, INFINITY);
    const int width = rlxc::bits(t) - (is_signed(t) ? 1 : 0);
    return b_.constant_int(t, t == DType::Bool ? 1 : width >= 63 ? INT64_MAX : (int64_t{1} << width) - 1);
  }

  bool translate() {
    static const std::pair<OpKind, bool (Translator::*)()> kTable[] = {{OpKind::Reshape, &Translator::reshape},
                                                                       {OpKind::Transpose, &Translator::transpose},
                                                                       {OpKind::Narrow, &Translator::narrow},
                                                                       {OpKind::Slice, &Translator::slice},
                                                                       {OpKind::Concat, &Translator::concat},
                                                                       {OpKind::Expand, &Translator::expand},
                                                                       {OpKind::Reverse, &Translator::reverse},
                                                                       {OpKind::Tile, &Translator::tile},
                                                                       {OpKind::Pad, &Translator::pad},
                                                                       {OpKind::Gather, &Translator::gather},
                                                                       {OpKind::GatherNd, &Translator::gather_nd},
                                                                       {OpKind::Trilu, &Translator::trilu},
                                                                       {OpKind::Range, &Translator::range_op},
                                                                       {OpKind::OneHot, &Translator::one_hot},
                                                                       {OpKind::DimValue, &Translator::dim_value},
                                                                       {OpKind::MatMul, &Translator::matmul},
                                                                       {OpKind::DotGeneral, &Translator::dot_general},
                                                                       {OpKind::Reduce, &Translator::reduce},
                                                                       {OpKind::Softmax, &Translator::softmax},
                                                                       {OpKind::LogSoftmax, &Translator::softmax},
                                                                       {OpKind::LayerNorm, &Translator::norm},
                                                                       {OpKind::RmsNorm, &Translator::norm},
                                                                       {OpKind::GroupNorm, &Translator::group_norm},
                                                                       {OpKind::BatchNormInference, &Translator::batch_norm},
                                                                       {OpKind::Conv, &Translator::conv},
                                                                       {OpKind::ConvTranspose, &Translator::conv_transpose},
                                                                       {OpKind::Pool, &Translator::pool},
                                                                       {OpKind::Cumsum, &Translator::cumsum},
                                                                       {OpKind::ArgReduce, &Translator::arg_reduce},
                                                                       {OpKind::Rope, &Translator::rope}};
    for (const auto& [op, f] : kTable)
      if (op == g_.op(n_)) return (this->*f)();
    return has_trait(g_.op(n_), kElementwise) && elementwise();
  }

  bool elementwise() {
    kernel::Builder builder("elementwise");
    kernel::Kernel* k = builder.kernel();
    const Ints dims = result_dims();
    std::vector<kernel::Expr> x;
    std::vector<Hlo> parameters;
    for (size_t i = 0; i < g_.operands(n_).size(); ++i) {
      const DType t = wide(in(i).dtype);
      x.push_back(builder.parameter("x" + std::to_string(i), kernel::Type(t)));
      parameters.resize(k->vars.size());
      parameters.back() = b_.convert(b_.broadcast(in(i), dims), t);
    }
    const auto [alpha, beta] = codegen::elementwise_parameters(m_.attrs[g_.attr_id(n_)]);
    kernel::Expr y;
    if (g_.op(n_) == OpKind::ElementwiseRegion) {
      std::vector<kernel::Expr> steps;
      for (const RegionStep& s : attrs<RegionAttrs>().steps) {
        std::vector<kernel::Expr> args;
        for (uint16_t a : s.args)
          if (a != RegionStep::kNone) args.push_back(a & RegionStep::kStep ? steps[a & ~RegionStep::kStep] : x[a]);
        steps.push_back(codegen::elementwise(s.op, s.alpha, s.beta, s.dtype, args));
      }
      y = steps.back();
    } else {
      y = codegen::elementwise(g_.op(n_), alpha, beta, result_dtype(), x);
    }
    return y.kernel != nullptr && set(b_.convert(b_.expression(*k, y.id, parameters, dims), result_dtype()));
  }

  // Movement.
  bool reshape() { return set(b_.reshape(in(0), result_dims())); }
  bool transpose() { return set(b_.transpose(in(0), attrs<PermAttrs>().perm)); }
  bool narrow() {
    const auto& a = attrs<NarrowAttrs>();
    return set(b_.slice(in(0), static_cast<size_t>(a.axis), a.start.size(), a.start.size() + a.len.size()));
  }
  bool slice() {
    const auto& a = attrs<SliceAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const int64_t n = in(0).dims[axis], length = a.len.size(), step = a.step;
    if (step > 0)
      return set(b_.slice(in(0), axis, a.start.size(), length ? a.start.size() + (length - 1) * step + 1 : a.start.size(), step));
    const Hlo turned = b_.op("reverse", {in(0)}, in(0).dtype, in(0).dims, "dimensions = " + HloBuilder::ints({a.axis}));
    const int64_t start = n - 1 - a.start.size();
    return set(b_.slice(turned, axis, start, length ? start + (length - 1) * -step + 1 : start, -step));
  }
  bool concat() {
    std::vector<Hlo> all;
    for (size_t i = 0; i < g_.operands(n_).size(); ++i) all.push_back(in(i));
    return set(b_.op("concatenate", all, result_dtype(), result_dims(),
                     "dimension = " + std::to_string(attrs<AxisAttrs>().axis) + " : i64"));
  }
  bool expand() { return set(b_.broadcast(in(0), result_dims())); }
  bool reverse() {
    return set(b_.op("reverse", {in(0)}, in(0).dtype, in(0).dims, "dimensions = " + HloBuilder::ints(attrs<AxesAttrs>().axes)));
  }
  bool tile() {
    Ints wide_dims, axes;
    const Ints repeats = sizes(attrs<DimsAttrs>().dims);
    for (size_t i = 0; i < repeats.size(); ++i)
      wide_dims.push_back(repeats[i]), wide_dims.push_back(in(0).dims[i]), axes.push_back(static_cast<int64_t>(2 * i + 1));
    return set(b_.reshape(b_.broadcast(in(0), wide_dims, axes), result_dims()));
  }
  bool pad() {
    const auto& a = attrs<PadAttrs>();
    if (a.mode != PadMode::Constant) return why_ = "only constant padding", false;
    Ints low, high;
    for (const auto& [list, out] : {std::pair{&a.before, &low}, std::pair{&a.after, &high}})
      for (Dim d : *list) {
        const auto v = m_.dims.constant_value(d);
        if (!v) return why_ = "padding of a size that is not known", false;
        out->push_back(*v);
      }
    return set(b_.pad(in(0), has(1) ? b_.reshape(in(1), {}) : b_.constant(in(0).dtype, 0), low, high));
  }
  // Negative indices count from the end.
  Hlo wrapped(const Hlo& index, int64_t n) {
    const Hlo negative = b_.compare("LT", index, b_.constant_int(index.dtype, 0, index.dims));
    return b_.op("select", {negative, bin("add", index, b_.constant_int(index.dtype, n, index.dims)), index}, index.dtype,
                 index.dims);
  }
  bool gather() {
    const auto axis = static_cast<size_t>(attrs<AxisAttrs>().axis);
    return set(take(in(0), wrapped(in(1), in(0).dims[axis]), axis, result_dims()));
  }
  // Index tuples become positions in the flattened axes that they index.
  bool gather_nd() {
    const auto batch = static_cast<size_t>(attrs<BatchDimsAttrs>().batch_dims);
    const Hlo &x = in(0), &given = in(1);
    const size_t last = given.dims.size() - 1, depth = static_cast<size_t>(given.dims[last]);
    const Ints points(given.dims.begin(), given.dims.end() - 1);
    Hlo at = b_.constant_int(given.dtype, 0, points);
    for (size_t d = 0; d < batch + depth; ++d) {
      const Hlo part =
          d < batch
              ? b_.iota(given.dtype, points, d)
              : wrapped(b_.reshape(b_.slice(given, last, static_cast<int64_t>(d - batch), static_cast<int64_t>(d - batch + 1)),
                                   points),
                        x.dims[d]);
      at = bin("add", bin("multiply", at, b_.constant_int(given.dtype, x.dims[d], points)), part);
    }
    Ints flat(x.dims.begin() + static_cast<int64_t>(batch + depth), x.dims.end());
    flat.insert(flat.begin(), std::accumulate(x.dims.begin(), x.dims.begin() + static_cast<int64_t>(batch + depth), int64_t{1},
                                              std::multiplies<>()));
    return set(take(b_.reshape(x, flat), at, 0, result_dims()));
  }
  Hlo take(const Hlo& x, const Hlo& index, size_t axis, const Ints& dims) {
    Ints offset, slices = x.dims;
    for (size_t i = 0; i < x.dims.size(); ++i)
      if (i != axis) offset.push_back(static_cast<int64_t>(i < axis ? i : i - 1 + index.dims.size()));
    slices[axis] = 1;
    const std::string a = std::to_string(axis);
    return b_.op("gather", {x, index}, x.dtype, dims,
                 "dimension_numbers = #stablehlo.gather<offset_dims = " + HloBuilder::list(offset) +
                     ", collapsed_slice_dims = [" + a + "], start_index_map = [" + a +
                     "], index_vector_dim = " + std::to_string(index.dims.size()) +
                     ">, slice_sizes = " + HloBuilder::ints(slices) + ", indices_are_sorted = false");
  }
  bool trilu() {
    const auto& a = attrs<TriluAttrs>();
    if (has(1)) return why_ = "a diagonal that is given at run time", false;
    const Hlo& x = in(0);
    const size_t rank = x.dims.size();
    const Hlo reach = bin("subtract", b_.iota(DType::I64, x.dims, rank - 1), b_.iota(DType::I64, x.dims, rank - 2));
    const Hlo keep = b_.compare(a.upper ? "GE" : "LE", reach, b_.constant_int(DType::I64, a.diagonal, x.dims));
    return set(b_.op("select", {keep, x, b_.constant(x.dtype, 0, x.dims)}, x.dtype, x.dims));
  }
  bool range_op() {
    const DType t = wide(result_dtype());
    const Hlo at = b_.convert(b_.iota(DType::I64, result_dims(), 0), t);
    const auto whole = [&](size_t i) { return b_.broadcast(b_.convert(b_.reshape(in(i), {}), t), result_dims()); };
    return set(b_.convert(bin("add", whole(0), bin("multiply", at, whole(1))), result_dtype()));
  }
  bool one_hot() {
    const auto& a = attrs<OneHotAttrs>();
    const Ints dims = result_dims();
    Ints axes;
    for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i)
      if (i != a.axis) axes.push_back(i);
    const Hlo &given = in(0), depth = b_.constant_int(given.dtype, a.depth.size(), given.dims);
    const Hlo index =
        b_.op("select", {b_.compare("LT", given, b_.constant_int(given.dtype, 0, given.dims)), bin("add", given, depth), given},
              given.dtype, given.dims);
    const Hlo hot = b_.compare("EQ", b_.broadcast(index, dims, axes),
                               b_.convert(b_.iota(DType::I64, dims, static_cast<size_t>(a.axis)), given.dtype));
    const auto part = [&](int64_t i) { return b_.broadcast(b_.reshape(b_.slice(in(1), 0, i, i + 1), {}), dims); };
    return set(b_.op("select", {hot, part(1), part(0)}, result_dtype(), dims));
  }
  bool dim_value() {
    std::string s;
    for (int64_t n : sizes(attrs<DimsAttrs>().dims)) s += (s.empty() ? "" : ", ") + std::to_string(n);
    return set(b_.dense(DType::I64, result_dims(), attrs<DimsAttrs>().scalar ? s : "[" + s + "]"));
  }

  // Products.
  bool matmul() {
    const auto& a = attrs<MatMulAttrs>();
    const Ints y = result_dims();
    const auto batched = [&](const Hlo& v) {
      Ints dims(y.begin(), y.end() - 2);
      dims.insert(dims.end(), v.dims.end() - 2, v.dims.end());
      return b_.broadcast(v, dims);
    };
    const Hlo left = batched(in(0)), right = batched(in(1));
    const auto rank = static_cast<int64_t>(y.size());
    return set(b_.convert(b_.dot(left, right, range(0, rank - 2), range(0, rank - 2), {rank - (a.trans_a ? 2 : 1)},
                                 {rank - (a.trans_b ? 1 : 2)}, y),
                          result_dtype()));
  }
  bool dot_general() {
    const auto& a = attrs<DotGeneralAttrs>();
    return set(b_.dot(in(0), in(1), a.lhs_batch, a.rhs_batch, a.lhs_contracting, a.rhs_contracting, result_dims()));
  }
  std::string convolution(const ConvAttrs& a, size_t rank, const Ints& low, const Ints& high, const Ints& lhs_dilation,
                          const Ints& strides) {
    std::string spatial, reversal;
    for (size_t i = 0; i < rank; ++i) spatial += ", " + std::to_string(i), reversal += i ? ", false" : "false";
    return "dimension_numbers = #stablehlo.conv<[b, f" + spatial + "]x[o, i" + spatial + "]->[b, f" + spatial +
           "]>, feature_group_count = " + std::to_string(a.groups) +
           " : i64, batch_group_count = 1 : i64, window_strides = " + HloBuilder::ints(strides) +
           ", padding = " + HloBuilder::pairs(low, high) + ", lhs_dilation = " + HloBuilder::ints(lhs_dilation) +
           ", rhs_dilation = " + HloBuilder::ints(a.dilations) + ", window_reversal = array<i1: " + reversal + ">";
  }
  bool with_bias(const Hlo& y) {
    if (!has(2)) return set(b_.convert(y, result_dtype()));
    return set(b_.convert(bin("add", y, b_.broadcast(b_.convert(in(2), y.dtype), y.dims, {1})), result_dtype()));
  }
  bool conv() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    const DType t = wide(in(0).dtype);
    return with_bias(b_.op("convolution", {in(0), in(1)}, t, result_dims(),
                           convolution(a, rank, a.pads_begin, a.pads_end, Ints(rank, 1), a.strides)));
  }
  bool conv_transpose() {
    const auto& a = attrs<ConvAttrs>();
    const size_t rank = a.strides.size();
    Hlo w = in(1);  // [in, out / groups, ...] -> [out, in / groups, ...], turned
    const int64_t per = w.dims[0] / a.groups, out = w.dims[1];
    Ints split = {a.groups, per, out}, perm = {0, 2, 1}, merged = {a.groups * out, per}, spatial;
    for (size_t i = 0; i < rank; ++i)
      split.push_back(w.dims[2 + i]), merged.push_back(w.dims[2 + i]), perm.push_back(static_cast<int64_t>(3 + i)),
          spatial.push_back(static_cast<int64_t>(2 + i));
    w = b_.reshape(b_.transpose(b_.reshape(w, split), perm), merged);
    w = b_.op("reverse", {w}, w.dtype, w.dims, "dimensions = " + HloBuilder::ints(spatial));
    Ints low, high;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t reach = (in(1).dims[2 + i] - 1) * a.dilations[i],
                    extra = i < a.output_padding.size() ? a.output_padding[i] : 0;
      low.push_back(reach - a.pads_begin[i]), high.push_back(reach - a.pads_end[i] + extra);
    }
    return with_bias(b_.op("convolution", {in(0), w}, wide(in(0).dtype), result_dims(),
                           convolution(a, rank, low, high, a.strides, Ints(rank, 1))));
  }
  bool pool() {
    const auto& a = attrs<PoolAttrs>();
    const Ints y = result_dims();
    Ints window = {1, 1}, strides = {1, 1}, dilations = {1, 1}, low = {0, 0}, high = {0, 0};
    for (size_t i = 0; i < a.kernel.size(); ++i) {
      window.push_back(a.kernel[i]), strides.push_back(a.strides[i]), dilations.push_back(a.dilations[i]),
          low.push_back(a.pads_begin[i]);
      // Exactly the windows of the result: those of ceil_mode may reach beyond the padding.
      high.push_back((y[2 + i] - 1) * a.strides[i] + (a.kernel[i] - 1) * a.dilations[i] + 1 - in(0).dims[2 + i] -
                     a.pads_begin[i]);
    }
    const std::string attributes =
        "window_dimensions = " + HloBuilder::ints(window) + ", window_strides = " + HloBuilder::ints(strides) +
        ", base_dilations = " + HloBuilder::ints(Ints(window.size(), 1)) + ", window_dilations = " + HloBuilder::ints(dilations) +
        ", padding = " + HloBuilder::pairs(low, high);
    if (a.op == ReduceOp::Max) return set(b_.window("maximum", in(0), lowest(in(0).dtype), attributes, y));
    if (a.op != ReduceOp::Mean && a.op != ReduceOp::Sum) return why_ = "only max, mean and sum pooling", false;
    const Hlo x = b_.convert(in(0), wide(in(0).dtype)), zero = b_.constant(x.dtype, 0),
              total = b_.window("add", x, zero, attributes, y);
    if (a.op == ReduceOp::Sum) return set(b_.convert(total, result_dtype()));
    Hlo inside = b_.constant(x.dtype, 1, x.dims);
    if (a.count_include_pad) {  // padding counts, what lies beyond it does not
      Ints before = {0, 0}, after = {0, 0};
      before.insert(before.end(), a.pads_begin.begin(), a.pads_begin.end()),
          after.insert(after.end(), a.pads_end.begin(), a.pads_end.end());
      inside = b_.pad(inside, b_.constant(x.dtype, 1), before, after);
      Ints rest = high;
      for (size_t i = 2; i < rest.size(); ++i) rest[i] -= a.pads_end[i - 2];
      const size_t padding = attributes.find("padding = ");
      const Hlo count = b_.window("add", inside, zero,
                                  attributes.substr(0, padding) + "padding = " + HloBuilder::pairs(Ints(low.size(), 0), rest), y);
      return set(b_.convert(bin("divide", total, count), result_dtype()));
    }
    return set(b_.convert(bin("divide", total, b_.window("add", inside, zero, attributes, y)), result_dtype()));
  }

  // Reductions.
  bool reduce() {
    const auto& a = attrs<ReduceAttrs>();
    Hlo x = b_.convert(in(0), wide(in(0).dtype));
    int64_t count = 1;
    for (int64_t axis : a.axes) count *= x.dims[static_cast<size_t>(axis)];
    if (a.op == ReduceOp::Max)
      return set(b_.convert(b_.reduce("maximum", x, lowest(x.dtype), a.axes, a.keep_dim), result_dtype()));
    if (a.op == ReduceOp::Min)
      return set(b_.convert(b_.reduce("minimum", x, highest(x.dtype), a.axes, a.keep_dim), result_dtype()));
    if (a.op == ReduceOp::Prod)
      return set(b_.convert(b_.reduce("multiply", x, b_.constant(x.dtype, 1), a.axes, a.keep_dim), result_dtype()));
    if (a.op == ReduceOp::LogSumExp) {
      const Hlo top = b_.reduce("maximum", x, lowest(x.dtype), a.axes, true);
      const Hlo e = one("exponential", bin("subtract", x, top));
      return set(b_.convert(b_.reshape(bin("add", one("log", sum(e, a.axes)), top), result_dims()), result_dtype()));
    }
    if (a.op == ReduceOp::L1) x = one("abs", x);
    if (a.op == ReduceOp::L2 || a.op == ReduceOp::SumSquare) x = bin("multiply", x, x);
    Hlo y = sum(x, a.axes, a.keep_dim);
    if (a.op == ReduceOp::Mean) y = bin("divide", y, static_cast<double>(count));
    if (a.op == ReduceOp::L2) y = one("sqrt", y);
    if (a.op == ReduceOp::LogSum) y = one("log", y);
    return set(b_.convert(y, result_dtype()));
  }
  bool softmax() {
    const Ints axes = {attrs<AxisAttrs>().axis};
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const Hlo shifted = bin("subtract", x, b_.reduce("maximum", x, lowest(x.dtype), axes, true)), e = one("exponential", shifted),
              total = sum(e, axes);
    return set(b_.convert(g_.op(n_) == OpKind::Softmax ? bin("divide", e, total) : bin("subtract", shifted, one("log", total)),
                          result_dtype()));
  }
  Hlo normalised(const Hlo& x, const Ints& axes, double eps, bool centre) {
    int64_t count = 1;
    for (int64_t a : axes) count *= x.dims[static_cast<size_t>(a)];
    const auto mean = [&](const Hlo& v) { return bin("divide", sum(v, axes), static_cast<double>(count)); };
    const Hlo y = centre ? bin("subtract", x, mean(x)) : x;
    return bin("multiply", y, one("rsqrt", bin("add", mean(bin("multiply", y, y)), eps)));
  }
  bool norm() {
    const auto& a = attrs<NormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    Hlo y = normalised(x, range(a.axis, static_cast<int64_t>(x.dims.size())), a.eps, g_.op(n_) == OpKind::LayerNorm);
    if (has(1)) y = bin("multiply", y, b_.convert(in(1), y.dtype));
    if (has(2)) y = bin("add", y, b_.convert(in(2), y.dtype));
    return set(b_.convert(y, result_dtype()));
  }
  bool group_norm() {
    const auto& a = attrs<GroupNormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    Hlo y = b_.reshape(x, {x.dims[0], a.groups, volume(x) / std::max<int64_t>(x.dims[0] * a.groups, 1)});
    y = b_.reshape(normalised(y, {2}, a.eps, true), x.dims);
    if (has(1)) y = bin("multiply", y, b_.broadcast(b_.convert(in(1), y.dtype), x.dims, {1}));
    if (has(2)) y = bin("add", y, b_.broadcast(b_.convert(in(2), y.dtype), x.dims, {1}));
    return set(b_.convert(y, result_dtype()));
  }
  bool batch_norm() {
    const auto& a = attrs<NormAttrs>();
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const auto channel = [&](const Hlo& v) { return b_.broadcast(v, x.dims, {a.axis}); };
    const Hlo scale = bin("multiply", b_.convert(in(1), x.dtype), one("rsqrt", bin("add", b_.convert(in(4), x.dtype), a.eps)));
    const Hlo y = bin("multiply", bin("subtract", x, channel(b_.convert(in(3), x.dtype))), channel(scale));
    return set(b_.convert(bin("add", y, channel(b_.convert(in(2), x.dtype))), result_dtype()));
  }
  // Sums of the last 1, 2, 4, ... elements: log n shifted additions.
  bool cumsum() {
    const auto& a = attrs<CumAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const int64_t n = x.dims[axis];
    const auto shifted = [&](const Hlo& v, int64_t by) {
      Ints low(v.dims.size(), 0), high(v.dims.size(), 0);
      (a.reverse ? high : low)[axis] = by, (a.reverse ? low : high)[axis] = -by;
      return b_.pad(v, b_.constant(v.dtype, 0), low, high);
    };
    for (int64_t by = 1; by < n; by *= 2) x = bin("add", x, shifted(x, by));
    if (a.exclusive && n > 0) x = shifted(x, 1);
    return set(b_.convert(x, result_dtype()));
  }
  bool arg_reduce() {
    const auto& a = attrs<ArgAttrs>();
    const auto axis = static_cast<size_t>(a.axis);
    const Hlo& x = in(0);
    const Hlo best = b_.broadcast(
        b_.reduce(a.largest ? "maximum" : "minimum", x, a.largest ? lowest(x.dtype) : highest(x.dtype), {a.axis}, true), x.dims);
    const Hlo at = b_.iota(DType::I64, x.dims, axis),
              none = b_.constant_int(DType::I64, a.select_last ? -1 : x.dims[axis], x.dims);
    const Hlo candidates = b_.op("select", {b_.compare("EQ", x, best), at, none}, DType::I64, x.dims);
    return set(b_.reduce(a.select_last ? "maximum" : "minimum", candidates,
                         a.select_last ? lowest(DType::I64) : highest(DType::I64), {a.axis}, a.keep_dim));
  }
  bool rope() {
    const auto& a = attrs<RopeAttrs>();
    if (a.style != RopeStyle::NeoX) return why_ = "only rotated halves", false;
    Hlo x = b_.convert(in(0), wide(in(0).dtype));
    if (a.layout == AttentionLayout::Packed) x = b_.reshape(x, {x.dims[0], x.dims[1], x.dims[2] / a.head_dim, a.head_dim});
    const bool heads_first = a.layout == AttentionLayout::BHSD;
    if (!heads_first && (in(1).dims.size() > 3 || in(2).dims.size() > 3)) return why_ = "tables of rank 4 in this layout", false;
    const size_t last = x.dims.size() - 1;
    const int64_t n = a.n_rot ? a.n_rot : x.dims[last], half = n / 2;
    const auto table = [&](size_t i) {
      Hlo t = b_.convert(in(i), x.dtype);
      t = b_.slice(t, t.dims.size() - 1, 0, half);
      Ints dims = x.dims;
      dims[last] = half;
      const int64_t s = heads_first ? 2 : 1;
      if (t.dims.size() == 3 && x.dims.size() == 4) return b_.broadcast(t, dims, {0, s, 3});
      if (t.dims.size() == 2 && x.dims.size() == 4) return b_.broadcast(t, dims, {s, 3});
      return b_.broadcast(t, dims);
    };
    const Hlo c = table(1), s = table(2), low = b_.slice(x, last, 0, half), high = b_.slice(x, last, half, n);
    std::vector<Hlo> parts = {bin("subtract", bin("multiply", low, c), bin("multiply", high, s)),
                              bin("add", bin("multiply", high, c), bin("multiply", low, s))};
    if (n < x.dims[last]) parts.push_back(b_.slice(x, last, n, x.dims[last]));
    const Hlo y = b_.op("concatenate", parts, x.dtype, x.dims, "dimension = " + std::to_string(last) + " : i64");
    return set(b_.convert(b_.reshape(y, result_dims()), result_dtype()));
  }

  const codegen::Package& p_;
  const Module& m_;
  const Graph& g_;
  Diagnostics& d_;
  HloBuilder b_;
  std::vector<Hlo> value_;
  NodeId n_;
  std::string why_;
  size_t number_ = 0;
};

}  // namespace

std::optional<std::vector<TextFile>> write_tpu_package(const codegen::Package& p, const CpuPackageOptions& options,
                                                       Diagnostics& d) {
  std::string module = Translator(p, d).run();
  if (!d.ok()) return std::nullopt;
  std::vector<TextFile> files = {{"model.mlir", std::move(module)}, {"model.json", model_json(p, "tpu", options)}};
  files.push_back({"README.md", "# " + p.name +
                                    "\n\nA model compiled by rlxc for XLA.\n\n| file | content |\n|---|---|\n| `model.mlir` | "
                                    "StableHLO, in the generic form of MLIR |\n"
                                    "| `model.json` | inputs, outputs and weights, in the order of the parameters of @main "
                                    "(inputs first), and where the weights are |\n"});
  return files;
}

}  // namespace rlxc
