// Rotary embedding: of one value, also with a norm of its heads, and of queries and keys together with the writes to a cache.
#include "codegen/lowerings.h"
#include "kernel/builders/map.h"
#include "kernel/builders/rotate_append.h"
#include "kernel/builders/row.h"

namespace rlxc::codegen {
namespace {

// Pairs of elements of a head that are rotated together.
struct Pairs {
  Index half, second = 1;  // number of pairs; from the first to the second element of a pair
  int64_t step = 2;        // between the first elements of neighbouring pairs
};

Pairs pairs_of(Scope& s, const RopeAttrs& a, Dim half) {
  if (a.style == RopeStyle::NeoX) return {s.size(half), s.size(half), 1};
  return {s.size(half), 1, 2};
}

// A table [..., seq, half or rotated] over [batch, heads, seq, pairs], at the first or second element of each pair. Leading axes
// are batch, then heads.
Operand table_of(Node& node, Scope& s, size_t i, const std::string& name, Dim half, const Pairs& p, bool of_second) {
  Operand o = s.in(i);
  o.name = name;
  const auto d = node.dims(i);
  const bool full = !node.table().equal(d.back(), half);  // has the angles of both elements
  Dims wide(4, 0);
  auto put = [&](size_t axis, size_t own) {
    if (!(d[own] == 1)) wide[axis] = o.strides[own];
  };
  wide[3] = 1;
  if (d.size() >= 2) put(2, d.size() - 2);
  if (d.size() >= 3) put(0, 0);
  if (d.size() == 4) put(1, 1);
  if (p.step == 2 && full) wide[3] = 2;
  if (d.back() == 1) wide[3] = 0;
  else if (of_second && full) o.offset = p.second;
  o.strides = wide;
  return o;
}

}  // namespace

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

  // The axes of the result are batch, heads, positions, and within a head.
  auto epilogue = [&](Scope& s) { return s.quantized_result(kRopeFactor + 1, 4, node.has(kRopeFactor), 1); };
  auto strides = [&](Scope& s, const Dims& own, int64_t step) -> Dims {
    if (packed) return {own[0], s.size(head_dim), own[1], step};
    return {own[0], own[heads_first ? 1 : 2], own[heads_first ? 2 : 1], step};
  };
  {
    Scope s(node);
    const Dims space = s.shape(std::vector<Dim>{x[0], heads, seq, half});
    const Pairs pairs = pairs_of(s, a, half);
    auto part = [&](Operand o, const std::string& name, const Index& offset) {
      o.name = name;
      o.strides = strides(s, o.strides, pairs.step);
      o.offset = offset;
      return o;
    };
    auto table = [&](size_t i, const std::string& name, bool of_second) {
      return table_of(node, s, i, name, half, pairs, of_second);
    };
    Operand x0 = part(s.in(0), "first", 0), x1 = part(s.in(0), "second", pairs.second);
    Operand c0 = table(1, "cosine", false), s0 = table(2, "sine", false), c1 = table(1, "cosine_second", true),
            s1 = table(2, "sine_second", true);
    if (node.has(3)) {
      if (!t.equal(rotated, head_dim)) return node.fail("only heads that are rotated whole can be normalised");
      auto gamma = [&](const std::string& name, const Index& offset) {
        Operand o = s.in(3);
        const Dims own = o.strides;
        o.name = name;
        o.strides = {0, node.dims(3).size() == 2 ? own[0] : Index(0), 0, pairs.step};
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
      spec.gamma[1] = gamma("gamma_second", pairs.second);
      spec.epilogue = epilogue(s);
      spec.y[0] = part(s.out(), "y_first", 0);
      spec.y[1] = part(s.out(), "y_second", pairs.second);
      kernel::build_rotate_norm(s.builder(), spec, node.mapping());
      s.finish();
      return true;
    }
    const kernel::Epilogue end = epilogue(s);
    Operand y0 = part(s.out(), "y_first", 0), y1 = part(s.out(), "y_second", pairs.second);
    std::vector<Operand> inputs{x0, x1, c0, s0, c1, s1};
    inputs.insert(inputs.end(), end.inputs.begin(), end.inputs.end());
    auto body = [&](const std::vector<Expr>& v) -> std::vector<Expr> {
      const std::vector<Expr> last(v.begin() + 6, v.end());
      const auto stored = [&](Expr value) { return kernel::fused_values(end.body, {&value, 1}, last)[0]; };
      return {stored(v[0] * v[2] - v[1] * v[3]), stored(v[1] * v[4] + v[0] * v[5])};
    };
    kernel::build_map(s.builder(), {space, std::move(inputs), {y0, y1}, body}, node.mapping());
    s.finish();
  }
  const Dim rest = t.sub(head_dim, rotated);
  if (t.constant_value(rest) == 0) return true;
  Scope s(node, "rest");
  const Dims space = s.shape(std::vector<Dim>{x[0], heads, seq, rest});
  Operand from = s.in(0);
  const kernel::Epilogue end = epilogue(s);
  Operand to = s.out();
  from.strides = strides(s, from.strides, 1);
  to.strides = strides(s, to.strides, 1);
  from.offset = to.offset = s.size(rotated);
  std::vector<Operand> inputs{from};
  inputs.insert(inputs.end(), end.inputs.begin(), end.inputs.end());
  const auto body = [&](const std::vector<Expr>& v) {
    return kernel::fused_values(end.body, {v.data(), 1}, {v.begin() + 1, v.end()});
  };
  kernel::build_map(s.builder(), {space, std::move(inputs), {to}, body}, node.mapping());
  s.finish();
  return true;
}

// Launches: the caches are copied unless the results overwrite them, then one for all.
bool lower_rope_append(Node& node) {
  const auto& a = node.attrs<RopeAttrs>();
  DimTable& t = node.table();
  for (size_t i : {size_t{1}, size_t{2}}) {
    Scope s(node, "copy");
    s.bind({Binding::Kind::Operand, static_cast<uint32_t>(kRopeAppendCaches + i - 1)});
    s.bind({Binding::Kind::Result, static_cast<uint32_t>(i)});
    Operand x{"x", node.result_dtype(i), {1}, s.size(t.product(node.result_dims(i)))}, y = x;
    y.name = "y";
    kernel::build_map(s.builder(), {{x.extent}, {x}, {y}, [](const std::vector<Expr>& v) { return v; }}, node.mapping());
    s.finish(false, true);
  }
  Scope s(node);
  const auto q = node.dims(0), k = node.dims(1), room = node.dims(kRopeAppendCaches);
  const Dim rotated = a.n_rot ? Dim(a.n_rot) : q[3], half = t.floor_div(rotated, Dim(2));
  kernel::RotateAppendSpec spec;
  const Dims space = s.shape(std::vector<Dim>{q[0], q[1], k[1], q[2], q[3], node.dims(2)[3], room[2], rotated});
  spec.batch = space[0];
  spec.heads = space[1];
  spec.kv_heads = space[2];
  spec.length = space[3];
  spec.width = space[4];
  spec.value_width = space[5];
  spec.room = space[6];
  spec.rotated = space[7];
  const Pairs pairs = pairs_of(s, a, half);
  spec.pairs = pairs.half;
  spec.second = pairs.second;
  spec.step = pairs.step;
  spec.q = s.in(0);
  spec.k = s.in(1);
  spec.v = s.in(2);
  spec.cosine[0] = table_of(node, s, 3, "cosine", half, pairs, false);
  spec.sine[0] = table_of(node, s, 4, "sine", half, pairs, false);
  spec.cosine[1] = table_of(node, s, 3, "cosine_second", half, pairs, true);
  spec.sine[1] = table_of(node, s, 4, "sine_second", half, pairs, true);
  spec.at = s.in(kRopeAppendCaches + 2);
  const Dims own = spec.at.strides;
  const auto at = node.dims(kRopeAppendCaches + 2);
  spec.at.strides = {at[0] == 1 ? Index(0) : own[0], own[2]};
  spec.y = s.out(0);
  spec.keys = s.out(1);
  spec.values = s.out(2);
  kernel::build_rotate_append(s.builder(), spec, node.mapping());
  s.finish();
  return true;
}

}  // namespace rlxc::codegen
