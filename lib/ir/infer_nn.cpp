// Type rules of normalisation, attention, convolution, pooling, recurrent and quantization ops.
#include "ir/infer.h"
#include "ir/region.h"

namespace rlxc {
namespace {

constexpr int64_t kMaxKernel = int64_t{1} << 20;  // limit on kernel, stride, dilation and padding; keeps products exact

// Checks the length and the range of a per-axis list.
bool spatial_list(InferContext& c, const std::vector<int64_t>& list, size_t n, int64_t low, std::string_view what) {
  if (list.size() != n)
    return c.fail(std::string(what) + " needs " + std::to_string(n) + " entries, has " + std::to_string(list.size()));
  for (int64_t v : list)
    if (v < low || v > kMaxKernel)
      return c.fail(std::string(what) + " has " + std::to_string(v) + ", must be " + std::to_string(low) + ".." +
                    std::to_string(kMaxKernel));
  return true;
}

bool optional_vector(InferContext& c, size_t i, Dim size, std::string_view what) {
  if (!c.has(i)) return true;
  if (c.t(i).rank() != 1) return c.fail(std::string(what) + " must have one axis, is " + c.show(i));
  return require_equal(c, c.t(i).dims[0], size, what);
}

bool of_shape(InferContext& c, size_t i, const std::vector<Dim>& shape, std::string_view what) {
  if (!c.has(i)) return true;
  if (c.t(i).dims.size() != shape.size())
    return c.fail(std::string(what) + " must be of rank " + std::to_string(shape.size()) + ", is " + c.show(i));
  for (size_t k = 0; k < shape.size(); ++k)
    if (!require_equal(c, c.t(i).dims[k], shape[k], "sizes of " + std::string(what))) return false;
  return true;
}

bool conv_checks(InferContext& c, const ConvAttrs& a, int64_t low_pad) {
  const size_t spatial = c.t(0).dims.size() < 3 ? 0 : c.t(0).dims.size() - 2;
  if (spatial < 1 || c.t(1).rank() != c.t(0).rank())
    return c.fail("needs x [N,C,...] and w of the same rank >= 3: " + c.show(0) + ", " + c.show(1));
  if (a.groups < 1) return c.fail("groups is " + std::to_string(a.groups) + ", must be >= 1");
  return spatial_list(c, a.strides, spatial, 1, "strides") && spatial_list(c, a.dilations, spatial, 1, "dilations") &&
         spatial_list(c, a.pads_begin, spatial, low_pad, "pads") && spatial_list(c, a.pads_end, spatial, low_pad, "pads");
}

std::optional<int64_t> kernel_size(InferContext& c, size_t axis) {
  const auto k = c.dims().constant_value(c.t(1).dims[axis + 2]);
  if (!k || *k < 1 || *k > kMaxKernel) {
    c.fail("kernel sizes must be known and positive: " + c.show(1));
    return std::nullopt;
  }
  return k;
}

// Whether n windows along an axis of size `in` are at least one, where one window needs `least` elements. Recorded for least > 1
// only: for less, an empty axis has no window.
bool has_window(InferContext& c, Dim n, Dim in, int64_t least, size_t axis) {
  if (const auto count = c.dims().constant_value(n); count && *count < 1)
    return c.fail("the window is larger than the padded input on axis " + std::to_string(axis));
  return least < 2 || require_at_most(c, Dim(least), in, "size of axis " + std::to_string(axis) + " under a window");
}

bool conv_dims(InferContext& c, const ConvAttrs& a, std::vector<Dim>* out) {
  if (!conv_checks(c, a, 0)) return false;
  const auto &x = c.t(0).dims, &w = c.t(1).dims;
  if (!require_equal(c, x[1], c.dims().mul(w[1], Dim(a.groups)), "channels of x and w*groups")) return false;
  if (const auto co = c.dims().constant_value(w[0]); co && *co % a.groups != 0)
    return c.fail("groups does not divide the output channels");
  *out = {x[0], w[0]};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const auto k = kernel_size(c, i);
    if (!k) return false;
    const Dim d = conv_output_size(c.dims(), x[i + 2], *k, a.strides[i], a.pads_begin[i], a.pads_end[i], a.dilations[i], false);
    if (!has_window(c, d, x[i + 2], a.dilations[i] * (*k - 1) + 1 - a.pads_begin[i] - a.pads_end[i], i + 2)) return false;
    out->push_back(d);
  }
  return optional_vector(c, 2, w[0], "bias");
}

bool conv_transpose_dims(InferContext& c, const ConvAttrs& a, std::vector<Dim>* out) {
  if (!same_dtype(c, 0, 1) || !conv_checks(c, a, -kMaxKernel)) return false;
  const auto &x = c.t(0).dims, &w = c.t(1).dims;
  if (!require_equal(c, x[1], w[0], "channels of x and w")) return false;
  if (const auto ci = c.dims().constant_value(w[0]); ci && *ci % a.groups != 0)
    return c.fail("groups does not divide the input channels");
  if (!a.output_padding.empty() && !spatial_list(c, a.output_padding, x.size() - 2, 0, "output_padding")) return false;
  *out = {x[0], c.dims().mul(w[1], Dim(a.groups))};
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    const auto k = kernel_size(c, i);
    if (!k) return false;
    const int64_t extra =
        a.dilations[i] * (*k - 1) + 1 - a.pads_begin[i] - a.pads_end[i] + (a.output_padding.empty() ? 0 : a.output_padding[i]);
    const Dim d = c.dims().add(c.dims().mul(c.dims().sub(x[i + 2], Dim(1)), Dim(a.strides[i])), c.dims().constant(extra));
    if (const auto n = c.dims().constant_value(d); n && *n < 0)
      return c.fail("axis " + std::to_string(i + 2) + " would have a negative size");
    const int64_t least =
        1 + (std::max<int64_t>(-extra, 0) + a.strides[i] - 1) / a.strides[i];  // that padding leaves a result of
    if (least > 1 && !require_at_most(c, Dim(least), x[i + 2], "size of axis " + std::to_string(i + 2))) return false;
    out->push_back(d);
  }
  return optional_vector(c, 2, (*out)[1], "bias");
}

// The result of a fused convolution. A residual must have its shape.
bool with_residual(InferContext& c, std::vector<Dim> out) {
  if (c.has(3) && (!same_dtype(c, 0, 3) || c.t(3).dims != out))
    return c.fail("the residual " + c.show(3) + " must have the result's shape");
  return c.result(c.t(0).dtype, std::move(out));
}

bool affine(InferContext& c, size_t gamma, const std::vector<Dim>& tail) {
  for (size_t i = gamma; i < gamma + 2; ++i) {
    if (!c.has(i)) continue;
    std::vector<Dim> wide;
    if (!broadcast(c, c.t(i).dims, tail, &wide)) return false;
    if (!std::ranges::equal(wide, tail, [&](Dim a, Dim b) { return c.dims().equal(a, b); }))
      return c.fail("scale and shift must fit the normalised axes: " + c.show(i));
  }
  return true;
}

// Checks operand x, which is rotated, and its tables of cosines (`table`) and sines.
bool rope_fits(InferContext& c, size_t x, size_t table) {
  const auto& a = c.a<RopeAttrs>();
  const auto &d = c.t(x).dims, &cosines = c.t(table).dims;
  const bool packed = a.layout == AttentionLayout::Packed;
  if (d.size() != (packed ? 3u : 4u)) return c.fail("x does not have the rank of its layout: " + c.show(x));
  const auto known = [&](Dim size) { return c.dims().constant_value(size); };
  const auto width = packed ? std::optional(a.head_dim) : known(d[3]);
  const int64_t rotated = a.n_rot ? a.n_rot : width.value_or(0);
  if ((width && (*width < 1 || rotated > *width)) || rotated < 0 || rotated % 2 ||
      (packed && known(d[2]).value_or(0) % a.head_dim != 0))
    return c.fail("n_rot or head_dim does not fit x: " + c.show(x));
  if (cosines.empty() || c.t(table + 1).dims.size() != cosines.size())
    return c.fail("the tables must have one shape: " + c.show(table) + ", " + c.show(table + 1));
  for (size_t k = 0; k < cosines.size(); ++k)
    if (!require_equal(c, cosines[k], c.t(table + 1).dims[k], "sizes of the tables")) return false;
  const auto columns = known(cosines.back()), rows = cosines.size() > 1 ? known(cosines[cosines.size() - 2]) : 1,
             length = known(d[packed || a.layout == AttentionLayout::BSHD ? 1 : 2]);
  if ((width && columns && (*columns < rotated / 2 || (*columns > rotated / 2 && *columns < rotated))) ||
      (rows && length && *rows != 1 && *rows < *length))
    return c.fail("tables " + c.show(table) + " do not cover x " + c.show(x));
  return true;
}

// Checks the scale, and the zero point, of a quantized tensor: one, one per coordinate of the axis, or one per block of it.
bool scales_fit(InferContext& c) {
  const auto& a = c.a<QuantAttrs>();
  const auto &x = c.t(0).dims, &s = c.t(1).dims;
  const auto count = num_elements(c.t(1));
  if (c.has(2) && count && num_elements(c.t(2)).value_or(*count) != *count)
    return c.fail("scale and zero point must have one shape: " + c.show(1) + ", " + c.show(2));
  if (!count || *count == 1) return true;
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  const auto axis = static_cast<size_t>(a.axis);
  const auto differ = [&](Dim p, Dim q) {
    const auto m = c.dims().constant_value(p), n = c.dims().constant_value(q);
    return m && n && *m != *n;
  };
  if (a.block == 0 && differ(Dim(*count), x[axis]))
    return c.fail("needs one scale per coordinate of axis " + std::to_string(axis) + ", has " + c.show(1));
  bool fits = a.block >= 0 && (a.block == 0 || s.size() == x.size());
  for (size_t k = 0; fits && a.block > 0 && k < x.size(); ++k)
    fits = !differ(s[k], k == axis ? c.dims().ceil_div(x[k], Dim(a.block)) : x[k]);
  return fits || c.fail("scales " + c.show(1) + " of blocks of " + std::to_string(a.block) + " do not fit " + c.show(0));
}

}  // namespace

bool infer_softmax(InferContext& c) {
  return check_axis(c, c.a<AxisAttrs>().axis, c.t(0).rank()) && rounded_result(c, kResultScale, c.t(0).dtype, c.t(0).dims);
}

bool infer_norm(InferContext& c) {
  const auto& a = c.a<NormAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  const auto& d = c.t(0).dims;
  return affine(c, 1, {d.begin() + a.axis, d.end()}) && c.result(c.t(0));
}

bool infer_fused_residual_norm(InferContext& c) {
  const auto& a = c.a<NormAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank()) || !same_dtype(c, 0, 1)) return false;
  const auto& d = c.t(0).dims;
  if (c.t(1).dims != d) return c.fail("x and residual must have one shape: " + c.show(0) + ", " + c.show(1));
  const std::vector<Dim> tail(d.begin() + a.axis, d.end());
  if (c.has(2)) {
    std::vector<Dim> wide;
    if (!broadcast(c, c.t(2).dims, d, &wide) || wide != d) return c.fail("bias must broadcast to x");
  }
  return affine(c, 3, tail) && c.result(c.t(0)) && c.result(c.t(0));
}

bool infer_rope(InferContext& c) {
  const auto& a = c.a<RopeAttrs>();
  if (!rope_fits(c, 0, 1)) return false;
  const auto& d = c.t(0).dims;
  const bool packed = a.layout == AttentionLayout::Packed;
  const Dim width = packed ? Dim(a.head_dim) : d[3];
  const Dim heads = packed ? c.dims().floor_div(d[2], width) : d[a.layout == AttentionLayout::BHSD ? 1 : 2];
  const auto fits_heads = [&](const Type& t) {
    return num_elements(t) == 1 || (packed && t.rank() == 1 && c.dims().need_equal(t.dims[0], heads));
  };
  if (c.has(kRopeFactor) && (!c.has(kRopeFactor + 1) || c.t(kRopeFactor).dtype != DType::F32 || !fits_heads(c.t(kRopeFactor))))
    return c.fail("the factor must be one f32 number, or one for each head, before a scale");
  const auto result = [&] { return rounded_result(c, kRopeFactor + 1, c.t(0).dtype, d, fits_heads); };
  if (!c.has(3)) return result();
  const auto& g = c.t(3).dims;
  if (!is_float(c.t(3).dtype)) return c.fail("the scale of the heads must be of floats: " + c.show(3));
  const bool fits = (g.size() == 1 && g[0] == width) || (g.size() == 2 && g[0] == heads && g[1] == width);
  return fits ? result() : c.fail("the scale must be [head size] or [heads, head size]: " + c.show(3));
}

namespace {

// Whether keys and values have the type of the queries, or 16 bits beside f32 queries.
bool fits_queries(InferContext& c, size_t keys, size_t values) {
  const DType q = c.t(0).dtype, k = c.t(keys).dtype;
  return same_dtype(c, keys, values) && ((q == DType::F32 && is_float(k) && bits(k) == 16) || same_dtype(c, 0, keys));
}

}  // namespace

bool infer_fused_rope_append(InferContext& c) {
  const size_t caches = kRopeAppendCaches, at = caches + 2;
  const auto& a = c.a<RopeAttrs>();
  for (size_t i : {size_t{0}, size_t{1}, size_t{2}, caches, caches + 1, at})
    if (c.t(i).rank() != 4) return c.fail("q, k, v, the caches and the rows need 4 axes: " + c.show(i));
  if (c.t(at).dtype != DType::I64) return c.fail("the rows must be i64: " + c.show(at));
  if (a.layout != AttentionLayout::BHSD) return c.fail("the layout must be bhsd");
  if (!rope_fits(c, 0, 3) || !rope_fits(c, 1, 3)) return false;
  const auto &q = c.t(0).dims, &rows = c.t(at).dims;
  if (!same_dtype(c, 0, 1) || !same_dtype(c, 0, 2) || !fits_queries(c, caches, caches + 1)) return false;
  for (size_t i : {size_t{1}, size_t{2}, caches, caches + 1}) {
    const auto& d = c.t(i).dims;
    if (!require_equal(c, q[0], d[0], "batch sizes") || !require_equal(c, c.t(1).dims[1], d[1], "numbers of heads of k and v"))
      return false;
    if (i < caches && !require_equal(c, q[2], d[2], "lengths of q, k and v")) return false;
    if (!require_equal(c, i == 1 || i == caches ? q[3] : c.t(2).dims[3], d[3], "sizes of heads")) return false;
  }
  if (!require_equal(c, c.t(caches).dims[2], c.t(caches + 1).dims[2], "rows of the caches")) return false;
  if (!require_equal(c, q[2], rows[2], "rows and the length of k")) return false;
  if (!(rows[0] == 1 || rows[0] == q[0]) || !(rows[1] == 1) || !(rows[3] == 1))
    return c.fail("the rows must be [batch or 1, 1, length, 1]: " + c.show(at));
  return c.result(c.t(0)) && c.result(c.t(caches)) && c.result(c.t(caches + 1));
}

bool infer_group_norm(InferContext& c) {
  const auto& a = c.a<GroupNormAttrs>();
  if (c.t(0).rank() < 2) return c.fail("needs [N,C,...]: " + c.show(0));
  const Dim channels = c.t(0).dims[1];
  if (a.groups < 1) return c.fail("groups must be >= 1");
  if (const auto n = c.dims().constant_value(channels); n && *n % a.groups != 0)
    return c.fail("groups does not divide the channels");
  return optional_vector(c, 1, channels, "gamma") && optional_vector(c, 2, channels, "beta") && c.result(c.t(0));
}

bool infer_batch_norm(InferContext& c) {
  const auto& a = c.a<NormAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  for (size_t i = 1; i < 5; ++i)
    if (!optional_vector(c, i, c.t(0).dims[static_cast<size_t>(a.axis)], "a per-channel operand")) return false;
  return c.result(c.t(0));
}

bool infer_attention(InferContext& c) {
  const auto& a = c.a<AttentionAttrs>();
  const bool packed = a.layout == AttentionLayout::Packed;
  for (size_t i = 0; i < 3; ++i)
    if (c.t(i).rank() != (packed ? 3 : 4))
      return c.fail("q, k, v need " + std::to_string(packed ? 3 : 4) + " axes: " + c.show(i));
  if (!fits_queries(c, 1, 2)) return false;
  DimTable& t = c.dims();
  struct Parts {
    Dim b, h, s, d;
  };
  auto split = [&](size_t i, int64_t heads) -> Parts {
    const auto& d = c.t(i).dims;
    if (packed) return {d[0], Dim(heads), d[1], t.floor_div(d[2], Dim(heads))};
    if (a.layout == AttentionLayout::BSHD) return {d[0], d[2], d[1], d[3]};
    if (i == 1 && a.k_transposed) return {d[0], d[1], d[3], d[2]};
    return {d[0], d[1], d[2], d[3]};
  };
  if (packed && (a.num_heads < 1 || a.num_kv_heads < 0)) return c.fail("the packed layout needs num_heads");
  const int64_t kv_heads = a.kv_heads();
  const Parts q = split(0, a.num_heads), k = split(1, kv_heads), v = split(2, kv_heads);
  if (!require_equal(c, q.b, k.b, "batch sizes") || !require_equal(c, q.b, v.b, "batch sizes") ||
      !require_equal(c, q.d, k.d, "head sizes of q and k") || !require_equal(c, k.s, v.s, "lengths of k and v") ||
      !require_equal(c, k.h, v.h, "heads of k and v"))
    return false;
  const auto qh = t.constant_value(q.h), kh = t.constant_value(k.h);
  if (qh && kh && (*kh == 0 || *qh % *kh != 0)) return c.fail("heads of q must be a multiple of heads of k");
  const bool needs_mask = a.mask == MaskKind::Custom || a.mask == MaskKind::Bias;
  if (needs_mask && !c.has(3)) return c.fail("the mask operand is absent");
  if (c.has(3) && a.mask == MaskKind::None) return c.fail("a mask operand needs a mask kind");
  if (c.has(3)) {
    std::vector<Dim> wide;
    const std::vector<Dim> scores{q.b, q.h, q.s, k.s};
    if (!broadcast(c, c.t(3).dims, scores, &wide)) return false;
    if (wide.size() != 4) return c.fail("the mask must broadcast to [B,H,Sq,Sk]");
    for (size_t i = 0; i < 4; ++i)
      if (!require_equal(c, wide[i], scores[i], "sizes of the mask and the scores")) return false;
  }
  const auto result = [&](std::vector<Dim> dims) { return rounded_result(c, kAttentionScale, c.t(0).dtype, std::move(dims)); };
  if (a.out_layout == AttentionLayout::Packed) return result({q.b, q.s, t.mul(q.h, v.d)});
  if (a.out_layout == AttentionLayout::BSHD) return result({q.b, q.s, q.h, v.d});
  return result({q.b, q.h, q.s, v.d});
}

bool infer_conv(InferContext& c) {
  std::vector<Dim> out;
  return same_dtype(c, 0, 1) && same_dtype(c, 0, 2) && conv_dims(c, c.a<ConvAttrs>(), &out) &&
         c.result(c.t(0).dtype, std::move(out));
}

bool infer_fused_conv(InferContext& c) {
  std::vector<Dim> out;
  return same_dtype(c, 0, 1) && same_dtype(c, 0, 2) && conv_dims(c, c.a<FusedConvAttrs>().conv, &out) &&
         with_residual(c, std::move(out));
}

namespace {

// Operands 2 and 3 are zero points, not a bias.
bool q_conv_dims(InferContext& c, const ConvAttrs& a, std::vector<Dim>* out) {
  InferContext plain{c.module, c.op, c.attrs, c.in.first(2), {}, {}, {}};
  return conv_dims(plain, a, out) || c.fail(plain.error);
}

}  // namespace

bool infer_q_conv(InferContext& c) {
  std::vector<Dim> out;
  return q_conv_dims(c, c.a<ConvAttrs>(), &out) && c.result(DType::I32, std::move(out));
}

bool infer_fused_q_conv(InferContext& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<Dim> out;
  if (a.steps.empty() || !std::holds_alternative<ConvAttrs>(a.steps[0].attrs)) return c.fail("step 0 must be q_conv");
  return fits_rounded_operand(c) && q_conv_dims(c, conv_step(a), &out) &&
         infer_steps_after(c, OpKind::QConv, a.steps, out, a.also);
}

bool infer_conv_transpose(InferContext& c) {
  std::vector<Dim> out;
  return conv_transpose_dims(c, c.a<ConvAttrs>(), &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_fused_conv_transpose(InferContext& c) {
  std::vector<Dim> out;
  return same_dtype(c, 0, 2) && conv_transpose_dims(c, c.a<FusedConvAttrs>().conv, &out) && with_residual(c, std::move(out));
}

bool infer_pool(InferContext& c) {
  const auto& a = c.a<PoolAttrs>();
  const size_t spatial = c.t(0).dims.size() < 3 ? 0 : c.t(0).dims.size() - 2;
  if (spatial < 1) return c.fail("needs [N,C,...] of rank >= 3: " + c.show(0));
  if (!spatial_list(c, a.kernel, spatial, 1, "kernel") || !spatial_list(c, a.strides, spatial, 1, "strides") ||
      !spatial_list(c, a.dilations, spatial, 1, "dilations") || !spatial_list(c, a.pads_begin, spatial, 0, "pads") ||
      !spatial_list(c, a.pads_end, spatial, 0, "pads"))
    return false;
  std::vector<Dim> out{c.t(0).dims[0], c.t(0).dims[1]};
  for (size_t i = 0; i < spatial; ++i) {
    const Dim d = conv_output_size(c.dims(), c.t(0).dims[i + 2], a.kernel[i], a.strides[i], a.pads_begin[i], a.pads_end[i],
                                   a.dilations[i], a.ceil_mode);
    const int64_t least = a.dilations[i] * (a.kernel[i] - 1) + 1 - a.pads_begin[i] - a.pads_end[i];
    if (!has_window(c, d, c.t(0).dims[i + 2], a.ceil_mode ? least - a.strides[i] + 1 : least, i + 2)) return false;
    out.push_back(d);
  }
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_max_pool_indices(InferContext& c) {
  if (!infer_pool(c)) return false;
  return c.result(DType::I64, c.out[0].dims);
}

bool infer_lrn(InferContext& c) {
  if (c.t(0).rank() < 2) return c.fail("needs [N,C,...]: " + c.show(0));
  if (c.a<LrnAttrs>().size < 1) return c.fail("the size must be >= 1");
  return c.result(c.t(0));
}

bool infer_selective_scan(InferContext& c) {
  const auto &d = c.t(0).dims, &a = c.t(2).dims;
  for (size_t i = 1; i < 5; ++i)
    if (!same_dtype(c, 0, i)) return false;
  if (d.size() != 3 || a.size() != 2) return c.fail("needs x [b,s,h] and A [h,n]: " + c.show(0) + ", " + c.show(2));
  return require_equal(c, a[0], d[2], "rows of A and channels of x") && of_shape(c, 1, d, "delta") &&
         of_shape(c, 3, {d[0], d[1], a[1]}, "B") && of_shape(c, 4, {d[0], d[1], a[1]}, "C") && c.result(c.t(0));
}

bool infer_rnn(InferContext& c) {
  constexpr size_t kLengths = 4;
  const auto& a = c.a<RnnAttrs>();
  const auto& x = c.t(0).dims;
  if (x.size() != 3 || c.t(1).rank() != 3 || c.t(2).rank() != 3) return c.fail("x, w and r need three axes");
  if (a.hidden < 1 || a.hidden > kMaxKernel) return c.fail("hidden size must be positive");
  const int64_t directions = a.direction == RnnDirection::Bidirectional ? 2 : 1;
  const int64_t gates = c.op == OpKind::Lstm ? 4 : c.op == OpKind::Gru ? 3 : 1;
  const Dim seq = x[a.batch_first ? 1 : 0], batch = x[a.batch_first ? 0 : 1], d(directions), h(a.hidden);
  const std::vector<Dim> w{d, Dim(gates * a.hidden), x[2]}, r{d, Dim(gates * a.hidden), h};
  for (size_t i = 0; i < 3; ++i)
    if (!require_equal(c, c.t(1).dims[i], w[i], "sizes of w") || !require_equal(c, c.t(2).dims[i], r[i], "sizes of r"))
      return false;
  const DType t = c.t(0).dtype;
  const std::vector<Dim> state = a.batch_first ? std::vector<Dim>{batch, d, h} : std::vector<Dim>{d, batch, h};
  const std::pair<const char*, std::vector<Dim>> others[] = {{"bias", {d, Dim(2 * gates * a.hidden)}},
                                                             {"sequence_lens", {batch}},
                                                             {"h0", state},
                                                             {"c0", state},
                                                             {"peepholes", {d, Dim(3 * a.hidden)}}};
  for (size_t i = 1; i < c.in.size(); ++i) {
    if (i != kLengths && !same_dtype(c, 0, i)) return false;
    if (i >= 3 && !of_shape(c, i, others[i - 3].second, others[i - 3].first)) return false;
  }
  if (c.has(kLengths) && !is_integer(c.t(kLengths).dtype)) return c.fail("sequence_lens must be integers: " + c.show(kLengths));
  c.result(t, a.batch_first ? std::vector<Dim>{batch, seq, d, h} : std::vector<Dim>{seq, d, batch, h});
  c.result(t, state);
  if (c.op == OpKind::Lstm) c.result(t, state);
  return true;
}

bool infer_quantize(InferContext& c) {
  if (!is_integer(c.a<QuantAttrs>().to) && bits(c.a<QuantAttrs>().to) > 8)
    return c.fail("cannot quantize to " + std::string(name(c.a<QuantAttrs>().to)));
  return scales_fit(c) && c.result(c.a<QuantAttrs>().to, c.t(0).dims);
}

bool infer_fake_quantize(InferContext& c) {
  const auto& a = c.a<FakeQuantizeAttrs>();
  if (a.bits < 2 || a.bits > 16) return c.fail("bits must be 2..16");
  if (a.axis < -1 || a.axis >= c.t(0).rank()) return c.fail("axis " + std::to_string(a.axis) + " is out of range");
  if (c.has(1) != (a.mode == FakeQuantizeMode::Fixed)) return c.fail("a fixed scale needs an operand, and no other does");
  if (!c.has(1)) return c.result(c.t(0));
  if (!same_dtype(c, 0, 1)) return false;
  const Dim count = a.axis < 0 ? Dim(1) : c.t(0).dims[static_cast<size_t>(a.axis)];
  return require_equal(c, c.dims().product(c.t(1).dims), count, "numbers of scales") && c.result(c.t(0));
}

bool infer_dynamic_quantize(InferContext& c) {
  if (c.t(0).dtype == DType::F64) return c.fail("needs floats of at most 32 bits, gets " + c.show(0));
  return c.result(DType::U8, c.t(0).dims) && c.result(DType::F32, {}) && c.result(DType::U8, {});
}

bool infer_dequantize(InferContext& c) { return scales_fit(c) && c.result(c.a<QuantAttrs>().to, c.t(0).dims); }

bool infer_fused_swiglu(InferContext& c) {
  if (c.t(0).rank() < 1) return c.fail("needs at least one axis");
  std::vector<Dim> out = c.t(0).dims;
  if (!c.dims().divides(Dim(2), out.back())) return c.fail("the last size must be even: " + c.show(0));
  out.back() = c.dims().floor_div(out.back(), Dim(2));
  return c.result(c.t(0).dtype, std::move(out));
}

// HIR blocks.
bool infer_shared_linear_pair(InferContext& c) {
  for (size_t w = 1; w < 3; ++w) {
    if (c.t(0).rank() < 2 || c.t(w).rank() != 2) return c.fail("needs x [..,M,K] and two weights [K,N]");
    if (!require_equal(c, c.t(0).dims.back(), c.t(w).dims[0], "contracted sizes")) return false;
    std::vector<Dim> out = c.t(0).dims;
    out.back() = c.t(w).dims[1];
    c.result(c.t(0).dtype, std::move(out));
  }
  return true;
}

bool infer_swiglu(InferContext& c) {
  for (size_t w = 1; w < 4; ++w)
    if (c.t(w).rank() != 2) return c.fail("weights need two axes");
  if (c.t(0).rank() < 2 || !require_equal(c, c.t(0).dims.back(), c.t(1).dims[0], "sizes of x and up") ||
      !require_equal(c, c.t(0).dims.back(), c.t(2).dims[0], "sizes of x and gate") ||
      !require_equal(c, c.t(1).dims[1], c.t(2).dims[1], "sizes of up and gate") ||
      !require_equal(c, c.t(1).dims[1], c.t(3).dims[0], "sizes of up and down"))
    return c.error.empty() ? c.fail("x needs two axes") : false;
  std::vector<Dim> out = c.t(0).dims;
  out.back() = c.t(3).dims[1];
  return c.result(c.t(0).dtype, std::move(out));
}

}  // namespace rlxc
