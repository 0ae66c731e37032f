#include "kernel/builders/common.h"

#include <algorithm>
#include <numbers>

namespace rlxc::kernel {

bool constant(const Index& i, int64_t* value) {
  if (i.expr.kernel) return i.expr.kernel->constant_int(i.expr.id, value);
  *value = i.value;
  return true;
}

bool is_constant(const Index& i, int64_t value) {
  int64_t v = 0;
  return constant(i, &v) && v == value;
}
int64_t constant_value(const Index& i) {
  int64_t n = 0;
  constant(i, &n);
  return n;
}

bool is_multiple(const Index& i, int64_t of) {
  int64_t value = 0;
  if (of == 1) return true;
  if (constant(i, &value)) return value % of == 0;
  const ExprNode& e = i.expr.node();
  auto operand = [&](size_t n) { return is_multiple(Expr{i.expr.kernel, e.args[n]}, of); };
  if (e.op == ExprOp::Mul) return operand(0) || operand(1);
  return (e.op == ExprOp::Add || e.op == ExprOp::Sub) && operand(0) && operand(1);
}

bool same(const Index& a, const Index& b) {
  int64_t x = 0, y = 0;
  bool ca = constant(a, &x), cb = constant(b, &y);
  return ca || cb ? ca && cb && x == y : a.expr.id == b.expr.id;
}

Expr product(Kernel* k, const Dims& dims, size_t begin, size_t end) {
  Expr p = constant_int(k, DType::I64, 1);
  for (size_t d = begin; d < std::min(end, dims.size()); ++d) p = p * dims[d].in(k);
  return p;
}

Operand dense(Kernel* k, std::string name, DType t, const Dims& shape) {
  return broadcast_operand(k, std::move(name), t, shape, shape);
}

Operand broadcast_operand(Kernel* k, std::string name, DType t, const Dims& own, const Dims& shape) {
  Operand o{std::move(name), t, Dims(shape.size(), 0), product(k, own), 0};
  Expr stride = constant_int(k, DType::I64, 1);
  for (size_t back = 1; back <= own.size(); ++back) {
    const Index& n = own[own.size() - back];
    int64_t one = 0;
    bool repeated = constant(n, &one) && one == 1;
    if (!repeated) o.strides[shape.size() - back] = stride;
    stride = stride * n.in(k);
  }
  return o;
}

namespace {

// Returns the offset of a position along dim d.
Expr distance(Kernel* k, const Operand& o, size_t d, Expr position) {
  if (!o.split(d)) return position * o.strides[d].in(k);
  Expr rest = o.starts.empty() ? position : position + o.starts[d].in(k), sum = constant_int(k, DType::I64, 0);
  for (size_t i = o.factors[d].size(); i-- > 0;) {
    const Expr size = o.factors[d][i].size.in(k), stride = o.factors[d][i].stride.in(k);
    sum = sum + (i == 0 ? rest : rest % size) * stride;
    if (i > 0) rest = rest / size;
  }
  return sum;
}

}  // namespace

Expr element_at(Kernel* k, const Operand& o, const std::vector<Expr>& index) {
  Expr at = o.offset.in(k);
  for (size_t d = 0; d < index.size(); ++d) at = at + distance(k, o, d, index[d]);
  return at;
}

size_t merge_dims(Kernel* k, Dims* shape, const std::vector<Operand*>& operands, size_t begin, size_t end) {
  for (size_t d = end; d-- > begin;) {
    int64_t n = 0;
    const bool unit = constant((*shape)[d], &n) && n == 1;
    bool mergeable = d + 1 < end;
    for (Operand* o : operands)
      if (mergeable && !unit)
        mergeable = !o->split(d) && !o->split(d + 1) && same(o->strides[d], o->strides[d + 1].in(k) * (*shape)[d + 1].in(k));
    if (!unit && !mergeable) continue;
    const auto at = static_cast<std::ptrdiff_t>(d);
    if (!unit) (*shape)[d + 1] = (*shape)[d].in(k) * (*shape)[d + 1].in(k);
    shape->erase(shape->begin() + at);
    for (Operand* o : operands) {
      if (o->split(d)) o->offset = o->offset.in(k) + distance(k, *o, d, constant_int(k, DType::I64, 0));
      o->strides.erase(o->strides.begin() + at);
      if (!o->factors.empty()) o->factors.erase(o->factors.begin() + at);
      if (!o->starts.empty()) o->starts.erase(o->starts.begin() + at);
    }
    --end;
  }
  return end;
}

void sort_dims(Dims* shape, const std::vector<Operand*>& operands, size_t end, const Operand& by) {
  std::vector<size_t> order(end);
  std::vector<int64_t> strides(end);
  for (size_t d = 0; d < end; ++d) {
    order[d] = d;
    if (by.split(d) || !constant(by.strides[d], &strides[d]) || strides[d] == 0) return;
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t d) { return strides[d]; });
  const auto sort = [&](auto* values) {
    if (values->empty()) return;
    auto sorted = *values;
    for (size_t d = 0; d < end; ++d) sorted[d] = (*values)[order[d]];
    *values = std::move(sorted);
  };
  sort(shape);
  for (Operand* o : operands) {
    sort(&o->strides);
    sort(&o->factors);
    sort(&o->starts);
  }
}

Expr quantized(Expr v, Expr scale, Expr zero) {
  const bool is_signed = zero.dtype() == DType::I8;
  const auto all = [&](Expr e) { return e.lanes() == v.lanes() ? e : broadcast(e, v.lanes()); };
  const auto limit = [&](int code) { return all(constant(v.kernel, DType::F32, code)); };
  const Expr q = round_even(v / all(scale)) + all(cast_to(zero, DType::F32));
  return cast_to(min(max(q, limit(is_signed ? -128 : 0)), limit(is_signed ? 127 : 255)), zero.dtype());
}

int64_t contiguous_lanes(const Operand& o, size_t axis, Expr extent, int64_t most) {
  if (!is_constant(o.strides[axis], 1)) return 1;
  const auto fits = [&](int64_t n) {
    bool all = is_multiple(o.offset, n) && is_multiple(extent, n);
    for (size_t d = 0; d < o.strides.size(); ++d) all = all && (d == axis || is_multiple(o.strides[d], n));
    return all;
  };
  while (most > 1 && !fits(most)) most /= 2;
  return most;
}

bool stream(const Buf& y, const Mapping& m) {
  Kernel* k = y.builder()->kernel();
  Buffer& b = k->buffers[y.id().raw];
  int64_t elements = 0;
  b.streamed =
      m.last_cache > 0 && k->constant_int(b.extent, &elements) && elements * rlxc::bits(b.type.dtype) / 8 >= m.last_cache;
  return b.streamed;
}

std::vector<Expr> split_index(Expr linear, const Dims& dims) {
  std::vector<Expr> index(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    Expr n = dims[d].in(linear.kernel);
    index[d] = d == 0 ? linear : linear % n;
    if (d != 0) linear = linear / n;
  }
  return index;
}

Expr exp_of_softmax(Expr x, const Mapping& m) {
  return !m.workgroups && x.lanes() > 1 && x.dtype() == DType::F32 ? exp2(x * std::numbers::log2e) : exp(x);
}

DType compute_dtype(DType t) { return t == DType::F16 || t == DType::BF16 ? DType::F32 : t; }

void for_each_workgroup(Builder& b, const Mapping& m, const std::string& name, Index count, int64_t threads,
                        const std::function<void(Expr, Expr)>& body) {
  Expr n = count.in(b.kernel());
  int64_t constant_n = 0, width = m.max_grid[0];
  if (constant(n, &constant_n) && constant_n <= width) {
    Expr i = b.grid(name, 0, n);
    body(i, b.threads("thread_id", 0, threads));
    return;
  }
  Expr x = b.grid(name + "_x", 0, min(n, width)), y = b.grid(name + "_y", 1, ceil_div(n, width));
  Expr thread = b.threads("thread_id", 0, threads);
  Expr i = b.let(name, y * width + x);
  b.when(i < n, [&] { body(i, thread); });
}

void for_each(Builder& b, const Mapping& m, const std::string& name, Index count, int64_t bytes,
              const std::function<void(Expr)>& body) {
  Expr n = count.in(b.kernel());
  if (!m.workgroups) {
    b.parallel(name, n, std::max<int64_t>(1, m.parallel_bytes / std::max<int64_t>(1, bytes)), body);
    return;
  }
  for_each_workgroup(b, m, "group", ceil_div(n, m.workgroup_size), m.workgroup_size, [&](Expr group, Expr thread) {
    Expr i = b.let(name, group * m.workgroup_size + thread);
    int64_t constant_n = 0;
    if (constant(n, &constant_n) && constant_n % m.workgroup_size == 0) return body(i);
    b.when(i < n, [&] { body(i); });
  });
}

}  // namespace rlxc::kernel
