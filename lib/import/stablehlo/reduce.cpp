// Reductions of whole axes and of windows. A region of one known operation becomes an op of the IR. Any other region is applied
// to halves: neighbours are combined until one element is left, which needs log n steps.
#include <algorithm>
#include <cmath>

#include "import/stablehlo/importer.h"

namespace rlxc::stablehlo_import {
namespace {

constexpr size_t kMostReduced = 16;              // operands
constexpr int64_t kMostSize = int64_t{1} << 40;  // of an axis that windows slide along

ReduceOp reduce_op(Combine c) {
  switch (c) {
    case Combine::Mul: return ReduceOp::Prod;
    case Combine::Max:
    case Combine::Or: return ReduceOp::Max;
    case Combine::Min:
    case Combine::And: return ReduceOp::Min;
    default: return ReduceOp::Sum;
  }
}
OpKind op_kind(Combine c) {
  switch (c) {
    case Combine::Mul: return OpKind::Mul;
    case Combine::Max: return OpKind::Max;
    case Combine::Min: return OpKind::Min;
    case Combine::And: return OpKind::And;
    case Combine::Or: return OpKind::Or;
    default: return OpKind::Add;
  }
}

// Booleans are added and multiplied as logic.
Combine of_type(Combine c, DType t) {
  if (t != DType::Bool) return is_integer(t) && (c == Combine::And || c == Combine::Or) ? Combine::Other : c;
  if (c == Combine::Add || c == Combine::Max) return Combine::Or;
  return c == Combine::Mul || c == Combine::Min ? Combine::And : c;
}

bool starts_neutral(Op& op, Combine c, const Value& start) {
  const auto v = op.splat(start), neutral = identity_of(c, start.dtype);
  return v && neutral && *v == *neutral;
}

// Applies the region to pairs of tensors.
std::vector<Value> combined(Op& op, const std::vector<Value>& a, const std::vector<Value>& b) {
  std::vector<Value> both = a;
  both.insert(both.end(), b.begin(), b.end());
  std::vector<Value> out = op.im.region(op.text.regions[0], std::move(both), true);
  if (out.size() != a.size()) return {};
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].valid()) return {};
    if (out[i].dims.empty()) out[i].dims = a[i].dims;  // a constant
  }
  return out;
}

Value every_second(Op& op, const Value& v, size_t axis, int64_t from, int64_t count) {
  return op.made(op.b().create(OpKind::Slice, {op.whole(v)}, SliceAttrs{static_cast<int64_t>(axis), Dim(from), Dim(count), 2}));
}

// Combines all elements of an axis, which then has one.
std::vector<Value> halved(Op& op, std::vector<Value> x, size_t axis) {
  while (!x.empty() && std::ranges::all_of(x, &Value::valid) && x[0].dims[axis] != Dim(1)) {
    const int64_t n = x[0].dims[axis].size(), half = n / 2;
    std::vector<Value> left, right, rest;
    for (const Value& v : x) {
      left.push_back(every_second(op, v, axis, 0, half));
      right.push_back(every_second(op, v, axis, 1, half));
      if (n % 2) rest.push_back(op.narrow(v, static_cast<int64_t>(axis), Dim(n - 1), Dim(1)));
    }
    x = combined(op, left, right);
    for (size_t i = 0; i < x.size() && n % 2; ++i) x[i] = op.concat({x[i], rest[i]}, static_cast<int64_t>(axis));
  }
  return x;
}

std::string signature(const Region& r) {
  std::map<std::string_view, std::string> names;
  for (size_t i = 0; i < r.arguments.size(); ++i) names[r.arguments[i].name] = std::to_string(i);
  std::string out;
  for (const Operation& o : r.operations) {
    std::string_view name = o.name;
    name.remove_prefix(std::min(name.size(), name.find('.') + 1));
    std::string line(name);
    if (!o.direction().empty()) line += " " + std::string(o.direction());
    for (const Operand& x : o.operands) line += " " + (names.contains(x.name) ? names[x.name] : "?");
    if (!o.results.empty()) names[o.results[0].name] = "(" + line + ")";
    if (name == "return") out = line;
  }
  return out;
}

// The largest or smallest element and its place, as JAX writes them. A NaN is the result; of equal elements, the first.
bool arg_reduce(Op& op, const Ints& axes) {
  if (op.inputs() != 4 || axes.size() != 1 || op.in(1).iota != axes[0] || !is_integer(op.in(1).dtype)) return false;
  const std::string text = signature(op.text.regions[0]);
  const auto form = [](const std::string& direction) {
    const std::string take = "(or (compare " + direction + " 0 2) (compare NE 0 0))";
    return "return (select " + take + " 0 2) (select (or " + take + " (and (compare EQ 0 2) (compare LT 1 3))) 1 3)";
  };
  const bool largest = text == form("GT");
  if (!largest && text != form("LT")) return false;
  const Value& x = op.in(0);
  if (x.dims[static_cast<size_t>(axes[0])] == Dim(0) || x.dtype == DType::Bool) return false;
  if (!starts_neutral(op, largest ? Combine::Max : Combine::Min, op.in(2)) || op.constant(op.in(3)) != 0) return false;
  const ValueId whole = op.whole(x);
  const auto place = [&](ValueId v) {
    return op.made(op.b().create(OpKind::ArgReduce, {v}, ArgAttrs{axes[0], largest, false, false}));
  };
  const Value best = op.made(op.b().reduce(largest ? ReduceOp::Max : ReduceOp::Min, whole, axes, false));
  Value at = place(whole);
  if (is_float(x.dtype) && op.text.results.size() == 1) {
    const Value odd = op.cast(op.elementwise(OpKind::IsNan, {op.made(whole)}), DType::I32);
    const Value first = op.made(op.b().create(OpKind::ArgReduce, {op.whole(odd)}, ArgAttrs{axes[0], true, false, false}));
    const Value any = op.elementwise(OpKind::IsNan, {best});
    at = op.select(any, first, at);
  }
  op.set(0, best);
  op.set(1, op.cast(at, op.in(1).dtype));
  return true;
}

void reduce(Op& op) {
  const size_t n = op.inputs() / 2;
  auto axes = op.ints("dimensions");
  if (op.inputs() % 2 || n == 0 || n > kMostReduced || op.text.regions.size() != 1 || op.outputs() != n)
    return (void)op.fail(Code::BadArity, "it takes as many starts as values, and one region");
  if (!axes) return (void)op.fail(Code::BadAttribute, "it needs dimensions");
  const Dims& own = op.in(0).dims;
  std::ranges::sort(*axes);
  for (size_t i = 0; i < axes->size(); ++i)
    if ((*axes)[i] < 0 || (*axes)[i] >= static_cast<int64_t>(own.size()) || (i > 0 && (*axes)[i] == (*axes)[i - 1]))
      return (void)op.fail(Code::BadAttribute, "its dimensions are no axes");
  for (size_t i = 0; i < n; ++i)
    if (op.in(i).dims != own || !op.in(n + i).dims.empty() || op.in(n + i).dtype != op.in(i).dtype)
      return (void)op.fail(Code::BadShape, "its operands do not fit each other");
  Dims kept;
  bool empty = false;
  for (size_t i = 0; i < own.size(); ++i)
    if (std::ranges::count(*axes, static_cast<int64_t>(i)) == 0) kept.push_back(own[i]);
    else empty = empty || own[i] == Dim(0);
  if (empty) {
    for (size_t i = 0; i < n; ++i) op.set(i, op.broadcast(op.in(n + i), kept, {}));
    return;
  }
  const Combine c = of_type(combine_of(op.text.regions[0]), op.in(0).dtype);
  if (n == 1 && c != Combine::Other && c != Combine::Second) {
    Value x = op.in(0), y = x;
    if (!axes->empty()) {
      const bool logic = x.dtype == DType::Bool;
      if (logic) x = op.cast(x, DType::I32);
      y = op.made(op.b().reduce(reduce_op(c), op.whole(x), *axes, true));  // often the axes come back, to broadcast it
      if (logic) y = op.cast(y, DType::Bool);
      y = op.reshape(y, kept);
    }
    if (!starts_neutral(op, c, op.in(1))) y = op.elementwise(op_kind(c), {y, op.in(1)});
    return op.set(0, std::move(y));
  }
  if (n == 2 && arg_reduce(op, *axes)) return;
  std::vector<Value> x(op.all().begin(), op.all().begin() + static_cast<std::ptrdiff_t>(n)), starts;
  for (const int64_t axis : *axes)
    if (!own[static_cast<size_t>(axis)].is_static())
      return (void)op.unsupported("with this region, the sizes of its dimensions must be known");
  for (size_t i = axes->size(); i-- > 0;) x = halved(op, x, static_cast<size_t>((*axes)[i]));
  if (x.size() != n || !std::ranges::all_of(x, &Value::valid)) return;
  for (size_t i = 0; i < n; ++i) {
    x[i] = op.reshape(x[i], kept);
    starts.push_back(op.broadcast(op.in(n + i), kept, {}));
  }
  x = combined(op, starts, x);
  for (size_t i = 0; i < x.size(); ++i) op.set(i, x[i]);
}

struct Window {
  Ints size, stride, base, dilation, low, high;
};

bool read_window(Op& op, size_t rank, Window* w) {
  constexpr int64_t kMost = int64_t{1} << 20;
  w->size = op.ints_or(0, 1, "window_dimensions");
  w->stride = op.ints_or(rank, 1, "window_strides");
  w->base = op.ints_or(rank, 1, "base_dilations");
  w->dilation = op.ints_or(rank, 1, "window_dilations");
  const Ints pads = op.ints_or(2 * rank, 0, "padding");
  if (w->size.size() != rank || w->stride.size() != rank || w->base.size() != rank || w->dilation.size() != rank ||
      pads.size() != 2 * rank)
    return op.fail(Code::BadAttribute, "its window needs numbers for each axis");
  for (size_t i = 0; i < rank; ++i) {
    w->low.push_back(pads[2 * i]);
    w->high.push_back(pads[2 * i + 1]);
    for (const int64_t v : {w->size[i], w->stride[i], w->base[i], w->dilation[i]})
      if (v < 1 || v > kMost) return op.fail(Code::BadAttribute, "its window is out of range");
    if (w->low[i] < -kMost || w->low[i] > kMost || w->high[i] < -kMost || w->high[i] > kMost)
      return op.fail(Code::BadAttribute, "its padding is out of range");
  }
  return true;
}

// A window that reaches from the start of one axis, or to its end.
bool cumulative(Op& op, Combine c, const Ints& own, const Window& w) {
  if (c != Combine::Add && c != Combine::Mul) return false;
  size_t axis = own.size();
  for (size_t i = 0; i < own.size(); ++i) {
    if (w.stride[i] != 1 || w.base[i] != 1 || w.dilation[i] != 1) return false;
    if (w.size[i] == 1 && w.low[i] == 0 && w.high[i] == 0) continue;
    const bool whole = w.size[i] == own[i] && w.low[i] + w.high[i] == own[i] - 1 && (w.low[i] == 0 || w.high[i] == 0);
    if (!whole || axis != own.size()) return false;
    axis = i;
  }
  if (axis == own.size() || own[axis] < 2) return false;
  op.set(0, op.made(op.b().create(c == Combine::Add ? OpKind::Cumsum : OpKind::Cumprod, {op.whole(op.in(0))},
                                  CumAttrs{static_cast<int64_t>(axis), false, w.low[axis] == 0})));
  return true;
}

// Pooling of up to three axes, as the last ones.
bool pooled(Op& op, Combine c, const Ints& own, const Window& w) {
  if ((c != Combine::Add && c != Combine::Max) || !is_float(op.in(0).dtype)) return false;
  Ints still, moved;
  for (size_t i = 0; i < own.size(); ++i) {
    if (w.base[i] != 1 || w.low[i] < 0 || w.high[i] < 0) return false;
    const bool plain = w.size[i] == 1 && w.stride[i] == 1 && w.low[i] == 0 && w.high[i] == 0;
    (plain ? still : moved).push_back(static_cast<int64_t>(i));
    const int64_t reach = (w.size[i] - 1) * w.dilation[i] + 1;
    if (!plain && (w.low[i] >= reach || w.high[i] >= reach || own[i] + w.low[i] + w.high[i] < reach || own[i] == 0)) return false;
  }
  if (moved.empty() || moved.size() > 3) return false;
  PoolAttrs a;
  a.op = c == Combine::Add ? ReduceOp::Sum : ReduceOp::Max;
  Ints perm = still;
  perm.insert(perm.end(), moved.begin(), moved.end());
  int64_t batch = 1;
  for (size_t i = 0; i + 1 < still.size(); ++i) batch *= own[static_cast<size_t>(still[i])];
  Dims dims = {Dim(batch), Dim(still.empty() ? 1 : own[static_cast<size_t>(still.back())])};
  for (const int64_t axis : moved) {
    const auto i = static_cast<size_t>(axis);
    dims.emplace_back(own[i]);
    a.kernel.push_back(w.size[i]);
    a.strides.push_back(w.stride[i]);
    a.pads_begin.push_back(w.low[i]);
    a.pads_end.push_back(w.high[i]);
    a.dilations.push_back(w.dilation[i]);
  }
  const Value x = op.reshape(op.transpose(op.in(0), perm), dims);
  Value y = op.made(op.b().create(OpKind::Pool, {op.whole(x)}, std::move(a)));
  if (!y.valid()) return true;
  Dims back;
  for (const int64_t axis : still) back.emplace_back(own[static_cast<size_t>(axis)]);
  back.insert(back.end(), y.dims.begin() + 2, y.dims.end());
  op.set(0, op.transpose(op.reshape(y, back), inverse_permutation(perm)));
  return true;
}

// Windows of an axis by doubling: those of 2k elements are two of k elements. Combines in the order of the axis.
std::vector<Value> windows(Op& op, const std::vector<Value>& x, size_t axis, int64_t size, int64_t stride, int64_t dilation) {
  const int64_t n = x[0].dims[axis].size(), count = n - (size - 1) * dilation;  // windows at every place
  const auto at = static_cast<int64_t>(axis);
  const auto part = [&](const std::vector<Value>& v, int64_t start, int64_t length) {
    std::vector<Value> out;
    for (const Value& p : v) out.push_back(op.narrow(p, at, Dim(start), Dim(length)));
    return out;
  };
  std::vector<Value> doubled = x, result;
  int64_t done = 0;  // elements of the window that `result` has
  for (int64_t k = 1; k <= size; k *= 2) {
    if (size & k) {
      const auto piece = part(doubled, done * dilation, count);
      result = done == 0 ? piece : combined(op, result, piece);
      done += k;
    }
    if (result.empty() && done) return {};
    if (2 * k > size) break;
    const int64_t rest = doubled[0].dims[axis].size() - k * dilation;
    doubled = combined(op, part(doubled, 0, rest), part(doubled, k * dilation, rest));
    if (doubled.empty()) return {};
  }
  if (stride == 1) return result;
  for (Value& v : result)
    v = op.made(op.b().create(OpKind::Slice, {op.whole(v)}, SliceAttrs{at, Dim(0), Dim((count - 1) / stride + 1), stride}));
  return result;
}

void reduce_window(Op& op) {
  const size_t n = op.inputs() / 2;
  if (op.inputs() % 2 || n == 0 || n > kMostReduced || op.text.regions.size() != 1 || op.outputs() != n)
    return (void)op.fail(Code::BadArity, "it takes as many starts as values, and one region");
  const auto own = op.sizes(op.in(0));
  Window w;
  if (!own || !read_window(op, own->size(), &w)) return;
  if (std::ranges::any_of(*own, [](int64_t s) { return s > kMostSize; })) return (void)op.unsupported("its operand is too large");
  for (size_t i = 0; i < n; ++i)
    if (op.in(i).dims != op.in(0).dims || !op.in(n + i).dims.empty() || op.in(n + i).dtype != op.in(i).dtype)
      return (void)op.fail(Code::BadShape, "its operands do not fit each other");
  const Combine c = of_type(combine_of(op.text.regions[0]), op.in(0).dtype);
  if (n == 1 && starts_neutral(op, c, op.in(1)) && (cumulative(op, c, *own, w) || pooled(op, c, *own, w))) return;
  std::vector<Value> x;
  Ints interior;
  for (const int64_t b : w.base) interior.push_back(b - 1);
  Dims to;
  for (size_t i = 0; i < own->size(); ++i) {
    const int64_t dilated = (*own)[i] == 0 ? 0 : ((*own)[i] - 1) * w.base[i] + 1, all = dilated + w.low[i] + w.high[i];
    const int64_t reach = (w.size[i] - 1) * w.dilation[i] + 1;
    to.emplace_back(all < reach ? 0 : (all - reach) / w.stride[i] + 1);
  }
  if (std::ranges::count(to, Dim(0))) {
    for (size_t i = 0; i < n; ++i) op.set(i, op.broadcast(op.in(n + i), to, {}));
    return;
  }
  for (size_t i = 0; i < n; ++i) x.push_back(padded(op, op.in(i), w.low, w.high, interior, op.in(n + i)));
  const auto whole = [&] { return x.size() == n && std::ranges::all_of(x, &Value::valid); };
  for (size_t i = 0; i < own->size() && whole(); ++i)
    if (w.size[i] != 1 || w.stride[i] != 1) x = windows(op, x, i, w.size[i], w.stride[i], w.dilation[i]);
  if (!whole()) return;
  const bool neutral = n == 1 && starts_neutral(op, c, op.in(1));
  std::vector<Value> starts;
  for (size_t i = 0; i < n; ++i) starts.push_back(op.broadcast(op.in(n + i), to, {}));
  if (!neutral) x = combined(op, starts, x);
  for (size_t i = 0; i < x.size(); ++i) op.set(i, x[i]);
}

void map(Op& op) {
  if (op.text.regions.size() != 1 || op.outputs() != 1) return (void)op.fail(Code::BadArity, "it needs one region");
  std::vector<Value> out = op.im.region(op.text.regions[0], op.all(), true);
  if (out.size() == 1 && out[0].valid()) {
    if (out[0].dims.empty() && op.inputs()) out[0].dims = op.in(0).dims;
    op.set(0, out[0]);
  }
}

constexpr OpRow kReduceRows[] = {{"map", map}, {"reduce", reduce}, {"reduce_window", reduce_window}};

}  // namespace

Combine combine_of(const Region& r) {
  if (r.arguments.size() != 2 || r.operations.empty()) return Combine::Other;
  const Operation& last = r.operations.back();
  if (last.operands.size() != 1) return Combine::Other;
  if (r.operations.size() == 1) return last.operands[0].name == r.arguments[1].name ? Combine::Second : Combine::Other;
  if (r.operations.size() != 2) return Combine::Other;
  const Operation& o = r.operations[0];
  if (o.results.size() != 1 || o.results[0].name != last.operands[0].name || o.operands.size() != 2) return Combine::Other;
  const std::string_view x = o.operands[0].name, y = o.operands[1].name, a = r.arguments[0].name, b = r.arguments[1].name;
  if (!((x == a && y == b) || (x == b && y == a))) return Combine::Other;
  constexpr std::pair<std::string_view, Combine> kNames[] = {
      {"stablehlo.add", Combine::Add},     {"stablehlo.multiply", Combine::Mul}, {"stablehlo.maximum", Combine::Max},
      {"stablehlo.minimum", Combine::Min}, {"stablehlo.and", Combine::And},      {"stablehlo.or", Combine::Or}};
  for (const auto& [name, c] : kNames)
    if (o.name == name) return c;
  return Combine::Other;
}

std::optional<double> identity_of(Combine c, DType t) {
  const double width = std::ldexp(1.0, is_signed(t) ? bits(t) - 1 : bits(t));
  switch (c) {
    case Combine::Add:
    case Combine::Or: return 0;
    case Combine::Mul:
    case Combine::And: return 1;
    case Combine::Max: return is_float(t) ? -INFINITY : is_signed(t) ? -width : 0;
    case Combine::Min: return is_float(t) ? INFINITY : width - 1;
    default: return std::nullopt;
  }
}

std::span<const OpRow> reduce_rows() { return kReduceRows; }

}  // namespace rlxc::stablehlo_import
