// Softmax and the norms.
#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"
#include "kernel/builders/row.h"

namespace rlxc::codegen {

bool lower_softmax(const Node& node) {
  Scope s(node);
  kernel::SoftmaxSpec spec{s.shape(node.dims(0)), static_cast<size_t>(node.attrs<AxisAttrs>().axis), node.dtype(0),
                           node.op() == OpKind::LogSoftmax};
  s.in(0), s.out();
  kernel::build_softmax(s.builder(), spec, node.mapping());
  s.may_alias();
  return s.finish(), true;
}

namespace {

// Strides over [rows, 1, row] of an operand that is broadcast to `to`, whose first `axis` axes are the rows.
bool row_strides(const Node& node, Scope& s, size_t i, size_t axis, Operand* o) {
  const auto x = node.dims(0), d = node.dims(i);
  DimTable& t = node.table();
  const Dim n = t.product(x.subspan(axis)), all = t.product(d);
  *o = s.in(i);
  if (t.constant_value(all) == 1) return o->strides = {0, 0, 0}, true;
  if (d.size() <= x.size() - axis && t.equal(all, n)) return o->strides = {0, 0, 1}, true;
  if (d.size() == x.size() && t.equal(all, t.product(x))) return o->strides = {s.size(n), 0, 1}, true;
  if (d.size() > x.size() - axis && t.equal(all, n)) {
    bool ones = true;
    for (size_t j = 0; j + (x.size() - axis) < d.size(); ++j) ones = ones && d[j] == 1;
    if (ones) return o->strides = {0, 0, 1}, true;
  }
  return node.fail("operand " + std::to_string(i) + " is broadcast in a way that the norm kernels do not know");
}

}  // namespace

bool lower_norm(const Node& node) {
  const auto& a = node.attrs<NormAttrs>();
  const auto axis = static_cast<size_t>(a.axis);
  const bool fused = node.op() == OpKind::FusedResidualLN || node.op() == OpKind::FusedResidualRmsNorm;
  Scope s(node);
  DimTable& t = node.table();
  kernel::NormSpec spec;
  spec.rows = s.size(t.product(node.dims(0).first(axis))), spec.inner = s.size(t.product(node.dims(0).subspan(axis)));
  spec.input = node.dtype(0), spec.output = node.result_dtype();
  spec.centred = node.op() == OpKind::LayerNorm || node.op() == OpKind::FusedResidualLN;
  spec.eps = a.eps;
  s.in(0);
  if (fused)
    for (size_t i = 1; i < 3; ++i) {
      if (!node.has(i)) continue;
      Operand o;
      if (!row_strides(node, s, i, axis, &o)) return false;
      spec.addends.push_back(std::move(o));
    }
  for (size_t i = 0; i < 2; ++i) {
    const size_t at = (fused ? 3 : 1) + i;
    if (!node.has(at)) continue;
    Operand o;
    if (!row_strides(node, s, at, axis, &o)) return false;
    (i == 0 ? spec.gamma : spec.beta) = std::move(o);
  }
  s.out(0);
  if (fused) s.out(1);
  kernel::build_norm(s.builder(), spec, node.mapping());
  return s.finish(), true;
}

bool lower_group_norm(const Node& node) {
  const auto& a = node.attrs<GroupNormAttrs>();
  Scope s(node);
  DimTable& t = node.table();
  const auto x = node.dims(0);
  const Dim per_group = t.floor_div(x[1], Dim(a.groups));
  kernel::NormSpec spec;
  spec.rows = s.size(t.mul(x[0], Dim(a.groups))), spec.outer = s.size(per_group), spec.inner = s.size(t.product(x.subspan(2)));
  spec.input = node.dtype(0), spec.output = node.result_dtype(), spec.eps = a.eps, spec.row_groups = a.groups;
  s.in(0);
  for (size_t i = 1; i < 3; ++i) {
    if (!node.has(i)) continue;
    Operand o = s.in(i);
    o.strides = {spec.outer, 1, 0};
    (i == 1 ? spec.gamma : spec.beta) = std::move(o);
  }
  s.out();
  kernel::build_norm(s.builder(), spec, node.mapping());
  return s.finish(), true;
}

bool lower_lrn(const Node& node) {
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
  return s.finish(), true;
}

}  // namespace rlxc::codegen
