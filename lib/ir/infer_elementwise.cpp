// Type rules of the elementwise operations.
#include "ir/infer.h"

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

bool infer_region(InferContext& c) {
  const auto& steps = c.a<RegionAttrs>().steps;
  if (steps.empty()) return c.fail("a region needs steps");
  for (size_t i = 0; i < steps.size(); ++i)
    for (uint16_t a : steps[i].args) {
      if (a == RegionStep::kNone) continue;
      const size_t index = a & ~RegionStep::kStep;
      if (a & RegionStep::kStep ? index >= i : index >= c.in.size() || !c.has(index))
        return c.fail("step " + std::to_string(i) + " reads a value that does not exist");
    }
  std::vector<Dim> dims = c.t(0).dims;
  for (size_t i = 1; i < c.in.size(); ++i) {
    std::vector<Dim> wider;
    if (!broadcast(c, dims, c.t(i).dims, &wider)) return false;
    dims = std::move(wider);
  }
  return c.result(steps.back().dtype, std::move(dims));
}

}  // namespace rlxc
