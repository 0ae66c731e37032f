// Type rules of the elementwise operations.
#include <algorithm>
#include <cmath>

#include "ir/infer.h"
#include "ir/region.h"

namespace rlxc {

bool infer_none(InferContext& c) { return c.fail("has no inferred type"); }

bool infer_constant(InferContext& c) {
  const DataId id = c.a<DataAttrs>().data;
  if (!id.valid()) return c.fail("a constant needs data");
  const TensorData& d = c.module.data[id];
  return c.result(d.dtype, {d.dims.begin(), d.dims.end()});
}

bool infer_dim_value(InferContext& c) {
  const auto& a = c.a<DimsAttrs>();
  if (a.scalar && a.dims.size() != 1) return c.fail("a scalar needs exactly one size");
  if (a.scalar) return c.result(DType::I64, {});
  return c.result(DType::I64, {Dim(static_cast<int64_t>(a.dims.size()))});
}

bool infer_like_first(InferContext& c) { return c.result(c.t(0)); }

bool infer_binary(InferContext& c) {
  std::vector<Dim> dims;
  return same_dtype(c, 0, 1) && broadcast(c, c.t(0).dims, c.t(1).dims, &dims) && c.result(c.t(0).dtype, std::move(dims));
}

bool infer_pow(InferContext& c) {
  std::vector<Dim> dims;
  return broadcast(c, c.t(0).dims, c.t(1).dims, &dims) && c.result(c.t(0).dtype, std::move(dims));
}

bool infer_compare(InferContext& c) {
  std::vector<Dim> dims;
  return same_dtype(c, 0, 1) && broadcast(c, c.t(0).dims, c.t(1).dims, &dims) && c.result(DType::Bool, std::move(dims));
}

bool infer_predicate(InferContext& c) { return c.result(DType::Bool, c.t(0).dims); }

bool infer_cast(InferContext& c) { return c.result(c.a<CastAttrs>().to, c.t(0).dims); }

bool infer_where(InferContext& c) {
  if (c.t(0).dtype != DType::Bool) return c.fail("the condition must be bool, is " + c.show(0));
  std::vector<Dim> values, dims;
  return same_dtype(c, 1, 2) && broadcast(c, c.t(1).dims, c.t(2).dims, &values) && broadcast(c, c.t(0).dims, values, &dims) &&
         c.result(c.t(1).dtype, std::move(dims));
}

bool infer_fma(InferContext& c) {
  std::vector<Dim> product, dims;
  return same_dtype(c, 0, 1) && same_dtype(c, 0, 2) && broadcast(c, c.t(0).dims, c.t(1).dims, &product) &&
         broadcast(c, product, c.t(2).dims, &dims) && c.result(c.t(0).dtype, std::move(dims));
}

namespace {

bool steps_fit(InferContext& c, std::span<const RegionStep> steps) {
  for (size_t i = 0; i < steps.size(); ++i)
    for (uint16_t a : steps[i].args) {
      if (a == RegionStep::kNone) continue;
      const size_t index = a & ~RegionStep::kStep;
      if (a & RegionStep::kStep ? index >= i : index >= c.in.size() || !c.has(index))
        return c.fail("step " + std::to_string(i) + " reads a value that does not exist");
    }
  return !steps.empty() || c.fail("a region needs steps");
}

// The sizes that the operands which `wanted` names broadcast to.
template <class F>
bool broadcast_operands(InferContext& c, F wanted, std::vector<Dim>* dims) {
  for (size_t i = 0; i < c.in.size(); ++i) {
    std::vector<Dim> wider;
    if (!wanted(i)) continue;
    if (!broadcast(c, *dims, c.t(i).dims, &wider)) return false;
    *dims = std::move(wider);
  }
  return true;
}

}  // namespace

bool infer_region(InferContext& c) {
  const auto& steps = c.a<RegionAttrs>().steps;
  std::vector<Dim> dims;
  return steps_fit(c, steps) &&
         broadcast_operands(
             c, [](size_t) { return true; }, &dims) &&
         c.result(steps.back().dtype, std::move(dims));
}

namespace {

// A region around a reduction of a value of sizes `dims`: the steps after it read it and operands that broadcast to it.
bool reduce_region(InferContext& c, const NormRegionAttrs& a, size_t at, std::vector<Dim> dims) {
  for (int64_t axis : a.axes) {
    if (!check_axis(c, axis, static_cast<int>(dims.size()))) return false;
    dims[static_cast<size_t>(axis)] = Dim(1);
  }
  std::vector<Dim> after = dims;
  for (size_t i = at + 1; i < a.steps.size(); ++i)
    for (uint16_t arg : a.steps[i].args) {
      if (arg == RegionStep::kNone) continue;
      if (arg & RegionStep::kStep ? (arg & ~RegionStep::kStep) < at : !broadcast(c, dims, c.t(arg).dims, &after) || after != dims)
        return c.fail("step " + std::to_string(i) + " reads a value that is larger than the reduced one");
    }
  const uint16_t from = a.steps[at].args[0];
  if (a.steps[at].dtype != (from & RegionStep::kStep ? a.steps[from & ~RegionStep::kStep].dtype : c.t(from).dtype))
    return c.fail("a reduction has the type of what it reduces");
  if (a.keep || a.reduce == ReduceOp::LogSumExp) return c.fail("a region neither keeps what it reduces nor takes log_sum_exp");
  return c.result(a.steps.back().dtype, std::move(dims));
}

}  // namespace

bool infer_norm_region(InferContext& c) {
  const auto& a = c.a<NormRegionAttrs>();
  if (!steps_fit(c, a.steps)) return false;
  const size_t at = norm_step(a.steps);
  if (at == a.steps.size()) return c.fail("needs one step that normalises");
  const RegionStep& norm = a.steps[at];
  for (size_t i = 0; i < a.steps.size(); ++i)
    if (i != at && !has_trait(a.steps[i].op, kElementwise)) return c.fail("step " + std::to_string(i) + " is not elementwise");
  if (norm.args[0] == RegionStep::kNone || norm.args[1] != RegionStep::kNone ||
      !(is_float(norm.dtype) || (norm.op == OpKind::Reduce && is_integer(norm.dtype))))
    return c.fail("the core takes one float value, of a reduction also one integer");
  const std::vector<bool> read = operands_before_core(a, c.in.size());
  std::vector<Dim> before, dims;
  if (!broadcast_operands(
          c, [&](size_t i) { return read[i]; }, &before))
    return false;
  if (norm.op == OpKind::Reduce) return reduce_region(c, a, at, std::move(before));
  if (!broadcast_operands(
          c, [](size_t) { return true; }, &dims))
    return false;
  if (before != dims) return c.fail("what is normalised must have the result's shape");
  const int rank = static_cast<int>(dims.size());
  if (norm.op != OpKind::GroupNorm) {
    if (!check_axis(c, a.axis, rank)) return false;
    if ((norm.op == OpKind::Softmax || norm.op == OpKind::LogSoftmax) && a.axis != rank - 1)
      return c.fail("a softmax among steps goes along the last axis");
  } else if (rank < 2 || !(norm.beta >= 1 && norm.beta <= 1 << 20) || norm.beta != std::floor(norm.beta) ||
             !c.dims().divides(Dim(static_cast<int64_t>(norm.beta)), dims[1])) {
    return c.fail("needs [N,C,...] and groups that divide the channels");
  }
  const uint16_t from = norm.args[0];
  const DType kept = from & RegionStep::kStep ? a.steps[from & ~RegionStep::kStep].dtype : c.t(from).dtype;
  c.result(a.steps.back().dtype, dims);
  if (a.keep) c.result(kept, std::move(dims));
  return true;
}

}  // namespace rlxc
