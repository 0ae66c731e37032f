// Layout ops: one elementwise copy of the operand through other strides.
#include "codegen/lower_blocked.h"
#include "codegen/lowerings.h"
#include "kernel/builders/map.h"
#include "kernel/builders/row.h"

namespace rlxc::codegen {
namespace {

using kernel::MapSpec;

constexpr size_t kManyOperands = 16;  // of a concatenation; more share kernels

std::vector<Expr> identity(const std::vector<Expr>& v) { return v; }

// result[i] = x[i] with x's strides, over the shape of the result.
bool copy(Node& node, Scope& s, Operand x, const Dims& shape) {
  Operand y = s.out();
  kernel::build_map(s.builder(), {shape, {std::move(x)}, {std::move(y)}, identity}, node.mapping());
  s.finish();
  return true;
}

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
      if (y.split(axis)) {
        y.starts.resize(shape.size(), 0);
        y.starts[axis] = offset;
      } else {
        y.offset = times(s, offset, y.strides[axis]);
      }
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

// Rotates pairs of elements. Elements from n_rot on are copied.
bool lower_rope(Node& node) {
  const auto& a = node.attrs<RopeAttrs>();
  DimTable& t = node.table();
  // Index space: batch, heads, positions, and within a head.
  const auto x = node.dims(0);
  const bool packed = a.layout == AttentionLayout::Packed, heads_first = a.layout == AttentionLayout::BHSD;
  const Dim head_dim = packed ? Dim(a.head_dim) : x[3];
  const Dim heads = packed ? t.floor_div(x[2], head_dim) : x[heads_first ? 1 : 2];
  const Dim seq = x[heads_first ? 2 : 1];
  const Dim rotated = a.n_rot ? Dim(a.n_rot) : head_dim, half = t.floor_div(rotated, Dim(2));
  const bool halves = a.style == RopeStyle::NeoX;

  auto strides = [&](Scope& s, const Dims& own, int64_t step) -> Dims {
    if (packed) return {own[0], s.size(head_dim), own[1], step};
    return {own[0], own[heads_first ? 1 : 2], own[heads_first ? 2 : 1], step};
  };
  {
    Scope s(node);
    const Dims space = s.shape(std::vector<Dim>{x[0], heads, seq, half});
    const int64_t step = halves ? 1 : 2;
    const Index second = halves ? s.size(half) : Index(1);
    auto part = [&](Operand o, const std::string& name, const Index& offset) {
      o.name = name;
      o.strides = strides(s, o.strides, step);
      o.offset = offset;
      return o;
    };
    // Tables [..., seq, half or rotated]. Leading axes are batch, then heads.
    auto table = [&](size_t i, const std::string& name, bool of_second) {
      Operand o = s.in(i);
      o.name = name;
      const auto d = node.dims(i);
      Dims wide(4, 0);
      auto put = [&](size_t axis, size_t own) {
        if (!(d[own] == 1)) wide[axis] = o.strides[own];
      };
      wide[3] = 1;
      if (d.size() >= 2) put(2, d.size() - 2);
      if (d.size() == 3) put(0, 0);
      if (d.size() == 4) {
        put(0, 0);
        put(1, 1);
      }
      if (!halves && !t.equal(d.back(), half)) wide[3] = 2;
      if (d.back() == 1) wide[3] = 0;
      else if (of_second && !t.equal(d.back(), half)) o.offset = second;  // a full-width table has the angles of both elements
      o.strides = wide;
      return o;
    };
    Operand x0 = part(s.in(0), "first", 0), x1 = part(s.in(0), "second", second);
    Operand c0 = table(1, "cosine", false), s0 = table(2, "sine", false), c1 = table(1, "cosine_second", true),
            s1 = table(2, "sine_second", true);
    if (node.has(3)) {
      if (!t.equal(rotated, head_dim)) return node.fail("only heads that are rotated whole can be normalised");
      auto gamma = [&](const std::string& name, const Index& offset) {
        Operand o = s.in(3);
        const Dims own = o.strides;
        o.name = name;
        o.strides = {0, node.dims(3).size() == 2 ? own[0] : Index(0), 0, step};
        o.offset = offset;
        return o;
      };
      kernel::RotateNormSpec spec;
      spec.rows = {space[0], space[1], space[2]};
      spec.pairs = space[3];
      spec.eps = a.eps;
      spec.x[0] = x0;
      spec.x[1] = x1;
      spec.cosine[0] = c0;
      spec.sine[0] = s0;
      spec.cosine[1] = c1;
      spec.sine[1] = s1;
      spec.gamma[0] = gamma("gamma_first", 0);
      spec.gamma[1] = gamma("gamma_second", second);
      spec.y[0] = part(s.out(), "y_first", 0);
      spec.y[1] = part(s.out(), "y_second", second);
      kernel::build_rotate_norm(s.builder(), spec, node.mapping());
      s.finish();
      return true;
    }
    Operand y0 = part(s.out(), "y_first", 0), y1 = part(s.out(), "y_second", second);
    auto body = [](const std::vector<Expr>& v) -> std::vector<Expr> {
      return {v[0] * v[2] - v[1] * v[3], v[1] * v[4] + v[0] * v[5]};
    };
    kernel::build_map(s.builder(), {space, {x0, x1, c0, s0, c1, s1}, {y0, y1}, body}, node.mapping());
    s.finish();
  }
  const Dim rest = t.sub(head_dim, rotated);
  if (t.constant_value(rest) == 0) return true;
  Scope s(node, "rest");
  const Dims space = s.shape(std::vector<Dim>{x[0], heads, seq, rest});
  Operand from = s.in(0), to = s.out();
  from.strides = strides(s, from.strides, 1);
  to.strides = strides(s, to.strides, 1);
  from.offset = to.offset = s.size(rotated);
  kernel::build_map(s.builder(), {space, {from}, {to}, identity}, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
