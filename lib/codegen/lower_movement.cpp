// Layout ops: one elementwise copy of the operand through other strides.
#include "codegen/lower_blocked.h"
#include "codegen/lowerings.h"
#include "kernel/builders/map.h"

namespace rlxc::codegen {
namespace {

using kernel::MapSpec;

constexpr size_t kManyOperands = 16;  // of a concatenation; more share kernels

std::vector<Expr> identity(const std::vector<Expr>& v) { return v; }

Expr times(Scope& s, const Index& a, const Index& b) { return a.in(s.kernel()) * b.in(s.kernel()); }

// Takes elements start, start + step, ... of one axis.
bool take(Node& node, size_t axis, Dim start, int64_t step) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Operand x = s.in(0);
  x.offset = times(s, s.size(start), x.strides[axis]);
  x.strides[axis] = times(s, x.strides[axis], step);
  return copy(node, s, std::move(x), shape);
}

}  // namespace

bool copy(Node& node, Scope& s, Operand x, const Dims& shape) {
  kernel::MapSpec spec{shape, {std::move(x)}, {s.out()}, identity};
  split_channels(s, block_of(node, node.result()), &spec);
  kernel::build_map(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

bool lower_reshape(Node& node) {
  Scope s(node);
  Operand x = s.in(0), y = s.out();
  x.strides = y.strides = {1};
  kernel::build_map(s.builder(), {{x.extent}, {x}, {y}, identity}, node.mapping());
  s.finish();
  return true;
}

bool lower_transpose(Node& node) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Operand x = s.in(0);
  Dims strides;
  for (int64_t axis : node.attrs<PermAttrs>().perm) strides.push_back(x.strides[static_cast<size_t>(axis)]);
  x.strides = std::move(strides);
  return copy(node, s, std::move(x), shape);
}

bool lower_narrow(Node& node) {
  const auto& a = node.attrs<NarrowAttrs>();
  return take(node, static_cast<size_t>(a.axis), a.start, 1);
}

bool lower_slice(Node& node) {
  const auto& a = node.attrs<SliceAttrs>();
  return take(node, static_cast<size_t>(a.axis), a.start, a.step);
}

bool lower_expand(Node& node) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  return copy(node, s, s.in(0, node.result_dims()), shape);
}

bool lower_reverse(Node& node) {
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Operand x = s.in(0);
  for (int64_t axis : node.attrs<AxesAttrs>().axes) {
    const auto d = static_cast<size_t>(axis);
    x.offset = x.offset.in(s.kernel()) + (shape[d].in(s.kernel()) - 1) * x.strides[d].in(s.kernel());
    x.strides[d] = times(s, x.strides[d], -1);
  }
  return copy(node, s, std::move(x), shape);
}

bool lower_tile(Node& node) {
  Scope s(node);
  const Dims own = s.shape(node.dims(0)), reps = s.shape(node.attrs<DimsAttrs>().dims);
  Operand x = s.in(0);
  Dims shape, strides;
  for (size_t d = 0; d < own.size(); ++d) {
    shape.insert(shape.end(), {reps[d], own[d]});
    strides.insert(strides.end(), {0, x.strides[d]});
  }
  x.strides = strides;
  Operand y = s.out();
  y.strides = kernel::dense(s.kernel(), "y", y.dtype, shape).strides;
  kernel::build_map(s.builder(), {shape, {x}, {y}, identity}, node.mapping());
  s.finish();
  return true;
}

bool lower_concat(Node& node) {
  const auto axis = static_cast<size_t>(node.attrs<AxisAttrs>().axis);
  const bool shared = node.graph.operands(node.id).size() > kManyOperands && block_of(node, node.result()) == 0;
  Dim start(0);
  for (size_t i = 0; i < node.graph.operands(node.id).size(); ++i) {
    const Dim n = node.dims(i)[axis];
    if (node.table().constant_value(n) != 0) {
      Scope s(node);
      const Dims shape = s.shape(node.dims(i));
      const Index offset = shared ? s.parameter("start", start) : s.size(start);
      Operand x = s.in(i), y = s.out();
      start_at(s.kernel(), axis, offset, &y);
      kernel::MapSpec spec{shape, {x}, {y}, identity};
      split_channels(block_of(node, node.result()), &spec);
      kernel::build_map(s.builder(), spec, node.mapping());
      s.finish();
    }
    start = node.table().add(start, n);
  }
  return true;
}

// The last axis has two halves: up * act(gate).
bool lower_swiglu(Node& node) {
  const auto& a = node.attrs<SwiGLUAttrs>();
  Scope s(node);
  const Dims shape = s.shape(node.result_dims());
  Operand up = s.in(0), gate = s.in(0);
  gate.name = "gate";
  up.name = "up";
  (a.gate_first ? up : gate).offset = shape.back();
  Operand y = s.out();
  auto body = [&](const std::vector<Expr>& v) -> std::vector<Expr> { return {gated(v[0], v[1], a.act)}; };
  kernel::build_map(s.builder(), {shape, {up, gate}, {y}, body}, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
