// Layout ops: reshapes, slices, padding, masks, rotary embedding; and ops on sizes alone.
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Movement : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

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
    const Hlo turned = reversed(in(0), {a.axis});
    const int64_t start = n - 1 - a.start.size();
    return set(b_.slice(turned, axis, start, length ? start + (length - 1) * -step + 1 : start, -step));
  }
  bool concat() {
    std::vector<Hlo> all;
    for (size_t i = 0; i < operand_count(); ++i) all.push_back(in(i));
    return set(concatenated(all, attrs<AxisAttrs>().axis));
  }
  bool expand() { return set(b_.broadcast(in(0), result_dims())); }
  bool reverse() { return set(reversed(in(0), attrs<AxesAttrs>().axes)); }
  bool tile() {
    Ints wide_dims, axes;
    const Ints repeats = sizes(attrs<DimsAttrs>().dims);
    for (size_t i = 0; i < repeats.size(); ++i) {
      wide_dims.push_back(repeats[i]);
      wide_dims.push_back(in(0).dims[i]);
      axes.push_back(static_cast<int64_t>(2 * i + 1));
    }
    return set(b_.reshape(b_.broadcast(in(0), wide_dims, axes), result_dims()));
  }
  // Reflecting and repeating modes gather at constant indices.
  bool pad() {
    const auto& a = attrs<PadAttrs>();
    Ints low, high;
    for (const auto& [list, out] : {std::pair{&a.before, &low}, std::pair{&a.after, &high}})
      for (Dim d : *list) {
        const auto v = m_.dims.constant_value(d);
        if (!v) return fail("padding of a size that is not known");
        out->push_back(*v);
      }
    if (a.mode == PadMode::Constant)
      return set(b_.pad(in(0), has(1) ? b_.reshape(in(1), {}) : b_.constant(in(0).dtype, 0), low, high));
    Hlo x = in(0);
    for (size_t axis = 0; axis < x.dims.size(); ++axis) {
      const int64_t n = x.dims[axis];
      if (low[axis] == 0 && high[axis] == 0) continue;
      Ints from;
      for (int64_t i = -low[axis]; i < n + high[axis]; ++i) from.push_back(source(a.mode, i, n));
      x = taken(x, b_.dense_ints(from), axis);
    }
    return set(x);
  }
  // Returns the source index of padded position i on an axis of n elements.
  static int64_t source(PadMode mode, int64_t i, int64_t n) {
    if (mode == PadMode::Edge || n <= 1) return std::clamp<int64_t>(i, 0, std::max<int64_t>(n - 1, 0));
    const int64_t period = mode == PadMode::Wrap ? n : 2 * (n - 1), at = (i % period + period) % period;
    return at < n ? at : period - at;
  }
  bool trilu() {
    const auto& a = attrs<TriluAttrs>();
    const Hlo& x = in(0);
    const size_t rank = x.dims.size();
    const Hlo reach = bin("subtract", b_.iota(DType::I64, x.dims, rank - 1), b_.iota(DType::I64, x.dims, rank - 2));
    const Hlo diagonal = has(1) ? b_.broadcast(b_.convert(b_.reshape(in(1), {}), DType::I64), x.dims)
                                : b_.constant_int(DType::I64, a.diagonal, x.dims);
    const Hlo keep = b_.compare(a.upper ? "GE" : "LE", reach, diagonal);
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
    const Hlo index = wrapped(in(0), a.depth.size());
    const Hlo hot = b_.compare("EQ", b_.broadcast(index, dims, axes),
                               b_.convert(b_.iota(DType::I64, dims, static_cast<size_t>(a.axis)), index.dtype));
    const auto part = [&](int64_t i) { return b_.broadcast(b_.reshape(b_.slice(in(1), 0, i, i + 1), {}), dims); };
    return set(b_.op("select", {hot, part(1), part(0)}, result_dtype(), dims));
  }
  bool dim_value() {
    Ints values;
    for (Dim d : attrs<DimsAttrs>().dims) {
      const auto v = m_.dims.constant_value(d);
      if (!v) return fail("sizes must be known: " + m_.dims.text(d));
      values.push_back(*v);
    }
    return set(b_.reshape(b_.dense_ints(values), result_dims()));
  }
};

}  // namespace

std::span<const Translation> movement_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::Reshape, call<Movement, &Movement::reshape>},
      {OpKind::Transpose, call<Movement, &Movement::transpose>},
      {OpKind::Narrow, call<Movement, &Movement::narrow>},
      {OpKind::Slice, call<Movement, &Movement::slice>},
      {OpKind::Concat, call<Movement, &Movement::concat>},
      {OpKind::Expand, call<Movement, &Movement::expand>},
      {OpKind::Reverse, call<Movement, &Movement::reverse>},
      {OpKind::Tile, call<Movement, &Movement::tile>},
      {OpKind::Pad, call<Movement, &Movement::pad>},
      {OpKind::Trilu, call<Movement, &Movement::trilu>},
      {OpKind::Range, call<Movement, &Movement::range_op>},
      {OpKind::OneHot, call<Movement, &Movement::one_hot>},
      {OpKind::DimValue, call<Movement, &Movement::dim_value>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
