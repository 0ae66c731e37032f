// Elementwise ops and regions of them: one map, whose body is the meaning of the op (ops/elementwise.h).
#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/lower_blocked.h"
#include "codegen/lowerings.h"
#include "ir/region.h"
#include "kernel/builders/map.h"
#include "ops/elementwise.h"

namespace rlxc::codegen {
namespace {

using kernel::compute_dtype;

Expr convert(Expr x, DType to) {
  if (to == DType::Bool && x.dtype() != DType::Bool) return x != kernel::lit(x, 0);
  return cast_to(x, to);
}

// Integer power by squaring, one unrolled step per bit of the exponent, at most 31.
Expr int_pow(Expr base, Expr exponent) {
  const int width = rlxc::bits(base.dtype());
  Expr result = kernel::lit(base, 1), square = base;
  Expr wide = cast_to(exponent, base.dtype());
  for (int bit = 0; bit < std::min(width, 32) - 1; ++bit) {
    result = select(((wide >> bit) & 1) != 0, result * square, result);
    square = square * square;
  }
  const Expr one = kernel::lit(base, 1), zero = kernel::lit(base, 0);
  if (!is_signed(base.dtype())) return result;
  const Expr odd = (wide & 1) != 0, minus_one = base == -1;
  return select(wide < 0, select(base == 1, one, select(minus_one, select(odd, base, one), zero)), result);
}

Expr apply(OpKind op, const ops::Params& p, DType to, std::span<const Expr> x) {
  if (op == OpKind::Where) return select(x[0], x[1], x[2]);
  if (op == OpKind::Cast) return cast_to(convert(x[0], to), compute_dtype(to));
  if (op == OpKind::Pow) {
    if (!is_float(x[0].dtype()))
      return is_float(x[1].dtype()) ? cast_to(pow(cast_to(x[0], DType::F64), cast_to(x[1], DType::F64)), x[0].dtype())
                                    : int_pow(x[0], x[1]);
    return pow(x[0], cast_to(x[1], x[0].dtype()));
  }
  Expr result;
  ops::visit(op, [&](auto meaning) {
    if constexpr (meaning.op == OpKind::Pow) return;
    else if constexpr (meaning.arity == 1) result = meaning(p, x[0]);
    else if constexpr (meaning.arity == 2) result = meaning(p, x[0], x[1]);
    else result = meaning(p, x[0], x[1], x[2]);
  });
  return result;
}

ops::Params params(const Attrs& a, DType t) {
  ops::Params p;
  p.width = rlxc::bits(t);
  if (const auto* ab = std::get_if<AlphaBetaAttrs>(&a)) {
    p.alpha = ab->alpha;
    p.beta = ab->beta;
  }
  if (const auto* c = std::get_if<ClampAttrs>(&a)) {
    p.alpha = c->min;
    p.beta = c->max;
  }
  return p;
}

bool map(Node& node, const kernel::MapBody& body) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  kernel::MapSpec spec{shape, {}, {}, body};
  for (size_t i = 0; i < node.graph.operands(node.id).size(); ++i) spec.inputs.push_back(s.in(i, node.result_dims()));
  for (size_t i = 0; i < node.graph.result_count(node.id); ++i) spec.outputs.push_back(s.out(i));
  split_channels(s, block_of(node, node.result()), &spec);
  kernel::build_map(s.builder(), spec, node.mapping());
  if (has_trait(node.op(), kInPlace)) s.may_alias();
  s.finish();
  return true;
}

}  // namespace

Expr elementwise(OpKind op, double alpha, double beta, DType to, std::span<const Expr> x) {
  return apply(op, {alpha, beta, rlxc::bits(to)}, to, x);
}

std::pair<double, double> elementwise_parameters(const Attrs& a) {
  const ops::Params p = params(a, DType::F32);
  return {p.alpha, p.beta};
}

Expr activation(const Epilogue& e, Expr x) {
  if (!e.has) return x;
  ops::Params p{e.alpha, e.beta, rlxc::bits(x.dtype())};
  const Expr args[] = {x};
  return apply(e.op, p, x.dtype(), args);
}

Expr gated(Expr up, Expr gate, const Epilogue& act) {
  return up * (act.has ? activation(act, gate) : gate / (1.0 + kernel::exp(-gate)));
}

bool lower_elementwise(Node& node) {
  const ops::Params p = params(node.graph.module().attrs[node.graph.attr_id(node.id)], node.result_dtype());
  return map(node,
             [&](const std::vector<Expr>& v) -> std::vector<Expr> { return {apply(node.op(), p, node.result_dtype(), v)}; });
}

bool lower_cast(Node& node) {
  return is_narrow(node.dtype(0)) || is_narrow(node.result_dtype()) ? lower_narrow_cast(node) : lower_elementwise(node);
}

Expr step_value(const RegionStep& step, bool rounded, std::span<const Expr> values, const std::function<Expr(size_t)>& operand) {
  std::vector<Expr> args;
  for (uint16_t a : step.args)
    if (a != RegionStep::kNone) args.push_back(a & RegionStep::kStep ? values[a & ~RegionStep::kStep] : operand(a));
  if (rounded) return kernel::product(args[0], args[1]);
  if (step.op == OpKind::Div && step.alpha() != 0 && step.dtype == DType::F32) return kernel::quotient(args[0], args[1]);
  return apply(step.op, {step.alpha(), step.beta(), rlxc::bits(step.dtype)}, step.dtype, args);
}

bool lower_region(Node& node) {
  const auto& a = node.attrs<FusionAttrs>();
  const std::vector<bool> rounded = rounded_products(a.steps);
  return map(node, [&](const std::vector<Expr>& v) -> std::vector<Expr> {
    std::vector<Expr> values;
    for (size_t i = 0; i < a.steps.size(); ++i)
      values.push_back(step_value(a.steps[i], rounded[i], values, [&](size_t k) { return v[k]; }));
    std::vector<Expr> results{values.back()};
    for (const int64_t step : a.also) results.push_back(values[static_cast<size_t>(step)]);
    return results;
  });
}

namespace {

// Parts of one shape of a ConcatRegion.
struct Parts {
  std::vector<Dim> dims;
  std::vector<Dim> starts;    // along the axis
  std::vector<size_t> steps;  // of all results, by part
  bool scattered = false;     // see is_scattered_copy
};

bool lower_parts(Node& node, const Parts& parts) {
  const auto& a = node.attrs<ConcatRegionAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  std::vector<bool> needed(a.steps.size()), read(node.graph.operands(node.id).size());
  const auto take = [](std::vector<bool>& all, const std::vector<bool>& some) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || some[i];
  };
  for (size_t step : parts.steps) {
    take(needed, needed_steps(a.steps, step));
    take(read, operands_of(a.steps, step, read.size()));
  }
  Scope s(node);
  kernel::MapSpec spec{s.shape(parts.dims), {}, {}, {}};
  std::vector<size_t> place(read.size());
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read[i]) continue;
    place[i] = spec.inputs.size();
    spec.inputs.push_back(s.in(i, parts.dims));
  }
  const auto results = static_cast<size_t>(a.results);
  for (size_t i = 0; i < parts.steps.size(); ++i) {
    Operand y = s.out(i % results);
    y.name += "_" + std::to_string(i / results);
    start_at(s.kernel(), axis, s.size(parts.starts[i / results]), &y);
    spec.outputs.push_back(std::move(y));
  }
  const std::vector<bool> rounded = rounded_products(a.steps);
  spec.body = [&](const std::vector<Expr>& v) -> std::vector<Expr> {
    std::vector<Expr> values(a.steps.size()), out;
    for (size_t i = 0; i < a.steps.size(); ++i)
      if (needed[i]) values[i] = step_value(a.steps[i], rounded[i], values, [&](size_t k) { return v[place[k]]; });
    for (size_t step : parts.steps) out.push_back(values[step]);
    return out;
  };
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

// Whether the step of a ConcatRegion copies an operand whose elements do not lie in vectors: the other parts are computed in
// these.
bool is_scattered_copy(Node& node, size_t step, const std::vector<Dim>& dims) {
  const uint16_t operand = node.attrs<ConcatRegionAttrs>().steps[step].args[0];
  if (is_step(operand) || operand == RegionStep::kNone || !copies_operand(node.graph, node.id, operand)) return false;
  Scope probe(node);
  const Operand x = probe.in(operand, dims);
  const size_t last = dims.size() - 1;
  int64_t stride = 0;
  return x.split(last) || !kernel::constant(x.strides[last], &stride) || stride != 1;
}

}  // namespace

// One kernel computes all parts if they have one shape, else one each; one copies a part that is scattered.
bool lower_concat_region(Node& node) {
  const auto& a = node.attrs<ConcatRegionAttrs>();
  if (reduces_rows(a.steps)) return lower_reduced_parts(node);
  const size_t count = a.parts.size() / static_cast<size_t>(a.results);
  std::vector<Parts> all;
  Dim start(0);
  for (size_t i = 0; i < count; ++i) {
    const std::vector<Dim> dims = part_dims(node.graph, node.id, static_cast<size_t>(a.parts[i]));
    const bool scattered = is_scattered_copy(node, static_cast<size_t>(a.parts[i]), dims);
    const bool joins = !all.empty() && dims == all[0].dims && !scattered && !all[0].scattered;
    if (!joins) all.push_back({dims, {}, {}, scattered});
    Parts& parts = joins ? all[0] : all.back();
    parts.starts.push_back(start);
    for (size_t r = 0; r < static_cast<size_t>(a.results); ++r)
      parts.steps.push_back(static_cast<size_t>(a.parts[r * count + i]));
    start = node.table().add(start, dims[static_cast<size_t>(a.axis)]);
  }
  return std::ranges::all_of(all, [&](const Parts& parts) {
    const bool empty = node.table().constant_value(parts.dims[static_cast<size_t>(a.axis)]) == 0;
    return empty || lower_parts(node, parts);
  });
}

bool lower_batch_norm(Node& node) {
  const auto& a = node.attrs<NormAttrs>();
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  kernel::MapSpec spec{shape, {s.in(0)}, {}, nullptr};
  for (size_t i = 1; i < 5; ++i) {
    Operand o = s.in(i);
    o.strides.assign(shape.size(), 0);
    o.strides[static_cast<size_t>(a.axis)] = 1;
    spec.inputs.push_back(std::move(o));
  }
  spec.outputs.push_back(s.out());
  spec.body = [&](const std::vector<Expr>& v) -> std::vector<Expr> {
    return {(v[0] - v[3]) * (v[1] / sqrt(v[4] + a.eps)) + v[2]};
  };
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

namespace {

// Maps x, scale and zero point over the shape of x. A blocked axis is split in two.
bool map_quant(Node& node, const kernel::MapBody& body) {
  const auto& a = node.attrs<QuantAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  DimTable& t = node.table();
  std::vector<Dim> space(node.dims(0).begin(), node.dims(0).end());
  if (a.block > 0) {
    if (!t.divides(Dim(a.block), space[axis])) return node.fail("the blocks do not divide the axis");
    space[axis] = t.floor_div(space[axis], Dim(a.block));
    space.insert(space.begin() + a.axis + 1, Dim(a.block));
  }
  Scope s(node);
  const Dims shape = s.shape(space);
  kernel::MapSpec spec{shape, {}, {}, body};
  for (size_t i = 0; i < node.graph.operands(node.id).size(); ++i) {
    if (!node.has(i)) continue;
    Operand o = s.in(i);
    const auto own = node.dims(i);
    if (i == 0) o.strides = kernel::dense(s.kernel(), "x", o.dtype, shape).strides;
    else if (a.block > 0) {
      o.strides.insert(o.strides.begin() + a.axis + 1, 0);
    } else {
      const bool scalar = num_elements(node.graph.type(node.in(i))) == 1;
      o.strides.assign(shape.size(), 0);
      if (!scalar && own.size() == 1) o.strides[axis] = 1;
    }
    spec.inputs.push_back(std::move(o));
  }
  Operand y = s.out();
  y.strides = spec.inputs[0].strides;
  spec.outputs.push_back(std::move(y));
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

}  // namespace

bool lower_quantize(Node& node) {
  const auto& a = node.attrs<QuantAttrs>();
  return map_quant(node, [&](const std::vector<Expr>& v) -> std::vector<Expr> {
    const DType f = v[0].dtype() == DType::F64 ? DType::F64 : DType::F32;
    Expr q = round_even(cast_to(v[0], f) / cast_to(v[1], f));
    if (v.size() > 2) q = q + cast_to(v[2], f);
    if (is_float(a.to)) return {q};
    const int width = rlxc::bits(a.to);
    const double low = is_signed(a.to) ? -std::ldexp(1.0, width - 1) : 0,
                 high = std::ldexp(1.0, is_signed(a.to) ? width - 1 : width) - 1;
    return {min(max(q, low), high)};
  });
}

bool lower_dequantize(Node& node) {
  return map_quant(node, [&](const std::vector<Expr>& v) -> std::vector<Expr> {
    Expr q = is_float(v[0].dtype()) ? v[0] : cast_to(v[0], DType::I32);
    if (v.size() > 2) q = q - cast_to(v[2], q.dtype());
    const DType f = node.result_dtype() == DType::F64 ? DType::F64 : DType::F32;
    return {cast_to(q, f) * cast_to(v[1], f)};
  });
}

}  // namespace rlxc::codegen
