// Operators that move or select elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/onnx/dynamic.h"
#include "import/onnx/handlers.h"
#include "support/text.h"

namespace rlxc::onnx_import {

void transpose(Op& op) {
  std::vector<int64_t> perm = op.ints("perm");
  if (!op.has_attr("perm"))
    for (int i = op.rank(0); i-- > 0;) perm.push_back(i);
  if (perm.size() != static_cast<size_t>(op.rank(0)))
    return (void)op.fail(Code::BadAttribute, "perm has " + std::to_string(perm.size()) + " entries for " + op.show(0));
  if (std::ranges::is_sorted(perm) && std::ranges::adjacent_find(perm) == perm.end() &&
      (perm.empty() || (perm[0] == 0 && perm.back() == op.rank(0) - 1)))
    return op.set_ref(0, op.ref(0));
  op.set(0, op.b.create(OpKind::Transpose, {op.in(0)}, PermAttrs{std::move(perm)}));
}

void concat(Op& op) {
  if (op.opset >= 4 && !op.has_attr("axis")) return (void)op.fail(Code::BadAttribute, "axis is missing");
  const auto axis = op.axis(op.i("axis", 1), op.rank(0));
  if (!axis) return;
  if (op.inputs() == 1) return op.set_ref(0, op.ref(0));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < op.inputs(); ++i) {
    if (!op.has(i)) return (void)op.fail(Code::BadArity, "input " + std::to_string(i) + " is absent");
    parts.push_back(op.in(i));
  }
  op.set(0, op.b.concat(parts, *axis));
}

void split(Op& op) {
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (!axis) return;
  const Dim whole = op.sizes(0)[static_cast<size_t>(*axis)];
  std::vector<Dim> parts;
  if (op.has(1)) {
    auto d = op.find_dims(1);
    if (!d) return split_by_data(op, *axis);
    parts = std::move(*d);
  } else if (op.has_attr("split")) {
    for (int64_t v : op.ints("split")) parts.push_back(op.dims().constant(v));
  } else {
    const int64_t n =
        op.opset >= 18 ? op.i("num_outputs", static_cast<int64_t>(op.outputs())) : static_cast<int64_t>(op.outputs());
    if (n < 1 || n > 1 << 20) return (void)op.fail(Code::BadAttribute, "num_outputs must be positive");
    if (n != static_cast<int64_t>(op.outputs()))
      return (void)op.fail(Code::BadArity, "num_outputs differs from the number of outputs");
    const Dim chunk = op.dims().ceil_div(whole, Dim(n));
    Dim rest = whole;
    for (int64_t i = 0; i + 1 < n; ++i) {
      const auto left = op.dims().constant_value(rest), size = op.dims().constant_value(chunk);
      parts.push_back(left && size ? Dim(std::min(*left, *size)) : chunk);
      rest = op.dims().sub(rest, parts.back());
    }
    parts.push_back(rest);
  }
  if (parts.size() != op.outputs())
    return (void)op.fail(Code::BadArity,
                         "it has " + std::to_string(parts.size()) + " parts and " + std::to_string(op.outputs()) + " outputs");
  Dim sum(0);
  for (Dim p : parts) {
    if (const auto v = op.dims().constant_value(p); v && *v < 0)
      return (void)op.fail(Code::BadShape, "part of negative size " + std::to_string(*v));
    sum = op.dims().add(sum, p);
  }
  if (!op.dims().equal(sum, whole) && !op.dims().assume_equal(sum, whole))
    return (void)op.fail(Code::BadShape, "the parts sum to " + op.dims().text(sum) + ", the axis has " + op.dims().text(whole));
  const ValueId x = op.in(0);
  Dim start(0);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (op.wants(i)) {
      if (parts[i] == whole) op.set_ref(i, op.ref(0));
      else op.set(i, op.b.narrow(x, *axis, start, parts[i]));
    }
    start = op.dims().add(start, parts[i]);
  }
}

namespace {

// Normalizes a start or end of a slice: adds the size to negative values, then clamps to the axis.
std::optional<Dim> position(Op& op, Dim v, Dim size, bool backward, bool is_end) {
  DimTable& t = op.dims();
  const auto n = t.constant_value(v);
  const auto s = t.constant_value(size);
  if (n && s) {
    int64_t p = *n < 0 ? *n + *s : *n;
    p = backward ? std::clamp<int64_t>(p, -1, *s - 1) : std::clamp<int64_t>(p, 0, *s);
    if (is_end && backward && *n < 0 && *n + *s < 0) p = -1;
    return t.constant(p);
  }
  if (backward) {
    if (n && *n == -1 && !is_end) return t.sub(size, Dim(1));
    if (n && is_end && *n <= -Dim::kMax / 2) return t.constant(-1);
    if (!n) return std::nullopt;
    return *n < 0 ? t.max(t.add(size, v), t.constant(-1)) : t.min(v, t.sub(size, Dim(1)));
  }
  if (n && *n >= Dim::kMax / 2) return size;
  if (n && *n <= -Dim::kMax / 2) return Dim(0);
  if (n && *n == 0) return Dim(0);
  if (n && *n < 0) return t.max(t.add(size, v), Dim(0));
  if (t.equal(v, size)) return size;
  if (t.at_least(v, 0)) return t.min(v, size);
  if (t.at_least(t.sub(Dim(0), v), 1)) return t.max(t.add(size, v), Dim(0));  // a negative expression counts from the end
  return t.min(v, size);  // shape arithmetic of unknown sign is taken as a size
}

}  // namespace

namespace {

// Returns the common length of these inputs, some of which may be unknown.
std::optional<int64_t> list_length(Op& op, std::initializer_list<size_t> inputs) {
  for (size_t i : inputs)
    if (op.has(i) && op.rank(i) == 1)
      if (const auto n = op.dims().constant_value(op.sizes(i)[0]); n && *n <= 64) return n;
  return op.length(*inputs.begin());
}

}  // namespace

void slice(Op& op) {
  std::optional<std::vector<Dim>> starts, ends;
  std::vector<int64_t> axes, steps;
  bool by_data = false;  // starts and ends are known at run time only
  const int rank = op.rank(0);
  if (op.opset >= 10 || op.row.name == "DynamicSlice") {
    if (op.is_of_run(3)) return slice_along_data(op);
    starts = op.find_dims(1);
    ends = op.find_dims(2);
    by_data = !starts || !ends;
    const auto count = list_length(op, {1, 2, 3, 4});
    if (!count) return;
    if (!starts) starts.emplace(static_cast<size_t>(*count), Dim(0));
    if (!ends) ends.emplace(static_cast<size_t>(*count), Dim(0));
    if (op.has(3)) {
      const auto a = op.need_ints(3, "axes");
      if (!a) return;
      axes = *a;
    }
    if (op.has(4)) {
      const auto s = op.need_ints(4, "steps");
      if (!s) return;
      steps = *s;
    }
  } else {
    starts.emplace();
    ends.emplace();
    for (int64_t v : op.ints("starts")) starts->push_back(op.dims().constant(v));
    for (int64_t v : op.ints("ends")) ends->push_back(op.dims().constant(v));
    axes = op.ints("axes");
  }
  if (axes.empty()) {
    axes.resize(starts->size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts->size(), 1);
  if (ends->size() != starts->size() || axes.size() != starts->size() || steps.size() != starts->size())
    return (void)op.fail(Code::BadAttribute, "starts, ends, axes and steps have different lengths");
  const auto normal = op.axes(axes, rank);
  if (!normal) return;
  ValueId x;
  DimTable& t = op.dims();
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t axis = (*normal)[i], step = steps[i];
    if (step == 0) return (void)op.fail(Code::BadAttribute, "steps[" + std::to_string(i) + "] is 0");
    if (step < -Dim::kMax || step > Dim::kMax)
      return (void)op.fail(Code::BadAttribute, "steps[" + std::to_string(i) + "] is out of range");
    if (by_data) {
      x = slice_by_data(op, x.valid() ? x : op.in(0), axis, op.in(1), op.in(2), static_cast<int64_t>(i), step);
      continue;
    }
    const Dim size = op.sizes(0)[static_cast<size_t>(axis)];
    const auto start = position(op, (*starts)[i], size, step < 0, false), end = position(op, (*ends)[i], size, step < 0, true);
    if (!start || !end) return (void)op.unsupported("a backward slice of a symbolic axis needs a known range");
    Dim span = step > 0 ? t.sub(*end, *start) : t.sub(*start, *end);
    if (const auto v = t.constant_value(span)) span = Dim(std::max<int64_t>(*v, 0));
    else if (!t.at_least(span, 0) && !(*start == Dim(0)) && !t.equal(*end, size)) span = t.max(span, Dim(0));
    const Dim len = t.ceil_div(span, Dim(step > 0 ? step : -step));
    if (step == 1 && *start == Dim(0) && t.equal(len, size)) continue;
    if (!x.valid()) x = op.in(0);
    const bool empty = len == Dim(0);
    if (step == 1 || empty) x = op.b.narrow(x, axis, empty ? Dim(0) : *start, len);
    else x = op.b.create(OpKind::Slice, {x}, SliceAttrs{axis, *start, len, step});
    if (!x.valid()) return;
  }
  if (x.valid()) op.set(0, x);
  else op.set_ref(0, op.ref(0));
}

void gather(Op& op) {
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (axis) op.set(0, op.b.create(OpKind::Gather, {op.in(0), op.in(1)}, AxisAttrs{*axis}));
}

void gather_elements(Op& op) {
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  if (axis) op.set(0, op.b.create(OpKind::GatherElements, {op.in(0), op.in(1)}, AxisAttrs{*axis}));
}

void gather_nd(Op& op) { op.set(0, op.b.create(OpKind::GatherNd, {op.in(0), op.in(1)}, BatchDimsAttrs{op.i("batch_dims", 0)})); }

namespace {

std::optional<Reduction> reduction(Op& op) {
  const std::string_view name = op.s("reduction", "none");
  const auto names = enum_names(Reduction{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Reduction>(i);
  op.fail(Code::BadAttribute, "reduction is " + quote(name) + ", must be none, add, mul, max or min");
  return std::nullopt;
}

}  // namespace

void scatter_elements(Op& op) {
  const auto axis = op.axis(op.i("axis", 0), op.rank(0));
  const auto how = reduction(op);
  if (axis && how) op.set(0, op.b.create(OpKind::ScatterElements, {op.in(0), op.in(1), op.in(2)}, ScatterAttrs{*axis, *how}));
}

void scatter_nd(Op& op) {
  if (const auto how = reduction(op))
    op.set(0, op.b.create(OpKind::ScatterNd, {op.in(0), op.in(1), op.in(2)}, ScatterAttrs{0, *how}));
}

void pad(Op& op) {
  const std::string_view mode_name = op.s("mode", "constant");
  PadAttrs a;
  if (mode_name == "constant") a.mode = PadMode::Constant;
  else if (mode_name == "reflect") a.mode = PadMode::Reflect;
  else if (mode_name == "edge") a.mode = PadMode::Edge;
  else if (mode_name == "wrap") a.mode = PadMode::Wrap;
  else return (void)op.fail(Code::BadAttribute, "mode " + quote(mode_name) + " is unknown");
  const auto rank = static_cast<size_t>(op.rank(0));
  std::vector<Dim> pads;
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  ValueId fill;
  if (op.opset >= 11 || op.row.alpha != 0) {  // row alpha: the form of com.microsoft
    if (op.has(3)) {
      const auto list = op.need_ints(3, "axes");
      const auto normal = list ? op.axes(*list, op.rank(0)) : std::nullopt;
      if (!normal) return;
      axes = *normal;
    }
    if (op.has(2) && a.mode == PadMode::Constant) {
      const auto v = op.known_reals(2);
      if (!v || v->size() != 1 || (*v)[0] != 0) fill = op.b.reshape(op.in(2), {});
    }
    auto d = op.find_dims(1);
    if (!d) {
      const ValueId list = op.rank(1) == 2 ? op.b.reshape(op.in(1), {op.dims().product(op.sizes(1))}) : op.in(1);
      if (!list.valid() || !op.dims().need_equal(op.graph().dims(list)[0], Dim(2 * std::ssize(axes))))
        return (void)op.fail(Code::BadShape, "pads must be a vector of two numbers for each axis: " + op.show(1));
      if (!fill.valid()) fill = op.b.scalar(op.dtype(0), 0);
      return op.set(0, pad_by_data(op, op.in(0), list, axes, a.mode, fill));
    }
    pads = std::move(*d);
  } else {
    for (int64_t v : op.ints(op.has_attr("paddings") ? "paddings" : "pads")) pads.push_back(op.dims().constant(v));
    if (const double v = op.f("value", 0); v != 0 && a.mode == PadMode::Constant) fill = op.b.scalar(op.dtype(0), v);
  }
  if (pads.size() != 2 * axes.size())
    return (void)op.fail(Code::BadAttribute,
                         "pads has " + std::to_string(pads.size()) + " entries for " + std::to_string(axes.size()) + " axes");
  a.before.assign(rank, Dim(0));
  a.after.assign(rank, Dim(0));
  bool none = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    a.before[static_cast<size_t>(axes[i])] = pads[i];
    a.after[static_cast<size_t>(axes[i])] = pads[i + axes.size()];
    none &= pads[i] == Dim(0) && pads[i + axes.size()] == Dim(0);
  }
  if (none) return op.set_ref(0, op.ref(0));
  std::vector<ValueId> operands{op.in(0)};
  if (fill.valid()) operands.push_back(fill);
  op.set(0, op.b.create(OpKind::Pad, operands, std::move(a)));
}

void depth_to_space(Op& op) {
  const int64_t n = op.i("blocksize", 0);
  if (op.rank(0) != 4) return (void)op.fail(Code::BadShape, "needs [N,C,H,W], has " + op.show(0));
  if (n < 1 || n > 1 << 16) return (void)op.fail(Code::BadAttribute, "blocksize is " + std::to_string(n) + ", must be >= 1");
  const std::vector<Dim> d = op.sizes(0);
  const Dim block(n), c = op.dims().floor_div(d[1], Dim(n * n));
  const std::string_view mode = op.s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return (void)op.fail(Code::BadAttribute, "mode is " + quote(mode) + ", must be DCR or CRD");
  const bool dcr = mode == "DCR";
  ValueId v = op.b.reshape(
      op.in(0), dcr ? std::vector<Dim>{d[0], block, block, c, d[2], d[3]} : std::vector<Dim>{d[0], c, block, block, d[2], d[3]});
  v = op.b.transpose(v, dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  op.set(0, op.b.reshape(v, {d[0], c, op.dims().mul(d[2], block), op.dims().mul(d[3], block)}));
}

void space_to_depth(Op& op) {
  const int64_t n = op.i("blocksize", 0);
  if (op.rank(0) != 4) return (void)op.fail(Code::BadShape, "needs [N,C,H,W], has " + op.show(0));
  if (n < 1 || n > 1 << 16) return (void)op.fail(Code::BadAttribute, "blocksize is " + std::to_string(n) + ", must be >= 1");
  const std::vector<Dim> d = op.sizes(0);
  const Dim block(n), h = op.dims().floor_div(d[2], block), w = op.dims().floor_div(d[3], block);
  const std::string_view mode = op.s("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") return (void)op.fail(Code::BadAttribute, "mode is " + quote(mode) + ", must be DCR or CRD");
  ValueId v = op.b.reshape(op.in(0), {d[0], d[1], h, block, w, block});
  v = op.b.transpose(v, mode == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4} : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  op.set(0, op.b.reshape(v, {d[0], op.dims().mul(d[1], Dim(n * n)), h, w}));
}

void trilu(Op& op) {
  TriluAttrs a;
  a.upper = op.i("upper", 1) != 0;
  if (op.rank(0) < 2) return (void)op.fail(Code::BadShape, "needs two axes, has " + op.show(0));
  if (op.has(1)) {
    if (const auto k = op.known_ints(1); k && k->size() == 1) a.diagonal = (*k)[0];
    else return op.set(0, op.b.create(OpKind::Trilu, {op.in(0), op.in(1)}, a));
  }
  op.set(0, op.b.create(OpKind::Trilu, {op.in(0)}, a));
}

void one_hot(Op& op) {
  const auto axis = op.axis(op.i("axis", -1), op.rank(0) + 1);
  if (!axis) return;
  const ValueId index = op.b.cast(op.in(0), DType::I64);
  const auto depth = op.find_dims(1);
  if (!depth) {
    const ValueId places = iota(op, op.in(1)), size = op.b.reshape(op.b.cast(op.in(1), DType::I64), {});
    if (!places.valid()) return;
    std::vector<Dim> one = op.sizes(0), along(one.size() + 1, Dim(1));
    one.insert(one.begin() + *axis, Dim(1));
    along[static_cast<size_t>(*axis)] = op.graph().dims(places)[0];
    const ValueId wrapped =
        op.b.create(OpKind::Where, {op.b.create(OpKind::Lt, {index, op.b.scalar(DType::I64, 0)}), op.b.add(index, size), index});
    const ValueId hot = op.b.create(OpKind::Eq, {op.b.reshape(wrapped, one), op.b.reshape(places, along)});
    const auto value = [&](int64_t i) { return op.b.reshape(op.b.narrow(op.in(2), 0, Dim(i), Dim(1)), {}); };
    return op.set(0, op.b.create(OpKind::Where, {hot, value(1), value(0)}));
  }
  if (depth->size() != 1) return (void)op.fail(Code::BadShape, "the depth must be one number: " + op.show(1));
  op.set(0, op.b.create(OpKind::OneHot, {index, op.in(2)}, OneHotAttrs{*axis, (*depth)[0]}));
}

// Reverses each batch entry up to its length, by gathers with computed indices.
void reverse_sequence(Op& op) {
  const int rank = op.rank(0);
  const auto batch = op.axis(op.i("batch_axis", 1), rank), time = op.axis(op.i("time_axis", 0), rank);
  if (!batch || !time) return;
  if (*batch == *time || *batch > 1 || *time > 1)
    return (void)op.fail(Code::BadAttribute, "batch_axis and time_axis must be 0 and 1");
  const std::vector<Dim> d = op.sizes(0);
  const Dim steps = d[static_cast<size_t>(*time)], entries = d[static_cast<size_t>(*batch)];
  std::vector<Dim> along_time(d.size(), Dim(1)), along_batch(d.size(), Dim(1));
  along_time[static_cast<size_t>(*time)] = steps;
  along_batch[static_cast<size_t>(*batch)] = entries;
  const ValueId t = op.b.reshape(
      op.b.create(OpKind::Range, {op.b.scalar(DType::I64, 0), op.b.scalar(DType::I64, 1)}, DimsAttrs{{steps}, false}),
      along_time);
  const ValueId n = op.b.reshape(op.b.cast(op.in(1), DType::I64), along_batch);
  const ValueId mirrored = op.b.sub(op.b.sub(n, op.b.scalar(DType::I64, 1)), t);
  const ValueId index = op.b.create(OpKind::Where, {op.b.create(OpKind::Lt, {t, n}), mirrored, t});
  op.set(0, op.b.create(OpKind::GatherElements, {op.in(0), op.b.expand(index, d)}, AxisAttrs{*time}));
}

// Crops x [N,C,H,W] by `border` (left, top, right, bottom), to the size `scale` (height, width) if given. In early opsets.
void crop(Op& op) {
  const auto border = op.ints("border"), size = op.ints("scale");
  if (op.rank(0) != 4) return (void)op.fail(Code::BadShape, "needs [N,C,H,W]: " + op.show(0));
  if (border.size() != 4 || (op.has_attr("scale") && size.size() != 2) || std::ranges::min(border) < 0)
    return (void)op.fail(Code::BadAttribute, "border needs four sizes, scale two");
  ValueId x = op.in(0);
  for (size_t i = 0; i < 2; ++i) {  // H, W
    const Dim have = op.sizes(0)[2 + i], start(border[1 - i]);
    const Dim length = size.empty() ? op.dims().sub(have, Dim(border[1 - i] + border[3 - i])) : Dim(size[i]);
    x = op.b.narrow(x, static_cast<int64_t>(2 + i), start, length);
  }
  op.set(0, x);
}

void center_crop_pad(Op& op) {
  const auto target = op.need_dims(1, "shape");
  if (!target) return;
  std::vector<int64_t> axes = op.ints("axes");
  if (!op.has_attr("axes")) {
    axes.resize(static_cast<size_t>(op.rank(0)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const auto normal = op.axes(axes, op.rank(0));
  if (!normal) return;
  if (normal->size() != target->size()) return (void)op.fail(Code::BadShape, "shape and axes have different lengths");
  ValueId x = op.in(0);
  PadAttrs p;
  p.before.assign(op.sizes(0).size(), Dim(0));
  p.after = p.before;
  bool pads = false;
  for (size_t i = 0; i < target->size(); ++i) {
    const auto axis = static_cast<size_t>((*normal)[i]);
    const auto have = op.dims().constant_value(op.sizes(0)[axis]), want = op.dims().constant_value((*target)[i]);
    if (!have || !want) return (void)op.unsupported("needs known sizes");
    if (*want < *have) x = op.b.narrow(x, (*normal)[i], Dim((*have - *want) / 2), Dim(*want));
    if (*want > *have) {
      p.before[axis] = Dim((*want - *have) / 2);
      p.after[axis] = Dim(*want - *have - (*want - *have) / 2);
      pads = true;
    }
  }
  if (pads) x = op.b.create(OpKind::Pad, {x}, std::move(p));
  op.set(0, x);
}

}  // namespace rlxc::onnx_import
