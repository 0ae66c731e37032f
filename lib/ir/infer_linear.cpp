// Type rules of contractions, reductions and transforms.
#include <algorithm>

#include "ir/infer.h"
#include "ir/region.h"

namespace rlxc {
namespace {

bool matmul_dims(InferContext& c, bool trans_a, bool trans_b, std::vector<Dim>* out) {
  const auto &a = c.t(0).dims, &b = c.t(1).dims;
  if (a.size() < 2 || b.size() < 2) return c.fail("operands need at least two axes: " + c.show(0) + ", " + c.show(1));
  const size_t ra = a.size(), rb = b.size();
  const Dim m = a[ra - (trans_a ? 1 : 2)], k = a[ra - (trans_a ? 2 : 1)];
  const Dim k2 = b[rb - (trans_b ? 1 : 2)], n = b[rb - (trans_b ? 2 : 1)];
  if (!require_equal(c, k, k2, "contracted sizes")) return false;
  if (!broadcast(c, std::span(a).first(ra - 2), std::span(b).first(rb - 2), out)) return false;
  out->push_back(m);
  out->push_back(n);
  return true;
}

// Checks operand `at`, a bias with one entry per column of a matmul of these dims.
bool fits_bias(InferContext& c, size_t at, const std::vector<Dim>& product, size_t typed = 0) {
  if (!c.has(at)) return true;
  const auto& bias = c.t(at).dims;
  if (!same_dtype(c, typed, at)) return false;
  if (bias.size() > 1 ||
      (bias.size() == 1 && bias[0] != Dim(1) && !require_equal(c, bias[0], product.back(), "sizes of bias and matmul")))
    return c.fail("bias " + c.show(at) + " must be a scalar or have one element per column");
  return true;
}

// Checks the bias per column (operand `at`) and the residual (operand `at + 1`) of a matmul with result dims `out`. Both have the
// type of operand `typed`.
bool bias_and_residual(InferContext& c, size_t at, const std::vector<Dim>& out, size_t typed = 0) {
  if (!fits_bias(c, at, out, typed)) return false;
  if (c.has(at + 1) && (!same_dtype(c, typed, at + 1) || c.t(at + 1).dims != out))
    return c.fail("the residual " + c.show(at + 1) + " must have the result's shape");
  return true;
}

// Halves the columns of a gated matmul: up and gate share one result column.
bool halved(InferContext& c, std::vector<Dim>* out) {
  if (!c.dims().divides(Dim(2), out->back())) return c.fail("the weight " + c.show(1) + " must have an even number of columns");
  out->back() = c.dims().floor_div(out->back(), Dim(2));
  return true;
}

// Checks a scale or zero point (operand i) of a weight [k, n]: one entry per block of k, and per column or for all columns.
bool fits_blocks(InferContext& c, size_t i, bool trans_b, Dim blocks, Dim n) {
  const auto& d = c.t(i).dims;
  if (d.size() != 2 || (d[trans_b] != blocks && d[trans_b] != Dim(1)) || (d[!trans_b] != n && d[!trans_b] != Dim(1)))
    return c.fail((i == 2 ? "the scale " : "the zero point ") + c.show(i) + " must have one entry, or " + c.dims().text(blocks) +
                  ", along the summed axis and one, or " + c.dims().text(n) + ", along the columns");
  return true;
}

// Checks the zero points of an integer matmul with result dims `out`. The operand a has one, or one per row ([M] or [...,M,1]).
// The operand b has one, or one per column.
bool fits_zero_points(InferContext& c, const std::vector<Dim>& out) {
  for (const size_t i : {size_t{2}, size_t{3}}) {
    if (!c.has(i)) continue;
    const auto& d = c.t(i).dims;
    std::vector<Dim> want = out;
    if (i == 2 && d.size() == 1 && want.size() > 1) want.pop_back();
    else if (i == 2 && !want.empty()) want.back() = Dim(1);
    if (i == 3 && want.size() > 1) want[want.size() - 2] = Dim(1);
    bool fits = d.size() <= want.size();
    for (size_t k = 1; fits && k <= d.size(); ++k) {
      const Dim own = d[d.size() - k], other = want[want.size() - k];
      fits = own == Dim(1) || c.dims().need_equal(own, other);
    }
    if (!fits) return c.fail("the zero point " + c.show(i) + " must be one, or one " + (i == 2 ? "per row" : "per column"));
  }
  return true;
}

}  // namespace

bool infer_matmul(InferContext& c) {
  const auto& a = c.a<MatMulAttrs>();
  std::vector<Dim> out;
  return same_dtype(c, 0, 1) && matmul_dims(c, a.trans_a, a.trans_b, &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_q_matmul(InferContext& c) {
  std::vector<Dim> out;
  return matmul_dims(c, false, false, &out) && fits_zero_points(c, out) && c.result(DType::I32, std::move(out));
}

bool infer_fused_q_matmul(InferContext& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<Dim> out;
  if (!fits_rounded_operand(c) || !matmul_dims(c, false, false, &out) || !fits_zero_points(c, out)) return false;
  if (has_two_sums(a.steps)) {
    if (!c.dims().divides(Dim(2), out.back())) return c.fail("two sums need an even number of columns: " + c.show(1));
    out.back() = c.dims().floor_div(out.back(), Dim(2));
  }
  return infer_steps_after(c, OpKind::QMatMul, a.steps, out, a.also);
}

bool infer_q_attention(InferContext& c) {
  std::vector<Dim> scores;
  if (!matmul_dims(c, false, false, &scores)) return false;
  const auto &q = c.t(0).dims, &k = c.t(1).dims, &v = c.t(2).dims;
  if (q.size() != k.size() || q.size() != v.size())
    return c.fail("q, k and v need equal numbers of axes: " + c.show(0) + ", " + c.show(1) + ", " + c.show(2));
  for (size_t i = 0; i + 2 < q.size(); ++i)
    for (const Dim d : {k[i], v[i]})
      if (d != Dim(1) && !require_equal(c, q[i], d, "batch sizes")) return false;
  if (!require_equal(c, scores.back(), v[v.size() - 2], "numbers of keys")) return false;
  for (size_t i = 0; i < kAttentionOperands; ++i)
    if (c.has(i) && !is_int8(c.t(i).dtype)) return c.fail("needs u8 or i8, gets " + c.show(i));
  for (size_t i = 3; i < kAttentionOperands; ++i)
    if (c.has(i) && num_elements(c.t(i)) != 1) return c.fail("the zero point " + c.show(i) + " must be one");
  std::vector<Dim> result = scores;
  result.back() = v.back();
  return infer_attention_steps(c, scores, result);
}

bool infer_fused_matmul(InferContext& c) {
  const auto& a = c.a<FusedMatMulAttrs>();
  std::vector<Dim> out;
  return same_dtype(c, 0, 1) && matmul_dims(c, a.trans_a, a.trans_b, &out) && bias_and_residual(c, 2, out) &&
         c.result(c.t(0).dtype, std::move(out));
}

bool infer_dequant_matmul(InferContext& c) {
  const auto& a = c.a<DequantMatMulAttrs>();
  const Type &w = c.t(1), &scale = c.t(2);
  const bool narrow = is_narrow(c.t(0).dtype);
  if (narrow && (c.t(0).dtype != w.dtype || !is_float(w.dtype) || a.block != 0 || a.int8_x || c.has(3)))
    return c.fail("8-bit floats need a weight of their type, without blocks, zero points and int8_x: " + c.show(0) + ", " +
                  c.show(1));
  if (!narrow && bits(c.t(0).dtype) < 16) return c.fail("needs floats of at least 16 bits, gets " + c.show(0));
  if (w.rank() != 2) return c.fail("the weight needs two axes: " + c.show(1));
  if (bits(w.dtype) > 8 || (!is_integer(w.dtype) && !is_float(w.dtype)))
    return c.fail("the weight must hold numbers of at most 8 bits: " + c.show(1));
  if (!is_float(scale.dtype) || bits(scale.dtype) < 16) return c.fail("the scale must be of floats: " + c.show(2));
  if (c.has(3) && c.t(3).dtype != w.dtype && c.t(3).dtype != scale.dtype && c.t(3).dtype != DType::U8 &&
      c.t(3).dtype != DType::I8)
    return c.fail("the zero point must be of the type of the weight or the scale, u8 or i8: " + c.show(3));
  std::vector<Dim> out;
  if (!matmul_dims(c, false, a.trans_b, &out)) return false;
  const Dim k = w.dims[a.trans_b], n = w.dims[!a.trans_b];
  if (a.block < 0) return c.fail("the block must not be negative");
  const Dim blocks = a.block == 0 ? Dim(1) : c.dims().ceil_div(k, Dim(a.block));
  for (size_t i : {2, 3})
    if (c.has(i) && !fits_blocks(c, i, a.trans_b, blocks, n)) return false;
  if (a.gated && c.has(5)) return c.fail("what is gated takes no residual");
  if (a.int8_x && a.block != 0 && (!k.is_static() || k.size() % a.block != 0))
    return c.fail("rows of 8 bits need a number of terms that is a multiple of the block");
  const size_t typed = narrow ? 2 : 0;
  if (a.gated ? !fits_bias(c, 4, out, typed) || !halved(c, &out) : !bias_and_residual(c, 4, out, typed)) return false;
  return c.result(c.t(typed).dtype, std::move(out));
}

bool infer_grouped_matmul(InferContext& c) {
  const auto& a = c.a<MatMulAttrs>();
  const auto &x = c.t(0).dims, &w = c.t(1).dims, &group = c.t(2).dims;
  if (x.size() != 2 || w.size() != 3 || group.size() != 1 || a.trans_a)
    return c.fail("needs rows [M,K], matrices [E,K,N] and a number for each row, gets " + c.show(0) + ", " + c.show(1) + ", " +
                  c.show(2));
  if (c.t(2).dtype != DType::I32 && c.t(2).dtype != DType::I64) return c.fail("the numbers must be i32 or i64: " + c.show(2));
  return same_dtype(c, 0, 1) && require_equal(c, x[0], group[0], "numbers of rows") &&
         require_equal(c, x[1], w[a.trans_b ? 2 : 1], "contracted sizes") && c.result(c.t(0).dtype, {x[0], w[a.trans_b ? 1 : 2]});
}

bool infer_gated_matmul(InferContext& c) {
  std::vector<Dim> out;
  if (c.t(1).rank() != 2) return c.fail("the weight needs two axes");
  if (!same_dtype(c, 0, 1) || !matmul_dims(c, false, c.a<GatedMatMulAttrs>().trans_b, &out)) return false;
  return fits_bias(c, 2, out) && halved(c, &out) && c.result(c.t(0).dtype, std::move(out));
}

bool infer_dot_general(InferContext& c) {
  const auto& a = c.a<DotGeneralAttrs>();
  const auto &l = c.t(0).dims, &r = c.t(1).dims;
  if (!same_dtype(c, 0, 1)) return false;
  if (a.lhs_batch.size() != a.rhs_batch.size() || a.lhs_contracting.size() != a.rhs_contracting.size())
    return c.fail("both sides need as many batch and contracting axes");
  std::vector<int> lhs_role(l.size(), 0), rhs_role(r.size(), 0);
  std::vector<Dim> out;
  auto pair_axes = [&](const std::vector<int64_t>& la, const std::vector<int64_t>& ra, bool batch) {
    for (size_t i = 0; i < la.size(); ++i) {
      if (!check_axis(c, la[i], c.t(0).rank()) || !check_axis(c, ra[i], c.t(1).rank())) return false;
      const auto x = static_cast<size_t>(la[i]), y = static_cast<size_t>(ra[i]);
      if (lhs_role[x]++ || rhs_role[y]++) return c.fail("an axis is used twice");
      if (!require_equal(c, l[x], r[y], "paired sizes")) return false;
      if (batch) out.push_back(l[x]);
    }
    return true;
  };
  if (!pair_axes(a.lhs_batch, a.rhs_batch, true) || !pair_axes(a.lhs_contracting, a.rhs_contracting, false)) return false;
  for (size_t i = 0; i < l.size(); ++i)
    if (!lhs_role[i]) out.push_back(l[i]);
  for (size_t i = 0; i < r.size(); ++i)
    if (!rhs_role[i]) out.push_back(r[i]);
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_reduce(InferContext& c) {
  const auto& a = c.a<ReduceAttrs>();
  if (c.t(0).dtype == DType::Bool && a.op != ReduceOp::Max && a.op != ReduceOp::Min && a.op != ReduceOp::Prod)
    return c.fail("bools have a maximum, a minimum and a product only");
  std::vector<bool> reduced(c.t(0).dims.size());
  for (int64_t axis : a.axes) {
    if (!check_axis(c, axis, c.t(0).rank())) return false;
    if (reduced[static_cast<size_t>(axis)]) return c.fail("axis " + std::to_string(axis) + " is listed twice");
    reduced[static_cast<size_t>(axis)] = true;
  }
  std::vector<Dim> out;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) out.push_back(c.t(0).dims[i]);
    else if (a.keep_dim) out.push_back(Dim(1));
  }
  return c.result(c.t(0).dtype, std::move(out));
}

bool infer_arg_reduce(InferContext& c) {
  const auto& a = c.a<ArgAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  std::vector<Dim> out = c.t(0).dims;
  if (!require_at_most(c, Dim(1), out[static_cast<size_t>(a.axis)], "size of the axis to choose from")) return false;
  if (a.keep_dim) out[static_cast<size_t>(a.axis)] = Dim(1);
  else out.erase(out.begin() + a.axis);
  return c.result(DType::I64, std::move(out));
}

bool infer_cumulative(InferContext& c) { return check_axis(c, c.a<CumAttrs>().axis, c.t(0).rank()) && c.result(c.t(0)); }

bool infer_topk(InferContext& c) {
  const auto& a = c.a<TopKAttrs>();
  if (!check_axis(c, a.axis, c.t(0).rank())) return false;
  std::vector<Dim> out = c.t(0).dims;
  Dim& d = out[static_cast<size_t>(a.axis)];
  if (const auto k = c.dims().constant_value(a.k); k && *k < 0) return c.fail("k is negative: " + std::to_string(*k));
  if (!require_at_most(c, a.k, d, "size of the axis for k = " + c.dims().text(a.k))) return false;
  d = a.k;
  return c.result(c.t(0).dtype, out) && c.result(DType::I64, out);
}

bool infer_fft(InferContext& c) {
  const auto& a = c.a<FftAttrs>();
  const int rank = c.t(0).rank();
  if (rank < 2 || !check_axis(c, a.axis, rank - 1))
    return c.fail("axis " + std::to_string(a.axis) + " must precede the last axis of " + c.show(0));
  const auto parts = c.dims().constant_value(c.t(0).dims.back());
  if (!parts || (*parts != 1 && *parts != 2)) return c.fail("the last axis must hold 1 or 2 parts: " + c.show(0));
  std::vector<Dim> out = c.t(0).dims;
  Dim& n = out[static_cast<size_t>(a.axis)];
  if (a.length != Dim(0)) n = a.length;
  if (a.onesided && !a.inverse) n = c.dims().add(c.dims().floor_div(n, Dim(2)), Dim(1));
  out.back() = Dim(a.onesided && a.inverse ? 1 : 2);
  return c.result(c.t(0).dtype, std::move(out));
}

}  // namespace rlxc
