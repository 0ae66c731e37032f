// Indexed reads and writes: Gather, GatherElements, GatherND, ScatterElements, ScatterND.
#include <algorithm>

#include "eval/context.h"

namespace rlxc::eval {
namespace {

// Normalises an index into an axis of size n: negative ones count from the end; others out of range are an error.
bool normalise(Context& c, int64_t* index, int64_t n) {
  if (*index < -n || *index >= n)
    return c.fail("index " + std::to_string(*index) + " is outside an axis of size " + std::to_string(n));
  if (*index < 0) *index += n;
  return true;
}

bool eval_gather(Context& c) {
  const Split s = split_at(c.dims(0), c.a<AxisAttrs>().axis);
  auto index = c.ints(1);
  for (auto& i : index)
    if (!normalise(c, &i, s.n)) return false;
  TensorData d;
  if (!c.make_result(0, &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  if (d.elements() == 0) return c.put(std::move(d));
  return with_cells(d.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> x(c.t(0));
    CellWriter<T> out(std::move(d));
    T* to = out.data();
    for (int64_t o = 0; o < s.outer; ++o)
      for (int64_t i : index) to = std::copy_n(x.data() + (o * s.n + i) * s.inner, s.inner, to);
    return c.put(out.finish());
  });
}

// Turns `index` into offsets into an operand of shape `dims`: position of the index with the coordinate along `axis` replaced by
// its value.
bool element_offsets(Context& c, std::span<const int64_t> dims, std::span<const int64_t> index_dims, int64_t axis,
                     std::vector<int64_t>* index) {
  const auto strides = strides_of(dims);
  const auto k = static_cast<size_t>(axis);
  for (size_t i = 0; i < dims.size(); ++i)
    if (i != k && index_dims[i] > dims[i])
      return c.fail("indices " + show(DType::I64, index_dims) + " exceed the operand " + show(DType::I64, dims));
  std::vector<int64_t> at(dims.size(), 0);
  for (auto& entry : *index) {
    if (!normalise(c, &entry, dims[k])) return false;
    entry *= strides[k];
    for (size_t i = 0; i < dims.size(); ++i)
      if (i != k) entry += at[i] * strides[i];
    for (size_t i = dims.size(); i-- > 0;) {
      if (++at[i] < index_dims[i]) break;
      at[i] = 0;
    }
  }
  return true;
}

// Offsets of the slices selected by the last axis of the indices, in an operand of shape `dims`, after `batch` leading axes.
bool slice_offsets(Context& c, std::span<const int64_t> dims, std::span<const int64_t> index_dims, int64_t batch,
                   std::vector<int64_t>* offsets) {
  const auto index = c.ints(1);
  const auto strides = strides_of(dims);
  const auto width = index_dims.back();
  int64_t batches = 1;
  for (int64_t i = 0; i < batch; ++i) batches *= dims[static_cast<size_t>(i)];
  const int64_t count = product(index_dims.first(index_dims.size() - 1));
  const int64_t batch_stride = batch > 0 ? strides[static_cast<size_t>(batch - 1)] : 0;
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = batch > 0 ? n / (count / batches) * batch_stride : 0;
    for (int64_t k = 0; k < width; ++k) {
      int64_t i = index[static_cast<size_t>(n * width + k)];
      if (!normalise(c, &i, dims[static_cast<size_t>(batch + k)])) return false;
      offset += i * strides[static_cast<size_t>(batch + k)];
    }
    offsets->push_back(offset);
  }
  return true;
}

// Gathers blocks of `inner` elements at the offsets.
bool read_blocks(Context& c, const std::vector<int64_t>& offsets, int64_t inner) {
  TensorData d;
  if (!c.make_result(0, &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  if (d.elements() == 0) return c.put(std::move(d));
  return with_cells(d.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> x(c.t(0));
    CellWriter<T> out(std::move(d));
    T* to = out.data();
    for (int64_t o : offsets) to = std::copy_n(x.data() + o, inner, to);
    return c.put(out.finish());
  });
}

// Copies operand 0 and writes or combines blocks of operand 2 at the offsets, in order.
bool write_blocks(Context& c, const std::vector<int64_t>& offsets, int64_t inner) {
  const Reduction reduction = c.a<ScatterAttrs>().reduction;
  TensorData d;
  if (!c.make_result(0, &d) ||
      !c.charge(static_cast<double>(d.elements()) + static_cast<double>(offsets.size()) * static_cast<double>(inner)))
    return false;
  if (reduction == Reduction::None)
    return with_cells(d.dtype, [&](auto cell) {
      using T = decltype(cell);
      const Cells<T> x(c.t(0)), updates(c.t(2));
      const int64_t n = d.elements();
      CellWriter<T> out(std::move(d));
      if (n > 0) std::copy_n(x.data(), n, out.data());
      const T* from = updates.data();
      for (int64_t o : offsets) std::copy_n(from, inner, out.data() + o), from += inner;
      return c.put(out.finish());
    });
  const bool done = with_numbers(d.dtype, [&](auto number) {
    using V = decltype(number);
    if constexpr (std::is_same_v<V, Complex>) return c.unsupported("combining is not defined for complex numbers");
    else {
      auto x = load_all<V>(c.t(0));
      const auto updates = load_all<V>(c.t(2));
      const V* from = updates.data();
      for (int64_t o : offsets)
        for (int64_t i = 0; i < inner; ++i, ++from) {
          V& to = x[static_cast<size_t>(o + i)];
          switch (reduction) {
            case Reduction::Add: to = to + *from; break;
            case Reduction::Mul: to = to * *from; break;
            case Reduction::Max: to = ops::max(to, *from); break;
            default: to = ops::min(to, *from); break;
          }
          // Rounds to the element type after each combination.
          if (std::is_same_v<V, double> && d.dtype != DType::F64) store(d, o + i, 1, &to), load(d, o + i, 1, &to);
        }
      store(d, 0, d.elements(), x.data());
      return c.put(std::move(d));
    }
  });
  return done || c.unsupported("combining is not defined for strings");
}

bool eval_gather_elements(Context& c) {
  auto index = c.ints(1);
  return element_offsets(c, c.dims(0), c.dims(1), c.a<AxisAttrs>().axis, &index) && read_blocks(c, index, 1);
}

bool eval_gather_nd(Context& c) {
  const int64_t batch = c.a<BatchDimsAttrs>().batch_dims;
  std::vector<int64_t> offsets;
  const int64_t inner = product(std::span(c.dims(0)).subspan(static_cast<size_t>(batch + c.dims(1).back())));
  return slice_offsets(c, c.dims(0), c.dims(1), batch, &offsets) && read_blocks(c, offsets, inner);
}

bool eval_scatter_elements(Context& c) {
  auto index = c.ints(1);
  return element_offsets(c, c.dims(0), c.dims(1), c.a<ScatterAttrs>().axis, &index) && write_blocks(c, index, 1);
}

bool eval_scatter_nd(Context& c) {
  std::vector<int64_t> offsets;
  const int64_t inner = product(std::span(c.dims(0)).subspan(static_cast<size_t>(c.dims(1).back())));
  return slice_offsets(c, c.dims(0), c.dims(1), 0, &offsets) && write_blocks(c, offsets, inner);
}

}  // namespace

std::span<const Entry> scatter_evaluators() {
  static constexpr Entry kTable[] = {{OpKind::Gather, eval_gather},
                                     {OpKind::GatherElements, eval_gather_elements},
                                     {OpKind::GatherNd, eval_gather_nd},
                                     {OpKind::ScatterElements, eval_scatter_elements},
                                     {OpKind::ScatterNd, eval_scatter_nd}};
  return kTable;
}

}  // namespace rlxc::eval
