// Ops that move elements. Most use a table of source offsets per result axis.
#include <algorithm>

#include "eval/join.h"

namespace rlxc::eval {
namespace {

// The source offset of a result element is the sum over axes k of tables[k][coordinate]. A negative entry means fill.
using Tables = std::vector<std::vector<int64_t>>;

template <class T>
void remap(const T* x, const Tables& tables, const T& fill, T* out) {
  const size_t rank = tables.size();
  for (const auto& t : tables)
    if (t.empty()) return;
  if (rank == 0) return void(*out = *x);
  const auto& inner = tables.back();
  bool contiguous = inner[0] >= 0;
  for (size_t i = 1; contiguous && i < inner.size(); ++i) contiguous = inner[i] == inner[0] + static_cast<int64_t>(i);
  std::vector<size_t> at(rank, 0);
  for (;;) {
    int64_t base = 0;
    bool outside = false;
    for (size_t k = 0; k + 1 < rank; ++k) {
      outside |= tables[k][at[k]] < 0;
      base += tables[k][at[k]];
    }
    if (outside) std::fill_n(out, inner.size(), fill);
    else if (contiguous) std::copy_n(x + base + inner[0], inner.size(), out);
    else
      for (size_t i = 0; i < inner.size(); ++i) out[i] = inner[i] < 0 ? fill : x[base + inner[i]];
    out += inner.size();
    size_t k = rank - 1;
    while (k-- > 0) {
      if (++at[k] < tables[k].size()) break;
      at[k] = 0;
    }
    if (k == static_cast<size_t>(-1)) return;
  }
}

// Puts a tensor of these dims in the type of operand 0, whose cells write(cells of operand 0, cells of the result) sets.
template <class F>
bool put_moved(Context& c, std::vector<int64_t> dims, const F& write) {
  TensorData d;
  const TensorData& x = c.t(0);
  if (!c.charge(static_cast<double>(product(dims))) || !c.make(x.dtype, std::move(dims), &d)) return false;
  if (d.elements() == 0) return c.put(std::move(d));
  return with_cells(x.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> in(x);
    CellWriter<T> out(std::move(d));
    write(in.data(), out.data());
    return c.put(out.finish());
  });
}

// Copies operand 0 through the tables.
bool eval_remap(Context& c, std::vector<int64_t> dims, const Tables& tables, const TensorData* fill = nullptr) {
  return put_moved(c, std::move(dims), [&]<class T>(const T* x, T* out) {
    T zero{};
    if (fill) zero = Cells<T>(*fill)[0];
    remap(x, tables, zero, out);
  });
}

// Identity tables: tables[k][i] = i*stride[k].
Tables identity(std::span<const int64_t> dims) {
  const auto strides = strides_of(dims);
  Tables t(dims.size());
  for (size_t k = 0; k < dims.size(); ++k) {
    t[k].reserve(static_cast<size_t>(dims[k]));
    for (int64_t i = 0; i < dims[k]; ++i) t[k].push_back(i * strides[k]);
  }
  return t;
}

bool eval_reshape(Context& c) {
  TensorData d = c.t(0);
  d.dims = c.result_dims();
  return c.put(std::move(d));
}

bool eval_transpose(Context& c) {
  const auto& perm = c.a<PermAttrs>().perm;
  Tables from = identity(c.dims(0)), tables;
  for (int64_t p : perm) tables.push_back(std::move(from[static_cast<size_t>(p)]));
  return eval_remap(c, c.result_dims(), tables);
}

// Slices `len` elements of an axis from `start` with `step`.
bool take_range(Context& c, int64_t axis, int64_t start, int64_t len, int64_t step) {
  auto dims = c.dims(0);
  const auto k = static_cast<size_t>(axis);
  Tables tables = identity(dims);
  const int64_t last = start + (len - 1) * step;
  if (len > 0 && (std::min(start, last) < 0 || std::max(start, last) >= dims[k]))
    return c.fail("elements " + std::to_string(start) + ".." + std::to_string(last) + " are outside an axis of size " +
                  std::to_string(dims[k]));
  std::vector<int64_t> picked;
  picked.reserve(static_cast<size_t>(len));
  for (int64_t i = 0; i < len; ++i) picked.push_back(tables[k][static_cast<size_t>(start + i * step)]);
  tables[k] = std::move(picked);
  dims[k] = len;
  return eval_remap(c, std::move(dims), tables);
}

bool eval_narrow(Context& c) {
  const auto& a = c.a<NarrowAttrs>();
  return take_range(c, a.axis, c.size(a.start), c.size(a.len), 1);
}

bool eval_slice(Context& c) {
  const auto& a = c.a<SliceAttrs>();
  return take_range(c, a.axis, c.size(a.start), c.size(a.len), a.step);
}

bool eval_reverse(Context& c) {
  Tables tables = identity(c.dims(0));
  for (int64_t axis : c.a<AxesAttrs>().axes) {
    if (axis < 0 || axis >= static_cast<int64_t>(tables.size()))
      return c.fail("axis " + std::to_string(axis) + " is out of range");
    std::reverse(tables[static_cast<size_t>(axis)].begin(), tables[static_cast<size_t>(axis)].end());
  }
  return eval_remap(c, c.dims(0), tables);
}

// Copies x, with a stride for each axis (0: repeated, else row-major), to the elements from `out` on. Returns their end.
template <class T>
T* spread(const T* x, std::span<const int64_t> dims, std::span<const int64_t> strides, T* out) {
  if (dims.empty()) return *out = *x, out + 1;
  if (dims.size() == 1) return strides[0] == 0 ? std::fill_n(out, dims[0], *x) : std::copy_n(x, dims[0], out);
  for (int64_t i = 0; i < dims[0]; ++i) out = spread(x + i * strides[0], dims.subspan(1), strides.subspan(1), out);
  return out;
}

bool eval_expand(Context& c) {
  const auto dims = c.result_dims();
  const auto& x = c.dims(0);
  const size_t lead = dims.size() - x.size();
  std::vector<int64_t> strides(dims.size(), 0);
  const auto own = strides_of(x);
  for (size_t k = lead; k < dims.size(); ++k)
    if (x[k - lead] != 1) strides[k] = own[k - lead];
  return put_moved(c, dims, [&]<class T>(const T* from, T* out) {
    spread(from, std::span<const int64_t>(dims), std::span<const int64_t>(strides), out);
  });
}

bool eval_tile(Context& c) {
  const auto dims = c.result_dims();
  const Tables own = identity(c.dims(0));
  Tables tables(dims.size());
  for (size_t k = 0; k < dims.size(); ++k)
    while (static_cast<int64_t>(tables[k].size()) < dims[k]) tables[k].insert(tables[k].end(), own[k].begin(), own[k].end());
  return eval_remap(c, dims, tables);
}

// The source coordinate of position i (possibly outside) of an axis of size n, or -1 for fill.
int64_t pad_source(PadMode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case PadMode::Constant: return -1;
    case PadMode::Edge: return std::clamp<int64_t>(i, 0, n - 1);
    case PadMode::Wrap: return ((i % n) + n) % n;
    case PadMode::Reflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1), j = ((i % period) + period) % period;
      return j < n ? j : period - j;
    }
  }
  return -1;
}

bool eval_pad(Context& c) {
  const auto& a = c.a<PadAttrs>();
  const auto dims = c.result_dims();
  const Tables own = identity(c.dims(0));
  Tables tables(dims.size());
  for (size_t k = 0; k < dims.size(); ++k) {
    if (a.mode != PadMode::Constant && c.dims(0)[k] == 0 && dims[k] > 0) return c.fail("cannot extend an empty axis");
    for (int64_t i = 0; i < dims[k]; ++i) {
      const int64_t from = pad_source(a.mode, i - c.size(a.before[k]), c.dims(0)[k]);
      tables[k].push_back(from < 0 ? -1 : own[k][static_cast<size_t>(from)]);
    }
  }
  if (c.t(0).elements() == 0) {  // all fill
    for (auto& t : tables) std::fill(t.begin(), t.end(), -1);
    if (tables.empty()) return c.put(c.t(0));
  }
  return eval_remap(c, dims, tables, c.has(1) ? &c.t(1) : nullptr);
}

bool eval_concat(Context& c) {
  std::vector<const TensorData*> parts;
  for (const HostValue* v : c.in) parts.push_back(&v->tensor);
  TensorData d;
  return join(c, parts, c.a<AxisAttrs>().axis, false, &d) && c.put(std::move(d));
}

bool eval_trilu(Context& c) {
  const auto& a = c.a<TriluAttrs>();
  const auto& dims = c.dims(0);
  if (dims.size() < 2) return c.fail("needs at least two axes");
  const int64_t rows = dims[dims.size() - 2], columns = dims.back(), k = c.has(1) ? load_int(c.t(1)) : a.diagonal;
  TensorData d;
  if (!c.make_result(0, &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  if (d.elements() == 0) return c.put(std::move(d));
  return with_cells(d.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> x(c.t(0));
    CellWriter<T> out(std::move(d));
    const int64_t total = c.t(0).elements();
    for (int64_t i = 0; i < total; ++i) {
      const int64_t row = i / columns % rows, column = i % columns;
      const bool keep = a.upper ? column - row >= k : column - row <= k;
      out.data()[i] = keep ? x[i] : T();
    }
    return c.put(out.finish());
  });
}

bool eval_range(Context& c) {
  const int64_t n = c.result_dims()[0];
  if (!c.charge(static_cast<double>(n))) return false;
  return with_numbers(c.t(0).dtype, [&](auto v) {
    using V = decltype(v);
    V start, step;
    load(c.t(0), 0, 1, &start);
    load(c.t(1), 0, 1, &step);
    TensorData d;
    if (!c.make_result(0, &d)) return false;
    for (int64_t i = 0; i < n; ++i) {
      V value;
      if constexpr (std::is_same_v<V, double> || std::is_same_v<V, Complex>) value = start + static_cast<double>(i) * step;
      else value = start + V(i) * step;
      store(d, i, 1, &value);
    }
    return c.put(std::move(d));
  });
}

bool eval_one_hot(Context& c) {
  const auto& a = c.a<OneHotAttrs>();
  const int64_t depth = c.size(a.depth);
  TensorData d;
  if (!c.make_result(0, &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  if (d.elements() == 0) return c.put(std::move(d));
  const auto index = load_all<double>(c.t(0));
  const Split s = split_at(d.dims, a.axis);
  return with_cells(d.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> values(c.t(1));
    CellWriter<T> out(std::move(d));
    std::fill_n(out.data(), s.outer * s.n * s.inner, values[0]);
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i = 0; i < s.inner; ++i) {
        const double raw = index[static_cast<size_t>(o * s.inner + i)];
        const double k = raw < 0 ? raw + static_cast<double>(depth) : raw;
        if (k >= 0 && k < static_cast<double>(depth)) out.data()[(o * s.n + static_cast<int64_t>(k)) * s.inner + i] = values[1];
      }
    return c.put(out.finish());
  });
}

}  // namespace

std::span<const Entry> movement_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::Reshape, eval_reshape}, {OpKind::Transpose, eval_transpose},
      {OpKind::Narrow, eval_narrow},   {OpKind::Slice, eval_slice},
      {OpKind::Reverse, eval_reverse}, {OpKind::Expand, eval_expand},
      {OpKind::Tile, eval_tile},       {OpKind::Pad, eval_pad},
      {OpKind::Concat, eval_concat},   {OpKind::Trilu, eval_trilu},
      {OpKind::Range, eval_range},     {OpKind::OneHot, eval_one_hot},
  };
  return kTable;
}

}  // namespace rlxc::eval
