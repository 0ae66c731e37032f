// Ops that look elements up or generate them: each result element is a function of its index.
#include <algorithm>

#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"
#include "kernel/builders/map.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::codegen {
namespace {

using kernel::build_generate, kernel::linear_index, kernel::wrap_index;
using Exprs = std::vector<Expr>;

constexpr int64_t kLongRow = 4;    // elements, from which on rows are copied by vectors
constexpr int64_t kUsualRow = 64;  // guess where the length is not known

int bytes_of(DType t) { return rlxc::bits(t) / 8; }

Expr as_index(Expr v) { return cast_to(v, DType::I64); }

bool generate(Node& node, Scope& s, const Dims& shape, const kernel::PointBody& body) {
  const auto outputs = s.outputs();
  build_generate(s.builder(), shape, outputs, 2 * bytes_of(node.result_dtype()), node.mapping(), body);
  s.finish();
  return true;
}

// Copies rows of `inner` elements: row i of the result begins at from(i) in `data`. CPU threads copy vectors, grids element by
// element.
bool copy_rows(Node& node, Scope& s, const Buf& data, Expr rows, Expr inner, const std::function<Expr(Expr row)>& from) {
  auto& b = s.builder();
  int64_t known = kUsualRow;
  const bool is_short = kernel::constant(inner, &known) && known < kLongRow;
  if (node.mapping().workgroups || is_short)
    return generate(node, s, {rows, inner}, [&](const Exprs& at) -> Exprs { return {data[from(at[0]) + at[1]]}; });
  int lanes = node.mapping().vector_lanes(std::max(bytes_of(node.result_dtype()), 4));
  while (lanes > known) lanes /= 2;
  Buf y = s.out_buf();
  kernel::for_each(b, node.mapping(), "row", rows, 2 * known * bytes_of(node.result_dtype()), [&](Expr row) {
    const Expr begin = b.let("begin", from(row));
    kernel::across(b, inner, lanes, {}, 0, 1,
                   [&](Expr i, int width, int) { y.store(row * inner + i, data.load(begin + i, width)); });
  });
  s.finish();
  return true;
}

// First launch: copies operand 0 to the result.
void copy_operand(Node& node) {
  Scope s(node, "copy");
  Operand x = s.in(0), y = s.out();
  x.strides = y.strides = {1};
  kernel::build_map(s.builder(), {{x.extent}, {x}, {y}, [](const Exprs& v) { return v; }}, node.mapping());
  s.finish(false, true);
}

Expr combine(Reduction r, Expr old, Expr update) {
  switch (r) {
    case Reduction::None: return update;
    case Reduction::Add: return old + update;
    case Reduction::Mul: return old * update;
    case Reduction::Max: return max(old, update);
    case Reduction::Min: return min(old, update);
  }
  return update;
}

void scatter_store(const Buf& y, Expr at, Reduction r, Expr update) {
  if (r == Reduction::None) return y.store(at, update);
  const DType t = y.type().dtype, c = kernel::compute_dtype(t);
  y.store(at, cast_to(combine(r, cast_to(y.load(at), c), cast_to(update, c)), t));
}

}  // namespace

bool lower_gather(Node& node) {
  const auto axis = static_cast<size_t>(node.attrs<AxisAttrs>().axis);
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0)), i = s.shape(node.dims(1));
  const Expr inner = kernel::product(k, x, axis + 1), n = x[axis].in(k);
  Buf data = s.in_buf(0), index = s.in_buf(1);
  int64_t one = 0;
  const Dims shape = {kernel::product(k, x, 0, axis), kernel::product(k, i)};
  const auto first = [&](Expr outer, Expr at) { return (outer * n + wrap_index(as_index(index[at]), n)) * inner; };
  if (kernel::constant(inner, &one) && one == 1)
    return generate(node, s, shape, [&](const Exprs& at) -> Exprs { return {data[first(at[0], at[1])]}; });
  const Expr count = shape[1].in(k);
  return copy_rows(node, s, data, shape[0].in(k)*count, inner, [&](Expr row) { return first(row / count, row % count); });
}

bool lower_gather_elements(Node& node) {
  const auto axis = static_cast<size_t>(node.attrs<AxisAttrs>().axis);
  Scope s(node);
  const Dims x = s.shape(node.dims(0)), shape = s.shape(node.result_dims());
  Buf data = s.in_buf(0), index = s.in_buf(1);
  return generate(node, s, shape, [&](const Exprs& at) -> Exprs {
    Exprs from = at;
    from[axis] = wrap_index(as_index(index[linear_index(s.kernel(), at, shape)]), x[axis].in(s.kernel()));
    return {data[linear_index(s.kernel(), from, x)]};
  });
}

bool lower_gather_nd(Node& node) {
  const auto batch = static_cast<size_t>(node.attrs<BatchDimsAttrs>().batch_dims);
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0)), i = s.shape(node.dims(1));
  const auto depth = static_cast<size_t>(node.table().constant_value(node.dims(1).back()).value_or(0));
  // Batch, positions, and the inner elements of a position.
  const Expr batches = kernel::product(k, x, 0, batch), inner = kernel::product(k, x, batch + depth);
  const Expr positions = kernel::product(k, i, batch, i.size() - 1);
  Buf data = s.in_buf(0), index = s.in_buf(1);
  return copy_rows(node, s, data, batches * positions, inner, [&](Expr row) {
    Expr from = row / positions;
    const Expr first = row * static_cast<int64_t>(depth);
    for (size_t d = 0; d < depth; ++d) {
      const Expr n = x[batch + d].in(k);
      from = from * n + wrap_index(as_index(index[first + static_cast<int64_t>(d)]), n);
    }
    return from * inner;
  });
}

// Rows along the axis are independent. Within a row, updates are applied in order.
bool lower_scatter_elements(Node& node) {
  const auto& a = node.attrs<ScatterAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  copy_operand(node);
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0)), shape = s.shape(node.dims(1));
  Buf index = s.in_buf(1), updates = s.in_buf(2);
  Operand out = s.out();
  Buf y = s.builder().inout(out.name, out.dtype, out.extent);
  Dims rows = shape;
  rows.erase(rows.begin() + a.axis);
  kernel::for_each(s.builder(), node.mapping(), "row", kernel::product(k, rows), 4096, [&](Expr row) {
    const Exprs at = kernel::split_index(row, rows);
    s.builder().loop("i", shape[axis], [&](Expr i) {
      Exprs full = at;
      full.insert(full.begin() + a.axis, i);
      const Expr source = linear_index(k, full, shape);
      full[axis] = s.builder().let("to", wrap_index(as_index(index[source]), x[axis].in(k)));
      scatter_store(y, linear_index(k, full, x), a.reduction, updates[source]);
    });
  });
  s.finish();
  return true;
}

bool lower_scatter_nd(Node& node) {
  const auto& a = node.attrs<ScatterAttrs>();
  copy_operand(node);
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0)), i = s.shape(node.dims(1));
  const auto depth = static_cast<size_t>(node.table().constant_value(node.dims(1).back()).value_or(0));
  const Expr inner = kernel::product(k, x, depth), count = kernel::product(k, i, 0, i.size() - 1);
  Buf index = s.in_buf(1), updates = s.in_buf(2);
  Operand out = s.out();
  Buf y = s.builder().inout(out.name, out.dtype, out.extent);
  kernel::for_each(s.builder(), node.mapping(), "j", inner, 4096, [&](Expr j) {
    s.builder().loop("u", count, [&](Expr u) {
      Expr to = s.builder().i64(0);
      for (size_t d = 0; d < depth; ++d) {
        const Expr n = x[d].in(k);
        to = to * n + wrap_index(as_index(index[u * static_cast<int64_t>(depth) + static_cast<int64_t>(d)]), n);
      }
      scatter_store(y, s.builder().let("to", to * inner + j), a.reduction, updates[u * inner + j]);
    });
  });
  s.finish();
  return true;
}

bool lower_pad(Node& node) {
  const auto& a = node.attrs<PadAttrs>();
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0)), shape = s.shape(node.result_dims());
  Dims before;
  for (Dim d : a.before) {
    const auto v = node.table().constant_value(d);
    before.push_back(v ? Index(*v) : s.size(d));
  }
  Buf data = s.in_buf(0), fill;
  if (node.has(1)) fill = s.in_buf(1);
  return generate(node, s, shape, [&](const Exprs& at) -> Exprs {
    Exprs from = at;
    Expr inside = kernel::constant_int(k, DType::Bool, 1);
    for (size_t d = 0; d < at.size(); ++d) {
      const Expr n = x[d].in(k), i = at[d] - before[d].in(k);
      from[d] = i;
      if (kernel::same(x[d], shape[d]) && kernel::same(before[d], 0)) continue;
      if (a.mode == PadMode::Constant) inside = inside && i >= 0 && i < n;
      if (a.mode == PadMode::Edge) from[d] = max(min(i, n - 1), 0);
      if (a.mode == PadMode::Wrap) from[d] = (i % n + n) % n;
      if (a.mode == PadMode::Reflect) {
        const Expr period = 2 * (n - 1), r = (i % period + period) % period;
        from[d] = min(r, period - r);
      }
    }
    const Expr source = linear_index(k, from, x);
    if (a.mode != PadMode::Constant) return {data[source]};
    const Expr otherwise = node.has(1) ? fill[0] : kernel::constant_int(k, node.result_dtype(), 0);
    return {data.load_if(inside, source, otherwise)};
  });
}

bool lower_trilu(Node& node) {
  const auto& a = node.attrs<TriluAttrs>();
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Buf data = s.in_buf(0), diagonal;
  if (node.has(1)) diagonal = s.in_buf(1);
  return generate(node, s, shape, [&](const Exprs& at) -> Exprs {
    const Expr d = node.has(1) ? as_index(diagonal[0]) : s.builder().i64(a.diagonal);
    const Expr offset = at.back() - at[at.size() - 2], v = data[linear_index(s.kernel(), at, shape)];
    return {select(a.upper ? offset >= d : offset <= d, v, kernel::constant_int(s.kernel(), v.dtype(), 0))};
  });
}

bool lower_range(Node& node) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Buf start = s.in_buf(0), step = s.in_buf(1);
  return generate(node, s, shape, [&](const Exprs& at) -> Exprs {
    const DType t = node.result_dtype() == DType::F32 ? node.wide() : kernel::compute_dtype(node.result_dtype());
    return {cast_to(start[0], t) + cast_to(at[0], t) * cast_to(step[0], t)};
  });
}

bool lower_one_hot(Node& node) {
  const auto& a = node.attrs<OneHotAttrs>();
  Scope s(node);
  const Dims shape = s.shape(node.result_dims()), own = s.shape(node.dims(0));
  const Expr depth = s.size(a.depth).in(s.kernel());
  Buf index = s.in_buf(0), values = s.in_buf(1);
  return generate(node, s, shape, [&](const Exprs& at) -> Exprs {
    Exprs from = at;
    from.erase(from.begin() + a.axis);
    const Expr i = as_index(index[linear_index(s.kernel(), from, own)]);
    const Expr hit = select(i < 0, i + depth, i) == at[static_cast<size_t>(a.axis)];
    return {select(hit, values[1], values[0])};
  });
}

bool lower_dim_value(Node& node) {
  Scope s(node);
  const auto& dims = node.attrs<DimsAttrs>().dims;
  Exprs values;
  for (Dim d : dims) values.push_back(s.size(d).in(s.kernel()));
  Buf y = s.out_buf();
  kernel::for_each(s.builder(), node.mapping(), "i", 1, 8, [&](Expr) {
    for (size_t i = 0; i < values.size(); ++i) y.store(static_cast<int64_t>(i), values[i]);
  });
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
