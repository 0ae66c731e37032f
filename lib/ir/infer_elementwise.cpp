// Type rules of elementwise ops and regions.
#include <algorithm>

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

// The broadcast shape of the operands for which `wanted` returns true.
template <class F>
bool broadcast_operands(InferContext& c, F wanted, std::vector<Dim>* dims) {
  for (size_t i = 0; i < c.in.size(); ++i) {
    std::vector<Dim> wider;
    if (!c.has(i) || !wanted(i)) continue;
    if (!broadcast(c, *dims, c.t(i).dims, &wider)) return false;
    *dims = std::move(wider);
  }
  return true;
}

constexpr auto kAll = [](size_t) { return true; };

// Adds a result for each of these steps.
bool further_results(InferContext& c, std::span<const RegionStep> steps, std::span<const int64_t> also,
                     const std::vector<Dim>& dims) {
  for (const int64_t step : also) {
    if (step < 0 || step >= static_cast<int64_t>(steps.size()))
      return c.fail("also names step " + std::to_string(step) + " of " + std::to_string(steps.size()));
    c.result(steps[static_cast<size_t>(step)].dtype, dims);
  }
  return true;
}

}  // namespace

bool infer_region(InferContext& c) {
  const auto& steps = c.a<FusionAttrs>().steps;
  std::vector<Dim> dims;
  if (!steps_fit(c, steps) || !broadcast_operands(c, kAll, &dims)) return false;
  for (size_t i = 0; i < steps.size(); ++i)
    if (is_core(steps[i])) return c.fail("step " + std::to_string(i) + " is not elementwise");
  c.result(steps.back().dtype, dims);
  return further_results(c, steps, c.a<FusionAttrs>().also, dims);
}

namespace {

DType argument_type(const InferContext& c, std::span<const RegionStep> steps, uint16_t arg) {
  return arg & RegionStep::kStep ? steps[arg & ~RegionStep::kStep].dtype : c.t(arg).dtype;
}

// The operands that the core depends on, through earlier cores too.
std::vector<bool> operands_before(std::span<const RegionStep> steps, size_t core, size_t count) {
  std::vector<bool> read(count), needed(core + 1);
  needed[core] = true;
  for (size_t i = core + 1; i-- > 0;)
    for (uint16_t arg : steps[i].args)
      if (needed[i] && arg != RegionStep::kNone) (arg & RegionStep::kStep ? needed : read)[arg & ~RegionStep::kStep] = true;
  return read;
}

bool goes_along_rows(const RegionStep& s) { return s.op == OpKind::LayerNorm || s.op == OpKind::RmsNorm; }

}  // namespace

bool infer_steps_after(InferContext& c, OpKind core, std::span<const RegionStep> steps, const std::vector<Dim>& dims,
                       std::span<const int64_t> also) {
  if (!steps_fit(c, steps)) return false;
  const size_t cores = core == OpKind::QMatMul && has_two_sums(steps) ? 2 : 1;
  for (const RegionStep& s : steps.first(cores))
    if (s.op != core || s.dtype != DType::I32 || s.args[0] != RegionStep::kNone)
      return c.fail("step 0 must be " + std::string(name(core)) + " of i32, without arguments");
  for (size_t i = cores; i < steps.size(); ++i) {
    if (is_core(steps[i])) return c.fail("step " + std::to_string(i) + " is not elementwise");
    for (uint16_t a : steps[i].args)
      if (a < kQuantOperands) return c.fail("step " + std::to_string(i) + " reads an operand of the matmul");
  }
  std::vector<Dim> whole = dims;
  if (!broadcast_operands(
          c, [](size_t i) { return i >= kQuantOperands; }, &whole))
    return false;
  if (whole != dims) return c.fail("the operands of the steps must broadcast to the matmul");
  c.result(steps.back().dtype, dims);
  return further_results(c, steps, also, dims);
}

bool fits_rounded_operand(InferContext& c) {
  if (!is_float(c.t(0).dtype)) return true;
  const auto one = [&](size_t i) { return c.has(i) && num_elements(c.t(i)) == 1; };
  if (c.t(0).dtype != DType::F32 || !one(2) || !one(kQuantOperands) || c.t(kQuantOperands).dtype != DType::F32)
    return c.fail("floats must be f32, with a zero point and an f32 scale (operand 4) of one element: " + c.show(0));
  return is_int8(c.t(2).dtype) || c.fail("the zero point must be u8 or i8: " + c.show(2));
}

bool infer_attention_steps(InferContext& c, const std::vector<Dim>& scores, const std::vector<Dim>& result) {
  const std::span<const RegionStep> steps = c.a<FusionAttrs>().steps;
  if (!c.a<FusionAttrs>().also.empty()) return c.fail("has one result");
  if (!steps_fit(c, steps)) return false;
  const size_t values = last_matmul_step(steps);
  size_t softmax = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const RegionStep& s = steps[i];
    const auto fail = [&](std::string_view why) { return c.fail("step " + std::to_string(i) + " " + std::string(why)); };
    if (!is_core(s)) {
      if (i == 0) return fail("must be q_matmul");
    } else if (i == 0 || i == values) {
      if (s.op != OpKind::QMatMul || s.dtype != DType::I32 || s.args[0] != RegionStep::kNone)
        return fail("must be q_matmul of i32, without arguments");
    } else if (s.op != OpKind::Softmax || softmax > 0 || s.dtype != DType::F32 || !(s.args[0] & RegionStep::kStep) ||
               !std::holds_alternative<NoAttrs>(s.attrs) || s.args[0] == RegionStep::kNone ||
               argument_type(c, steps, s.args[0]) != DType::F32) {
      return fail("must be elementwise, or the only softmax, of f32 without an axis");
    } else {
      softmax = i;
    }
    const size_t first = i > values ? values : softmax > 0 && i > softmax ? softmax : 0;
    for (uint16_t a : s.args) {
      if (a < kAttentionOperands) return fail("reads an operand of the matmuls");
      if (a != RegionStep::kNone && a & RegionStep::kStep && (a & ~RegionStep::kStep) < first)
        return fail("reads a step before the last matmul or softmax");
    }
  }
  if (softmax == 0 || values < softmax + 2) return c.fail("needs a softmax and a rounding between two q_matmul");
  if (!is_int8(steps[values - 1].dtype)) return c.fail("the step before the last q_matmul must be u8 or i8");
  for (size_t i = 0; i < steps.size(); ++i)
    for (uint16_t a : steps[i].args) {
      if (a & RegionStep::kStep || a == RegionStep::kNone) continue;
      std::vector<Dim> wider;
      const std::vector<Dim>& whole = i < values ? scores : result;
      if (!broadcast(c, whole, c.t(a).dims, &wider)) return false;
      if (wider != whole) return c.fail("operand " + std::to_string(a) + " must broadcast to the matmul before its step");
    }
  return c.result(steps.back().dtype, result);
}

namespace {

// Whether each step is elementwise or reduces one number of its type.
bool cores_reduce(InferContext& c, std::span<const RegionStep> steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const RegionStep& s = steps[i];
    if (!is_core(s)) continue;
    const auto* a = std::get_if<ReduceAttrs>(&s.attrs);
    if (!a || s.op != OpKind::Reduce || a->op == ReduceOp::LogSumExp || !a->keep_dim || s.args[0] == RegionStep::kNone ||
        s.args[1] != RegionStep::kNone || s.dtype != argument_type(c, steps, s.args[0]) ||
        !(is_float(s.dtype) || is_integer(s.dtype)))
      return c.fail("step " + std::to_string(i) + " neither is elementwise nor reduces one number of its type");
  }
  return true;
}

}  // namespace

bool infer_reduce_region(InferContext& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<Dim> dims;
  if (!steps_fit(c, a.steps) || !broadcast_operands(c, kAll, &dims) || !cores_reduce(c, a.steps)) return false;
  if (!a.also.empty()) return c.fail("has one result");
  const auto reductions = std::ranges::count_if(a.steps, is_core);
  if (reductions == 0) return c.fail("needs a step that reduces");
  const std::vector<int64_t>& axes = reduced_axes(a.steps);
  std::vector<bool> reduced(dims.size());
  for (int64_t axis : axes) {
    if (!check_axis(c, axis, static_cast<int>(dims.size()))) return false;
    if (reduced[static_cast<size_t>(axis)]) return c.fail("axis " + std::to_string(axis) + " is listed twice");
    reduced[static_cast<size_t>(axis)] = true;
  }
  for (const RegionStep& s : a.steps)
    if (is_core(s) && s.as<ReduceAttrs>().axes != axes) return c.fail("the reductions need the same axes");
  std::vector<bool> operands;
  for (const Type* t : c.in) operands.push_back(t && varies(t->dims, dims.size(), axes));
  const bool whole = varying_steps(a.steps, operands).back();
  if ((whole || reductions > 1) && !std::ranges::is_sorted(reduced))
    return c.fail("several reductions, or a result that varies along the axes, need the last axes");
  for (size_t i = 0; i < dims.size(); ++i)
    if (reduced[i] && !whole) dims[i] = Dim(1);
  return c.result(a.steps.back().dtype, std::move(dims));
}

// Each part is traced through the steps.
constexpr size_t kMostPartSteps = 1 << 22;

bool infer_concat_region(InferContext& c) {
  const auto& a = c.a<ConcatRegionAttrs>();
  if (!steps_fit(c, a.steps) || !cores_reduce(c, a.steps)) return false;
  for (const RegionStep& s : a.steps)
    if (is_core(s) && s.as<ReduceAttrs>().axes != std::vector{a.axis}) return c.fail("reductions need the axis of the region");
  if (a.results < 1 || a.parts.empty() || static_cast<int64_t>(a.parts.size()) % a.results != 0)
    return c.fail("needs results with as many parts each");
  if (a.parts.size() > kMostPartSteps / a.steps.size()) return c.fail("has too many parts for its number of steps");
  const size_t count = a.parts.size() / static_cast<size_t>(a.results);
  const bool rows = reduces_rows(a.steps);
  std::vector<Dim> outer, whole, one;  // of a region that reduces: dims without the last axis, of the rows, and of a part
  if (rows) {
    for (size_t i = 0; i < c.in.size(); ++i) {
      if (!c.has(i) || c.t(i).dims.empty()) continue;
      std::vector<Dim> own(c.t(i).dims.begin(), c.t(i).dims.end()), wider;
      own.back() = Dim(1);
      if (!broadcast(c, outer, own, &wider)) return false;
      outer = std::move(wider);
    }
    const std::vector<bool> read = operands_of_rows(a.steps, c.in.size());
    whole = outer;
    if (!broadcast_operands(
            c, [&](size_t k) { return read[k]; }, &whole))
      return false;
    if (a.axis + 1 != std::ssize(outer) || whole.back() == Dim(1))
      return c.fail("reduces along the last axis, of several elements");
  }
  std::vector<Dim> first;  // dims of the first result
  for (size_t i = 0; i < a.parts.size(); ++i) {
    if (a.parts[i] < 0 || a.parts[i] >= static_cast<int64_t>(a.steps.size()))
      return c.fail("parts names step " + std::to_string(a.parts[i]) + " of " + std::to_string(a.steps.size()));
  }
  for (size_t r = 0; r < a.parts.size(); r += count) {
    std::vector<Dim> out;
    const DType t = a.steps[static_cast<size_t>(a.parts[r])].dtype;
    for (size_t i = r; i < r + count; ++i) {
      const auto step = static_cast<size_t>(a.parts[i]);
      const std::vector<bool> read = operands_of(a.steps, step, c.in.size());
      std::vector<Dim> part = outer;
      if (!broadcast_operands(
              c, [&](size_t k) { return read[k]; }, &part))
        return false;
      if (rows && one.empty()) one = part;
      if (rows && part != one) return c.fail("parts of rows that are reduced must have one size");
      if (a.steps[step].dtype != t) return c.fail("the parts have different element types");
      if (i == r) {
        if (!check_axis(c, a.axis, static_cast<int>(part.size()))) return false;
        out = std::move(part);
        continue;
      }
      if (part.size() != out.size()) return c.fail("the parts have different ranks");
      for (size_t k = 0; k < out.size(); ++k)
        if (static_cast<int64_t>(k) == a.axis) out[k] = c.dims().add(out[k], part[k]);
        else if (!require_equal(c, out[k], part[k], "sizes off the concat axis")) return false;
    }
    if (r == 0) first = out;
    else if (out != first) return c.fail("the results have different shapes");
    c.result(t, std::move(out));
  }
  return true;
}

bool infer_norm_region(InferContext& c) {
  const auto& a = c.a<FusionAttrs>();
  std::vector<Dim> dims;
  if (!steps_fit(c, a.steps) || !broadcast_operands(c, kAll, &dims)) return false;
  const size_t last = last_norm_step(a.steps);
  if (last == a.steps.size()) return c.fail("needs a step that normalises");
  const RegionStep& norm = a.steps[last];
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const RegionStep& s = a.steps[i];
    if (has_trait(s.op, kElementwise)) continue;
    if (!is_norm(s)) return c.fail("step " + std::to_string(i) + " neither is elementwise nor normalises");
    if (s.args[0] == RegionStep::kNone || s.args[1] != RegionStep::kNone || !is_float(s.dtype))
      return c.fail("the core takes one float value");
    if (i != last && !(goes_along_rows(s) && goes_along_rows(norm) && s.dtype == norm.dtype && norm_axis(s) == norm_axis(norm)))
      return c.fail("several norms need to be layer_norm or rms_norm, of one type and axis");
    const std::vector<bool> read = operands_before(a.steps, i, c.in.size());
    std::vector<Dim> before;
    if (!broadcast_operands(
            c, [&](size_t k) { return read[k]; }, &before))
      return false;
    if (before != dims) return c.fail("what is normalised must have the result's shape");
  }
  const int rank = static_cast<int>(dims.size());
  if (norm.op != OpKind::GroupNorm) {
    if (!check_axis(c, norm_axis(norm), rank)) return false;
    if ((norm.op == OpKind::Softmax || norm.op == OpKind::LogSoftmax) && norm_axis(norm) != rank - 1)
      return c.fail("a softmax among steps goes along the last axis");
  } else if (const int64_t groups = norm.as<GroupNormAttrs>().groups;
             rank < 2 || groups < 1 || groups > 1 << 20 || !c.dims().divides(Dim(groups), dims[1])) {
    return c.fail("needs [N,C,...] and groups that divide the channels");
  }
  for (size_t i = keeps_operand(a); i < a.also.size(); ++i)
    if (a.also[i] < static_cast<int64_t>(last))
      return c.fail("also names step " + std::to_string(a.also[i]) + ", must be the last norm or a step after it");
  c.result(a.steps.back().dtype, dims);
  return further_results(c, a.steps, a.also, dims);
}

}  // namespace rlxc
