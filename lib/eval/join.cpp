#include "eval/join.h"

#include <algorithm>

namespace rlxc::eval {

bool join(Context& c, std::span<const TensorData* const> parts, int64_t axis, bool new_axis, TensorData* out) {
  const auto k = static_cast<size_t>(axis);
  std::vector<int64_t> dims = parts[0]->dims;
  if (k > dims.size() || (!new_axis && k == dims.size())) return c.fail("axis " + std::to_string(axis) + " is out of range");
  if (new_axis) dims.insert(dims.begin() + axis, static_cast<int64_t>(parts.size()));
  for (size_t i = 1; i < parts.size(); ++i) {
    std::vector<int64_t> other = parts[i]->dims;
    if (new_axis) other.insert(other.begin() + std::min<int64_t>(axis, static_cast<int64_t>(other.size())), dims[k]);
    else if (other.size() == dims.size()) {
      dims[k] += other[k];
      other[k] = dims[k];
    }
    if (other != dims || parts[i]->dtype != parts[0]->dtype)
      return c.fail("cannot join " + show(parts[0]->dtype, parts[0]->dims) + " and " + show(parts[i]->dtype, parts[i]->dims));
  }
  TensorData d;
  if (!c.make(parts[0]->dtype, dims, &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  const Split whole = split_at(dims, axis);
  return with_cells(d.dtype, [&](auto cell) {
    using T = decltype(cell);
    CellWriter<T> writer(std::move(d));
    int64_t at = 0;
    for (const TensorData* part : parts) {
      const Cells<T> x(*part);
      const int64_t n = part->elements(), block = whole.outer > 0 ? n / whole.outer : 0;
      for (int64_t o = 0; n > 0 && o < whole.outer; ++o)
        std::copy_n(x.data() + o * block, block, writer.data() + o * whole.n * whole.inner + at);
      at += block;
    }
    *out = writer.finish();
    return true;
  });
}

bool take(Context& c, const TensorData& x, int64_t axis, int64_t first, int64_t count, TensorData* out) {
  auto dims = x.dims;
  const Split s = split_at(dims, axis);
  dims[static_cast<size_t>(axis)] = count;
  TensorData d;
  if (!c.make(x.dtype, std::move(dims), &d) || !c.charge(static_cast<double>(d.elements()))) return false;
  return with_cells(x.dtype, [&](auto cell) {
    using T = decltype(cell);
    const bool any = d.elements() > 0;
    const Cells<T> in(x);
    CellWriter<T> writer(std::move(d));
    for (int64_t o = 0; any && o < s.outer; ++o)
      std::copy_n(in.data() + (o * s.n + first) * s.inner, count * s.inner, writer.data() + o * count * s.inner);
    *out = writer.finish();
    return true;
  });
}

}  // namespace rlxc::eval
