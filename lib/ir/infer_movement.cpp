// Type rules of ops that move or select elements.
#include <algorithm>

#include "ir/infer.h"

namespace rlxc {
namespace {

bool is_index(InferContext& c, size_t i) {
  const DType t = c.t(i).dtype;
  return t == DType::I64 || t == DType::I32 ? true : c.fail("indices must be i32 or i64, are " + c.show(i));
}

}  // namespace

bool infer_reshape(InferContext& c) {
  const auto& to = c.a<DimsAttrs>().dims;
  DimTable& t = c.dims();
  const Dim have = t.product(c.t(0).dims), want = t.product(to);
  for (Dim d : to)
    if (auto v = t.constant_value(d); v && *v < 0) return c.fail("a size is negative");
  if (!t.equal(have, want) && !t.need_equal(have, want))
    return c.fail("cannot reshape " + c.show(0) + " (" + t.text(have) + " elements) to " + t.text(want) + " elements");
  return c.result(c.t(0).dtype, to);
}

bool infer_transpose(InferContext& c) {
  const auto& perm = c.a<PermAttrs>().perm;
  const auto& d = c.t(0).dims;
  if (perm.size() != d.size()) return c.fail("perm has " + std::to_string(perm.size()) + " entries for " + c.show(0));
  std::vector<Dim> out(d.size());
  std::vector<bool> seen(d.size());
  for (size_t i = 0; i < d.size(); ++i) {
    if (!check_axis(c, perm[i], c.t(0).rank())) return false;
    const auto p = static_cast<size_t>(perm[i]);
    if (seen[p]) return c.fail("perm repeats axis " + std::to_string(perm[i]));
    seen[p] = true;
    out[i] = d[p];
  }
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_narrow(InferContext& c) {
  const auto& a = c.a<NarrowAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  std::vector<Dim> out = c.t(0).dims;
  Dim& d = out[static_cast<size_t>(a.axis)];
  DimTable& t = c.dims();
  const auto end = t.constant_value(t.sub(d, t.add(a.start, a.len)));
  const auto start = t.constant_value(a.start), len = t.constant_value(a.len);
  if ((end && *end < 0) || (start && *start < 0) || (len && *len < 0))
    return c.fail("elements " + t.text(a.start) + ".." + t.text(t.add(a.start, a.len)) + " are outside axis of size " +
                  t.text(d));
  d = a.len;
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_slice(InferContext& c) {
  const auto& a = c.a<SliceAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  if (a.step == 0) return c.fail("step is 0");
  std::vector<Dim> out = c.t(0).dims;
  Dim& d = out[static_cast<size_t>(a.axis)];
  const auto size = c.dims().constant_value(d), start = c.dims().constant_value(a.start), len = c.dims().constant_value(a.len);
  if (len && *len < 0) return c.fail("length is negative");
  if (size && start && len && *len > 0) {
    const int64_t last = *start + (*len - 1) * a.step;
    if (*start < 0 || *start >= *size || last < 0 || last >= *size)
      return c.fail("elements are outside axis of size " + std::to_string(*size));
  }
  d = a.len;
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_concat(InferContext& c) {
  const int64_t axis = c.a<AxisAttrs>().axis;
  if (!check_axis(c, axis, c.t(0).rank())) return false;
  std::vector<Dim> out = c.t(0).dims;
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (!c.has(i)) return c.fail("operand " + std::to_string(i) + " is absent");
    if (!same_dtype(c, 0, i)) return false;
    if (c.t(i).rank() != c.t(0).rank()) return c.fail("ranks differ: " + c.show(0) + " and " + c.show(i));
    for (size_t k = 0; k < out.size(); ++k) {
      const Dim d = c.t(i).dims[k];
      if (static_cast<int64_t>(k) == axis) out[k] = c.dims().add(out[k], d);
      else if (!require_equal(c, out[k], d, "sizes off the concat axis")) return false;
    }
  }
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_expand(InferContext& c) {
  const auto& to = c.a<DimsAttrs>().dims;
  const auto& d = c.t(0).dims;
  if (to.size() < d.size()) return c.fail("cannot lower the rank of " + c.show(0));
  for (size_t i = 0; i < d.size(); ++i) {
    const Dim target = to[to.size() - d.size() + i];
    if (d[i] != Dim(1) && !require_equal(c, d[i], target, "sizes to expand")) return false;
  }
  return c.result(c.t(0).dtype, to);
}

bool infer_gather(InferContext& c) {
  const int64_t axis = c.a<AxisAttrs>().axis;
  if (!check_axis(c, axis, c.t(0).rank()) || !is_index(c, 1)) return false;
  const auto& d = c.t(0).dims;
  std::vector<Dim> out(d.begin(), d.begin() + axis);
  out.insert(out.end(), c.t(1).dims.begin(), c.t(1).dims.end());
  out.insert(out.end(), d.begin() + axis + 1, d.end());
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_gather_elements(InferContext& c) {
  if (!check_axis(c, c.a<AxisAttrs>().axis, c.t(0).rank()) || !is_index(c, 1)) return false;
  if (c.t(0).rank() != c.t(1).rank()) return c.fail("ranks differ: " + c.show(0) + " and " + c.show(1));
  return c.result(c.t(0).dtype, c.t(1).dims);
}

bool infer_gather_nd(InferContext& c) {
  const int64_t batch = c.a<BatchDimsAttrs>().batch_dims;
  if (!is_index(c, 1)) return false;
  const auto& x = c.t(0).dims;
  const auto& idx = c.t(1).dims;
  if (idx.empty() || batch < 0 || batch >= static_cast<int64_t>(idx.size()) || batch > static_cast<int64_t>(x.size()))
    return c.fail("batch_dims " + std::to_string(batch) + " does not fit " + c.show(0) + ", " + c.show(1));
  const auto k = c.dims().constant_value(idx.back());
  if (!k || *k < 1 || batch + *k > static_cast<int64_t>(x.size()))
    return c.fail("last size of the indices must be 1.." + std::to_string(x.size()));
  for (int64_t i = 0; i < batch; ++i)
    if (!require_equal(c, x[static_cast<size_t>(i)], idx[static_cast<size_t>(i)], "batch sizes")) return false;
  std::vector<Dim> out(idx.begin(), idx.end() - 1);
  out.insert(out.end(), x.begin() + batch + *k, x.end());
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_scatter(InferContext& c) {
  if (!is_index(c, 1) || !same_dtype(c, 0, 2)) return false;
  if (c.t(0).dtype == DType::Bool && c.a<ScatterAttrs>().reduction != Reduction::None) return c.fail("bools can't be combined");
  if (c.op == OpKind::ScatterElements) {
    if (!check_axis(c, c.a<ScatterAttrs>().axis, c.t(0).rank())) return false;
    if (c.t(1).rank() != c.t(0).rank() || c.t(2).rank() != c.t(0).rank())
      return c.fail("ranks differ: " + c.show(0) + ", " + c.show(1) + ", " + c.show(2));
    for (size_t i = 0; i < c.t(1).dims.size(); ++i)
      if (!require_equal(c, c.t(1).dims[i], c.t(2).dims[i], "sizes of indices and updates")) return false;
  } else {
    const auto k = c.t(1).dims.empty() ? std::nullopt : c.dims().constant_value(c.t(1).dims.back());
    if (!k || *k < 0 || *k > c.t(0).rank()) return c.fail("last size of the indices does not fit " + c.show(0));
    std::vector<Dim> want(c.t(1).dims.begin(), c.t(1).dims.end() - 1);
    want.insert(want.end(), c.t(0).dims.begin() + *k, c.t(0).dims.end());
    if (want.size() != c.t(2).dims.size()) return c.fail("updates have the wrong rank: " + c.show(2));
    for (size_t i = 0; i < want.size(); ++i)
      if (!require_equal(c, want[i], c.t(2).dims[i], "sizes of updates")) return false;
  }
  return c.result(c.t(0));
}

bool infer_pad(InferContext& c) {
  const auto& a = c.a<PadAttrs>();
  const size_t rank = c.t(0).dims.size();
  if (a.before.size() != rank || a.after.size() != rank) return c.fail("needs one padding per axis at each end");
  if (c.has(1) && (!same_dtype(c, 0, 1) || num_elements(c.t(1)) != 1))
    return c.fail("the fill must be one element of the same type");
  std::vector<Dim> out;
  for (size_t i = 0; i < rank; ++i) {
    const Dim d = c.dims().add(c.t(0).dims[i], c.dims().add(a.before[i], a.after[i]));
    if (auto v = c.dims().constant_value(d); v && *v < 0)
      return c.fail("axis " + std::to_string(i) + " would have a negative size");
    const Dim added = c.dims().add(c.dims().max(a.before[i], Dim(0)), c.dims().max(a.after[i], Dim(0)));
    if (a.mode != PadMode::Constant && added != Dim(0)) {
      const Dim one = c.dims().min(added, Dim(1)), least = a.mode == PadMode::Reflect ? c.dims().mul(one, Dim(2)) : one;
      if (!require_at_most(c, least, c.t(0).dims[i], "size of axis " + std::to_string(i) + " to extend")) return false;
    }
    out.push_back(d);
  }
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_reverse(InferContext& c) {
  std::vector<bool> reversed(c.t(0).dims.size());
  for (int64_t axis : c.a<AxesAttrs>().axes) {
    if (!check_axis(c, axis, c.t(0).rank())) return false;
    if (reversed[static_cast<size_t>(axis)]) return c.fail("axis " + std::to_string(axis) + " is listed twice");
    reversed[static_cast<size_t>(axis)] = true;
  }
  return c.result(c.t(0));
}

bool infer_trilu(InferContext& c) {
  if (c.t(0).rank() < 2) return c.fail("needs at least two axes: " + c.show(0));
  if (c.has(1) && (!is_integer(c.t(1).dtype) || num_elements(c.t(1)).value_or(1) != 1))
    return c.fail("the diagonal must be one integer, is " + c.show(1));
  return c.result(c.t(0));
}

bool infer_tile(InferContext& c) {
  const auto& reps = c.a<DimsAttrs>().dims;
  if (reps.size() != c.t(0).dims.size()) return c.fail("needs one repeat per axis");
  std::vector<Dim> out;
  for (size_t i = 0; i < reps.size(); ++i) out.push_back(c.dims().mul(c.t(0).dims[i], reps[i]));
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_range(InferContext& c) {
  if (c.a<DimsAttrs>().dims.size() != 1) return c.fail("needs one length");
  if (!same_dtype(c, 0, 1) || num_elements(c.t(0)) != 1 || num_elements(c.t(1)) != 1)
    return c.fail("start and step must be scalars of one type");
  return c.result(c.t(0).dtype, c.a<DimsAttrs>().dims);
}

bool infer_one_hot(InferContext& c) {
  const auto& a = c.a<OneHotAttrs>();
  if (a.axis < 0 || a.axis > c.t(0).rank()) return c.fail("axis " + std::to_string(a.axis) + " is out of range");
  if (num_elements(c.t(1)) != 2) return c.fail("values must be [off, on]");
  std::vector<Dim> out = c.t(0).dims;
  out.insert(out.begin() + a.axis, a.depth);
  return c.result(c.t(1).dtype, std::move(out));
}

bool infer_resize(InferContext& c) {
  const auto& a = c.a<ResizeAttrs>();
  if (a.sizes.size() != c.t(0).dims.size()) return c.fail("needs one size per axis");
  if (!a.scales.empty() && a.scales.size() != a.sizes.size()) return c.fail("needs one scale per axis");
  if (a.mode == ResizeMode::Nearest && c.has(kResultScale)) return c.fail("only what is interpolated is quantized");
  return rounded_result(c, kResultScale, c.t(0).dtype, a.sizes);
}

}  // namespace rlxc
