// Folds shape arithmetic: operators on small tensors of sizes yield known results without a node. Constant folding is in
// computed.cpp.
#include <algorithm>
#include <numeric>

#include "import/onnx/handlers.h"

namespace rlxc::onnx_import {
namespace {

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

const Known* all_known(Op& op, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!op.known(i)) return nullptr;
  return op.known(0);
}

NumOp arithmetic(OpKind kind) {
  switch (kind) {
    case OpKind::Add: return num_add;
    case OpKind::Sub: return num_sub;
    case OpKind::Mul: return num_mul;
    case OpKind::Div: return num_div;
    case OpKind::Mod: return num_mod;
    case OpKind::Min: return num_min;
    case OpKind::Max: return num_max;
    default: return nullptr;
  }
}

Num truth(bool v) { return {Dim(v)}; }

template <OpKind kind>
std::optional<Num> compare(DimTable& t, DType, const Num& a, const Num& b) {
  std::optional<bool> r;
  if constexpr (kind == OpKind::Eq) r = num_equal(t, a, b);
  if constexpr (kind == OpKind::Lt) r = num_less(t, a, b);
  if constexpr (kind == OpKind::Gt) r = num_less(t, b, a);
  if constexpr (kind == OpKind::Le) r = num_less(t, b, a);
  if constexpr (kind == OpKind::Ge) r = num_less(t, a, b);
  if (!r) return std::nullopt;
  return truth(kind == OpKind::Le || kind == OpKind::Ge ? !*r : *r);
}

bool fold_with(Op& op, NumOp f, DType result) {
  if (!f || !all_known(op, op.inputs())) return false;
  Known k = *op.known(0);
  for (size_t i = 1; i < op.inputs(); ++i) {
    const Known& next = *op.known(i);
    if (next.dtype != k.dtype) return false;
    auto r = combine(op.dims(), k, next, f);
    if (!r) return false;
    k = std::move(*r);
  }
  k.dtype = result;
  return op.set_known(0, std::move(k));
}

// Picks the elements of `from` at the flat indices `index`.
bool pick(Op& op, const Known& from, std::vector<int64_t> shape, const std::vector<int64_t>& index, size_t out = 0) {
  Known k;
  k.dtype = from.dtype;
  k.shape = std::move(shape);
  for (int64_t i : index) k.v.push_back(from.v[static_cast<size_t>(i)]);
  return op.set_known(out, std::move(k));
}

std::vector<int64_t> iota(size_t n) {
  std::vector<int64_t> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}

}  // namespace

bool fold_binary(Op& op) {
  const Known* k = op.known(0);
  if (!k || k->dtype == DType::Bool || (op.opset < 7 && op.has_attr("axis"))) return false;
  if (op.row.kind == OpKind::Mod && op.i("fmod", 0) != 0) return false;
  return fold_with(op, arithmetic(op.row.kind), k->dtype);
}

bool fold_compare(Op& op) {
  switch (op.row.kind) {
    case OpKind::Eq: return fold_with(op, compare<OpKind::Eq>, DType::Bool);
    case OpKind::Lt: return fold_with(op, compare<OpKind::Lt>, DType::Bool);
    case OpKind::Le: return fold_with(op, compare<OpKind::Le>, DType::Bool);
    case OpKind::Gt: return fold_with(op, compare<OpKind::Gt>, DType::Bool);
    case OpKind::Ge: return fold_with(op, compare<OpKind::Ge>, DType::Bool);
    default: return false;
  }
}

bool fold_unary(Op& op) {
  const Known* k = op.known(0);
  if (!k) return false;
  Known out = *k;
  for (Num& n : out.v) {
    std::optional<Num> r;
    const Num zero = is_float(k->dtype) ? Num{Dim(0), 1, 0, true} : Num{Dim(0)};
    switch (op.row.kind) {
      case OpKind::Neg: r = num_sub(op.dims(), k->dtype, zero, n); break;
      case OpKind::Floor: r = num_floor(op.dims(), k->dtype, n); break;
      case OpKind::Ceil: r = num_ceil(op.dims(), k->dtype, n); break;
      case OpKind::Abs:
        if (!n.is_real && op.dims().at_least(n.num, 0)) r = n;
        else if (const auto v = op.dims().constant_value(n.num); v && !n.is_real) r = num_sub(op.dims(), k->dtype, zero, n);
        break;
      default: break;
    }
    if (!r) return false;
    n = *r;
  }
  return op.set_known(0, std::move(out));
}

bool fold_cast(Op& op) {
  const Known* k = op.known(0);
  if (!k) return false;
  const bool like = op.row.name == "CastLike";
  const AttributeView* a = op.node().attribute("to");
  if (!like && (!a || a->type != AttrType::Int)) return false;
  const auto to = like ? std::optional(op.dtype(1)) : dtype_from_onnx(static_cast<int>(a->i & 0xFFFF));
  if (!to || !can_be_known(*to)) return false;
  Known out = *k;
  out.dtype = *to;
  for (Num& n : out.v) {
    const auto r = num_cast(op.dims(), k->dtype, *to, n);
    if (!r) return false;
    n = *r;
  }
  return op.set_known(0, std::move(out));
}

bool fold_where(Op& op) {
  if (!all_known(op, 3)) return false;
  const Known &c = *op.known(0), &a = *op.known(1), &b = *op.known(2);
  if (c.shape != a.shape || a.shape != b.shape) {
    const auto scalar_like = [](const Known& k) { return k.v.size() == 1; };
    const Known& widest = !scalar_like(c) ? c : !scalar_like(a) ? a : b;
    for (const Known* k : {&c, &a, &b})
      if (!scalar_like(*k) && k->shape != widest.shape) return false;
  }
  Known out;
  out.dtype = a.dtype;
  for (const Known* k : {&c, &a, &b})
    if (k->v.size() > out.v.size() || k->shape.size() > out.shape.size()) out.shape = k->shape, out.v.resize(k->v.size());
  const auto at = [](const Known& k, size_t i) { return k.v.size() == 1 ? k.v[0] : k.v[i]; };
  if (static_cast<size_t>(count(out.shape)) != out.v.size()) return false;
  for (size_t i = 0; i < out.v.size(); ++i) {
    const auto v = op.dims().constant_value(at(c, i).num);
    if (!v) return false;
    out.v[i] = *v ? at(a, i) : at(b, i);
  }
  return op.set_known(0, std::move(out));
}

bool fold_concat(Op& op) {
  if (!all_known(op, op.inputs())) return false;
  Known out = *op.known(0);
  if (out.shape.size() != 1) return false;
  const int64_t axis = op.i("axis", 0);
  if (axis != 0 && axis != -1) return false;
  for (size_t i = 1; i < op.inputs(); ++i) {
    const Known& next = *op.known(i);
    if (next.shape.size() != 1 || next.dtype != out.dtype || out.v.size() + next.v.size() > kMaxKnownElements) return false;
    out.v.insert(out.v.end(), next.v.begin(), next.v.end());
  }
  out.shape[0] = static_cast<int64_t>(out.v.size());
  return op.set_known(0, std::move(out));
}

bool fold_gather(Op& op) {
  if (!all_known(op, 2)) return false;
  const Known &x = *op.known(0), &index = *op.known(1);
  if (x.shape.size() != 1 || is_float(index.dtype) || (op.i("axis", 0) != 0 && op.i("axis", 0) != -1)) return false;
  std::vector<int64_t> picks;
  for (const Num& n : index.v) {
    auto v = op.dims().constant_value(n.num);
    if (!v) return false;
    if (*v < 0) *v += x.shape[0];
    if (*v < 0 || *v >= x.shape[0]) return false;
    picks.push_back(*v);
  }
  return pick(op, x, index.shape, picks);
}

// Folds one axis at a time, with constant bounds.
bool fold_slice(Op& op) {
  const Known* x = op.known(0);
  if (!x || x->shape.empty()) return false;
  std::vector<int64_t> starts, ends, axes, steps;
  if (op.opset >= 10 || op.row.name == "DynamicSlice") {
    for (size_t i = 1; i < 5; ++i) {
      if (!op.has(i)) continue;
      const auto v = op.known_ints(i);
      if (!v) return false;
      (i == 1 ? starts : i == 2 ? ends : i == 3 ? axes : steps) = *v;
    }
  } else {
    starts = op.ints("starts"), ends = op.ints("ends"), axes = op.ints("axes");
  }
  if (axes.empty()) axes = iota(starts.size());
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) return false;
  std::vector<int64_t> shape = x->shape, index = iota(x->v.size());
  const auto rank = static_cast<int64_t>(shape.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i], step = steps[i];
    if (axis < 0 || axis >= rank || step == 0 || step > 64 || step < -64) return false;
    const int64_t n = shape[static_cast<size_t>(axis)], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const int64_t start = std::clamp(starts[i] < 0 ? starts[i] + n : starts[i], std::max<int64_t>(low, 0), high);
    const int64_t end = std::clamp(ends[i] < 0 ? ends[i] + n : ends[i], low, high);
    std::vector<int64_t> kept;
    for (int64_t at = start; step > 0 ? at < end : at > end; at += step) kept.push_back(at);
    int64_t inner = 1, outer = 1;
    for (int64_t d = axis + 1; d < rank; ++d) inner *= shape[static_cast<size_t>(d)];
    for (int64_t d = 0; d < axis; ++d) outer *= shape[static_cast<size_t>(d)];
    std::vector<int64_t> next;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t at : kept)
        for (int64_t k = 0; k < inner; ++k) next.push_back(index[static_cast<size_t>((o * n + at) * inner + k)]);
    index = std::move(next);
    shape[static_cast<size_t>(axis)] = static_cast<int64_t>(kept.size());
  }
  return pick(op, *x, std::move(shape), index);
}

// Reshape, Squeeze, Unsqueeze, Flatten: the elements keep their order.
bool fold_view(Op& op) {
  const Known* x = op.known(0);
  if (!x) return false;
  std::vector<int64_t> shape;
  const auto rank = static_cast<int64_t>(x->shape.size());
  if (op.row.name == "Reshape") {
    const auto target = op.opset >= 5 ? op.known_ints(1) : std::optional(op.ints("shape"));
    if (!target || target->size() > kMaxKnownRank || (op.opset >= 14 && op.i("allowzero", 0) != 0)) return false;
    shape = *target;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 0 && i < x->shape.size()) shape[i] = x->shape[i];
    const auto open = std::ranges::find(shape, -1);
    if (open != shape.end()) {
      *open = 1;
      for (int64_t d : shape)
        if (d < 1 || d > kMaxKnownElements) return false;
      const int64_t rest = count(shape);
      if (rest == 0 || static_cast<int64_t>(x->v.size()) % rest != 0) return false;
      *open = static_cast<int64_t>(x->v.size()) / rest;
    }
    for (int64_t d : shape)
      if (d < 0 || d > kMaxKnownElements) return false;
  } else {
    std::vector<int64_t> axes;
    const bool given = op.has(1) || op.has_attr("axes");
    if (op.has(1)) {
      const auto v = op.known_ints(1);
      if (!v) return false;
      axes = *v;
    } else {
      axes = op.ints("axes");
    }
    if (op.row.name == "Squeeze") {
      for (int64_t& a : axes) a = a < 0 ? a + rank : a;
      for (int64_t i = 0; i < rank; ++i) {
        const bool named = std::ranges::find(axes, i) != axes.end();
        if (given ? !named : x->shape[static_cast<size_t>(i)] != 1) shape.push_back(x->shape[static_cast<size_t>(i)]);
      }
    } else {  // Unsqueeze
      const auto wide = rank + static_cast<int64_t>(axes.size());
      if (wide > static_cast<int64_t>(kMaxKnownRank)) return false;
      for (int64_t& a : axes) a = a < 0 ? a + wide : a;
      size_t from = 0;
      for (int64_t i = 0; i < wide; ++i) {
        if (std::ranges::find(axes, i) != axes.end()) shape.push_back(1);
        else if (from < x->shape.size()) shape.push_back(x->shape[from++]);
        else return false;
      }
    }
  }
  if (static_cast<size_t>(count(shape)) != x->v.size()) return false;
  return pick(op, *x, std::move(shape), iota(x->v.size()));
}

bool fold_transpose(Op& op) {
  const Known* x = op.known(0);
  if (!x) return false;
  if (x->shape.size() < 2) return pick(op, *x, x->shape, iota(x->v.size()));
  if (x->shape.size() != 2) return false;
  const auto perm = op.ints("perm");
  if (op.has_attr("perm") && perm != std::vector<int64_t>{1, 0}) return false;
  std::vector<int64_t> index;
  for (int64_t c = 0; c < x->shape[1]; ++c)
    for (int64_t r = 0; r < x->shape[0]; ++r) index.push_back(r * x->shape[1] + c);
  return pick(op, *x, {x->shape[1], x->shape[0]}, index);
}

bool fold_expand(Op& op) {
  const Known* x = op.known(0);
  const auto target = op.known_ints(1);
  if (!x || !target || target->size() > 1 || x->v.size() != 1 || x->shape.size() > 1) return false;
  const int64_t n = target->empty() ? 1 : (*target)[0];
  if (n < 1 || n > kMaxKnownElements) return false;
  std::vector<int64_t> shape = target->empty() ? x->shape : std::vector<int64_t>{n};
  return pick(op, *x, shape, std::vector<int64_t>(static_cast<size_t>(n), 0));
}

// ReduceProd, ReduceSum, ReduceMin, ReduceMax of a vector.
bool fold_reduce(Op& op) {
  const Known* x = op.known(0);
  if (!x || x->shape.size() != 1 || x->v.empty() || is_float(x->dtype) || x->dtype == DType::Bool) return false;
  const auto how = static_cast<ReduceOp>(static_cast<int>(op.row.alpha));
  const NumOp f = how == ReduceOp::Prod  ? num_mul
                  : how == ReduceOp::Sum ? num_add
                  : how == ReduceOp::Min ? num_min
                  : how == ReduceOp::Max ? num_max
                                         : nullptr;
  if (!f || op.i("noop_with_empty_axes", 0) != 0) return false;
  Num sum = x->v[0];
  for (size_t i = 1; i < x->v.size(); ++i) {
    const auto r = f(op.dims(), x->dtype, sum, x->v[i]);
    if (!r) return false;
    sum = *r;
  }
  Known out;
  out.dtype = x->dtype;
  if (op.i("keepdims", 1) != 0) out.shape = {1};
  out.v = {sum};
  return op.set_known(0, std::move(out));
}

bool fold_split(Op& op) {
  const Known* x = op.known(0);
  if (!x || x->shape.size() != 1) return false;
  std::vector<int64_t> parts;
  if (op.has(1)) {
    const auto v = op.known_ints(1);
    if (!v) return false;
    parts = *v;
  } else if (op.has_attr("split")) {
    parts = op.ints("split");
  } else {
    const auto n = static_cast<int64_t>(op.outputs());
    if (n == 0 || x->shape[0] % n != 0) return false;
    parts.assign(op.outputs(), x->shape[0] / n);
  }
  int64_t sum = 0;
  for (int64_t p : parts) {
    if (p < 0 || p > kMaxKnownElements) return false;
    sum += p;
  }
  if (parts.size() != op.outputs() || sum != x->shape[0]) return false;
  int64_t at = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<int64_t> index(static_cast<size_t>(parts[i]));
    std::iota(index.begin(), index.end(), at);
    at += parts[i];
    pick(op, *x, {parts[i]}, index, i);
  }
  return true;
}

}  // namespace rlxc::onnx_import
