// Softmax and the norms.
#include "codegen/fused_bodies.h"
#include "ir/region.h"
#include "kernel/builders/generate.h"
#include "kernel/builders/row.h"

namespace rlxc::codegen {

bool lower_softmax(Node& node) {
  Scope s(node);
  kernel::SoftmaxSpec spec{s.shape(node.dims(0)), static_cast<size_t>(node.attrs<AxisAttrs>().axis), node.dtype(0),
                           node.op() == OpKind::LogSoftmax, node.result_dtype()};
  s.in(0);
  spec.epilogue = s.quantized_result(kResultScale, spec.shape.size());
  s.out();
  kernel::build_softmax(s.builder(), spec, node.mapping());
  if (!spec.epilogue.body) s.may_alias();
  s.finish();
  return true;
}

namespace {

using kernel::LoadInput;
using Roots = std::span<const Expr>;

// The norm of the sum of operands 0 to `addends`, times `gamma`, plus `beta`, if present.
void plain_norm(Node& node, const std::vector<size_t>& slot, size_t addends, kernel::NormSpec* spec) {
  spec->norms[0].prologue.body = [&node, slot, addends](Roots, const LoadInput& load) -> std::vector<Expr> {
    Expr v = load(0);
    for (size_t i = 1; i < addends; ++i)
      if (node.has(i)) v = v + load(slot[i]);
    return {v};
  };
  spec->epilogue.body = [&node, slot, addends, t = spec->compute](Roots n, const LoadInput& load) -> std::vector<Expr> {
    Expr v = n[0];
    if (node.has(addends)) v = v * cast_to(load(slot[addends]), t);
    if (node.has(addends + 1)) v = v + cast_to(load(slot[addends + 1]), t);
    return {v};
  };
}

kernel::RowNorm row_norm(OpKind op) {
  switch (op) {
    case OpKind::RmsNorm:
    case OpKind::FusedResidualRmsNorm: return kernel::RowNorm::RootMeanSquare;
    case OpKind::Softmax: return kernel::RowNorm::Softmax;
    case OpKind::LogSoftmax: return kernel::RowNorm::LogSoftmax;
    default: return kernel::RowNorm::Centred;
  }
}

// Splits channels into groups: [N,C,..] becomes [N,groups,C/groups,..].
void split_channels(kernel::Kernel* k, Index per_group, int64_t groups, kernel::NormSpec* spec) {
  spec->shape[1] = per_group;
  spec->shape.insert(spec->shape.begin() + 1, groups);
  for (auto* list : {&spec->inputs, &spec->outputs})
    for (Operand& o : *list) o.strides.insert(o.strides.begin() + 1, o.strides[1].in(k)*per_group.in(k));
  spec->axis = 2;
}

// Sets the norms of a region, each with its preceding steps, and the steps after the last norm.
void norms_of_region(const FusionAttrs& a, kernel::NormSpec* spec) {
  std::vector<size_t> cores;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const RegionStep& s = a.steps[i];
    if (!is_core(s)) continue;
    const auto* norm = std::get_if<NormAttrs>(&s.attrs);
    const auto* grouped = std::get_if<GroupNormAttrs>(&s.attrs);
    const double eps = norm ? norm->eps : grouped ? grouped->eps : 0;
    spec->norms.push_back({row_norm(s.op), eps, {{}, steps_body(a.steps, cores, {s.args[0]})}});
    cores.push_back(i);
  }
  spec->keep = keeps_operand(a);
  const auto after = std::span(a.also).subspan(spec->keep);
  if (cores.back() + 1 < a.steps.size() || !after.empty())
    spec->epilogue.body = steps_body(a.steps, cores, result_args(a.steps, after));
}

}  // namespace

bool lower_norm(Node& node) {
  const OpKind op = node.op();
  const bool region = op == OpKind::NormRegion, grouped = op == OpKind::GroupNorm;
  int64_t axis = 1, groups = 0;
  DType type = node.dtype(0);
  Scope s(node);
  kernel::NormSpec spec;
  if (region) {
    const auto& a = node.attrs<FusionAttrs>();
    const RegionStep& norm = a.steps[last_norm_step(a.steps)];
    const uint16_t from = norm.args[0];
    if (norm.op == OpKind::GroupNorm) groups = norm.as<GroupNormAttrs>().groups;
    else axis = norm_axis(norm);
    type = from & RegionStep::kStep ? a.steps[from & ~RegionStep::kStep].dtype : node.dtype(from);
  } else if (grouped) {
    groups = node.attrs<GroupNormAttrs>().groups;
  } else {
    axis = node.attrs<NormAttrs>().axis;
  }
  const auto dims = node.result_dims();
  spec.shape = s.shape(dims);
  spec.axis = static_cast<size_t>(axis);
  spec.compute = kernel::compute_dtype(type);
  std::vector<size_t> slot(node.graph.operands(node.id).size());
  for (size_t i = 0; i < slot.size(); ++i) {
    slot[i] = spec.inputs.size();
    if (!node.has(i)) continue;
    if (grouped && i > 0) {
      spec.inputs.push_back(s.in(i));
      spec.inputs.back().strides.assign(spec.shape.size(), 0);
      spec.inputs.back().strides[1] = 1;
    } else {
      spec.inputs.push_back(s.in(i, dims));
    }
  }
  for (size_t r = 0; r < node.graph.result_count(node.id); ++r) spec.outputs.push_back(s.out(r));
  if (region) {
    norms_of_region(node.attrs<FusionAttrs>(), &spec);
  } else {
    spec.keep = spec.outputs.size() > 1;
    spec.norms.push_back({row_norm(op), grouped ? node.attrs<GroupNormAttrs>().eps : node.attrs<NormAttrs>().eps, {}});
    plain_norm(node, slot, op == OpKind::FusedResidualLN || op == OpKind::FusedResidualRmsNorm ? 3 : 1, &spec);
  }
  if (groups > 0) split_channels(s.kernel(), s.size(node.table().floor_div(dims[1], Dim(groups))), groups, &spec);
  spec.gathers = (op == OpKind::LayerNorm || op == OpKind::RmsNorm) && node.dtype(0) == node.result_dtype();
  kernel::build_norm(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

bool lower_lrn(Node& node) {
  const auto& a = node.attrs<LrnAttrs>();
  Scope s(node);
  kernel::Kernel* k = s.kernel();
  const Dims x = s.shape(node.dims(0));
  const Dims shape = {x[0], x[1], kernel::product(k, x, 2)};
  Buf data = s.in_buf(0);
  const auto outputs = s.outputs();
  const DType t = kernel::compute_dtype(node.dtype(0));
  kernel::build_generate(s.builder(), shape, outputs, 64, node.mapping(), [&](const std::vector<Expr>& at) -> std::vector<Expr> {
    const Expr channels = x[1].in(k), inner = shape[2].in(k);
    auto value = [&](Expr c) { return cast_to(data[(at[0] * channels + c) * inner + at[2]], t); };
    Buf sum = s.builder().variable("sum", kernel::constant(k, t, 0));
    const Expr from = max(at[1] - (a.size - 1) / 2, 0), to = min(at[1] + a.size / 2, channels - 1);
    s.builder().loop("c", to - from + 1, [&](Expr c) {
      const Expr v = value(from + c);
      sum.set(sum.get() + v * v);
    });
    return {value(at[1]) / pow(a.bias + (a.alpha / static_cast<double>(a.size)) * sum.get(), kernel::constant(k, t, a.beta))};
  });
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
