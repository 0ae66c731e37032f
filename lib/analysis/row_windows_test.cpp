#include "analysis/row_windows.h"

#include <doctest/doctest.h>

#include "eval/equivalence.h"
#include "ir/builder.h"

using namespace rlxc;

namespace {

Type f32(std::vector<Dim> dims) { return tensor_type(DType::F32, std::move(dims)); }

using Make = ValueId (*)(Builder&);

// The rows of the result of `make`, cut out of it, or computed from the rows that they need.
std::unique_ptr<Module> rows(Make make, size_t axis, RowRange range, bool from_parts) {
  auto m = std::make_unique<Module>();
  Builder b(m->main());
  Graph& g = m->main();
  ValueId y = make(b);
  const NodeId n = g.def(y);
  if (from_parts) {
    const auto map = map_rows(g, n, axis);
    REQUIRE(map);
    std::vector<ValueId> operands(g.operands(n).begin(), g.operands(n).end());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!map->operands[i]) continue;
      const RowWindow& w = *map->operands[i];
      const RowRange read = rows_read(w, range, g.dims(operands[i])[w.axis].size());
      operands[i] = b.narrow(operands[i], static_cast<int64_t>(w.axis), Dim(read.begin), Dim(read.size()));
    }
    const NodeId part = b.create_node(g.op(n), operands, attrs_of_rows(g, n, *map, range));
    REQUIRE_MESSAGE(part.valid(), b.error());
    y = g.result(part);
  } else {
    y = b.narrow(y, static_cast<int64_t>(axis), Dim(range.begin), Dim(range.size()));
  }
  g.add_output(y, {});
  return m;
}

ConvAttrs conv_attrs(std::vector<int64_t> strides, std::vector<int64_t> begin, std::vector<int64_t> end,
                     std::vector<int64_t> dilations, int64_t groups = 1) {
  ConvAttrs a;
  a.strides = std::move(strides);
  a.pads_begin = std::move(begin);
  a.pads_end = std::move(end);
  a.dilations = std::move(dilations);
  a.groups = groups;
  return a;
}

ValueId image(Builder& b) { return b.input("x", f32({2, 4, 13, 6})); }
ValueId tokens(Builder& b) { return b.input("x", f32({2, 9, 8})); }

template <int64_t kStride, int64_t kBefore, int64_t kAfter, int64_t kKernel, int64_t kDilation, int64_t kGroups>
ValueId conv(Builder& b) {
  const ValueId w = b.param("w", f32({8, 4 / kGroups, kKernel, 3})), bias = b.param("b", f32({8}));
  return b.create(OpKind::Conv, {image(b), w, bias},
                  conv_attrs({kStride, 1}, {kBefore, 1}, {kAfter, 1}, {kDilation, 1}, kGroups));
}

ValueId residual(Builder& b) {
  FusedConvAttrs a;
  a.conv = conv_attrs({1, 1}, {1, 1}, {1, 1}, {1, 1});
  const ValueId w = b.param("w", f32({4, 4, 3, 3}));
  return b.create(OpKind::FusedConvBiasAct, {image(b), w, ValueId(), b.input("r", f32({2, 4, 13, 6}))}, a);
}

template <ReduceOp kOp, int64_t kStride, int64_t kPad, bool kCeil, bool kCounts>
ValueId pool(Builder& b) {
  PoolAttrs a;
  a.op = kOp;
  a.kernel = {3, 3};
  a.strides = {kStride, 1};
  a.pads_begin = a.pads_end = {kPad, kPad};
  a.dilations = {1, 1};
  a.ceil_mode = kCeil;
  a.count_include_pad = kCounts;
  return b.create(OpKind::Pool, {image(b)}, a);
}

constexpr struct {
  const char* name;
  size_t axis;
  Make make;
} kCases[] = {
    {"conv", 2, conv<1, 1, 1, 3, 1, 1>},
    {"conv with strides", 2, conv<2, 1, 1, 3, 1, 1>},
    {"conv with strides beyond the kernel", 2, conv<3, 0, 0, 2, 1, 1>},
    {"conv with uneven padding", 2, conv<2, 0, 3, 4, 1, 1>},
    {"conv with much padding", 2, conv<1, 4, 2, 3, 1, 1>},
    {"conv with dilations", 2, conv<1, 2, 2, 3, 2, 1>},
    {"conv with groups", 2, conv<1, 1, 1, 3, 1, 2>},
    {"fused conv with a residual", 2, residual},
    {"max pool", 2, pool<ReduceOp::Max, 2, 1, false, false>},
    {"max pool that rounds up", 2, pool<ReduceOp::Max, 2, 0, true, false>},
    {"mean pool", 2, pool<ReduceOp::Mean, 1, 1, false, false>},
    {"mean pool that counts padding", 2, pool<ReduceOp::Mean, 2, 1, true, true>},
    {"mean pool that rounds up", 2, pool<ReduceOp::Mean, 3, 1, true, false>},
    {"elementwise with broadcasts", 2,
     [](Builder& b) {
       return b.add(b.mul(image(b), b.input("s", f32({4, 1, 1}))), b.input("t", f32({13, 1})));
     }},
    {"pad", 2,
     [](Builder& b) {
       PadAttrs a;
       a.before = {Dim(0), Dim(0), Dim(2), Dim(0)};
       a.after = {Dim(0), Dim(1), Dim(1), Dim(0)};
       return b.create(OpKind::Pad, {image(b)}, a);
     }},
    {"pad of columns", 2,
     [](Builder& b) {
       PadAttrs a;
       a.before = {Dim(0), Dim(0), Dim(0), Dim(2)};
       a.after = {Dim(0), Dim(0), Dim(0), Dim(1)};
       a.mode = PadMode::Reflect;
       return b.create(OpKind::Pad, {image(b)}, a);
     }},
    {"transpose", 1,
     [](Builder& b) {
       return b.transpose(image(b), {0, 2, 3, 1});
     }},
    {"reshape", 2,
     [](Builder& b) {
       return b.reshape(image(b), {4, 2, 13, 2, 3});
     }},
    {"concat of channels", 2,
     [](Builder& b) {
       return b.concat(std::vector<ValueId>{image(b), b.input("y", f32({2, 3, 13, 6}))}, 1);
     }},
    {"reduce", 2, [](Builder& b) { return b.reduce(ReduceOp::Mean, image(b), {1}, true); }},
    {"reduce without the axis", 1, [](Builder& b) { return b.reduce(ReduceOp::Max, image(b), {1}, false); }},
    {"softmax over channels", 2, [](Builder& b) { return b.create(OpKind::Softmax, {image(b)}, AxisAttrs{1}); }},
    {"lrn", 2, [](Builder& b) { return b.create(OpKind::Lrn, {image(b)}, LrnAttrs{3}); }},
    {"narrow of channels", 2, [](Builder& b) { return b.narrow(image(b), 1, 1, 2); }},
    {"layer norm", 1,
     [](Builder& b) {
       const ValueId gamma = b.param("gamma", f32({8})), beta = b.param("beta", f32({8}));
       return b.create(OpKind::LayerNorm, {tokens(b), gamma, beta}, NormAttrs{2});
     }},
    {"matmul", 1,
     [](Builder& b) {
       return b.matmul(tokens(b), b.param("w", f32({8, 5})));
     }},
    {"fused matmul with a residual", 1,
     [](Builder& b) {
       const ValueId w = b.param("w", f32({8, 5})), bias = b.param("bias", f32({5})), r = b.input("r", f32({2, 9, 5}));
       return b.create(OpKind::FusedMatMulBiasAct, {tokens(b), w, bias, r}, FusedMatMulAttrs{});
     }},
    {"swiglu", 1, [](Builder& b) { return b.create(OpKind::FusedSwiGLU, {tokens(b)}, SwiGLUAttrs{}); }},
    {"expand", 1,
     [](Builder& b) {
       return b.expand(b.input("x", f32({9, 1})), {2, 9, 4});
     }},
};

bool maps(Make make, size_t axis) {
  Module m;
  Builder b(m.main());
  const ValueId y = make(b);
  REQUIRE(y.valid());
  return map_rows(m.main(), m.main().def(y), axis).has_value();
}

}  // namespace

TEST_CASE("rows computed from the rows that they need are those of the whole result") {
  for (const auto& c : kCases) {
    Module whole;
    Builder b(whole.main());
    const ValueId y = c.make(b);
    REQUIRE_MESSAGE(y.valid(), c.name);
    const int64_t count = whole.main().dims(y)[c.axis].size();
    for (const RowRange r : {RowRange{0, 2}, {1, 3}, {2, 3}, {count - 2, count}, {1, count}, {0, count}}) {
      std::string why;
      const auto cut = rows(c.make, c.axis, r, false), made = rows(c.make, c.axis, r, true);
      CHECK_MESSAGE(eval::same_results(*cut, *made, 1, 1e-5, 1e-6, &why), c.name, " rows ", r.begin, " to ", r.end, ": ", why);
    }
  }
}

TEST_CASE("rows that need all others are not mapped") {
  CHECK_FALSE(maps([](Builder& b) { return b.create(OpKind::Softmax, {image(b)}, AxisAttrs{2}); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.create(OpKind::GroupNorm, {image(b)}, GroupNormAttrs{2}); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.create(OpKind::LayerNorm, {image(b)}, NormAttrs{1}); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.reduce(ReduceOp::Sum, image(b), {2}, true); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.concat(std::vector<ValueId>{image(b), image(b)}, 2); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.narrow(image(b), 2, 1, 4); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.reshape(image(b), {2, 4, 78}); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.matmul(image(b), b.input("w", f32({2, 4, 13, 5})), true); }, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.create(OpKind::Reverse, {image(b)}, AxesAttrs{{3}}); }, 2));
  CHECK_FALSE(maps(conv<1, 1, 1, 3, 1, 1>, 3));
  const auto reflect = [](Builder& b) {
    PadAttrs a;
    a.before = a.after = {Dim(0), Dim(0), Dim(1), Dim(0)};
    a.mode = PadMode::Reflect;
    return b.create(OpKind::Pad, {image(b)}, a);
  };
  CHECK_FALSE(maps(reflect, 2));
  CHECK_FALSE(maps([](Builder& b) { return b.unary(OpKind::Relu, b.input("x", f32({1, 2, b.dims().symbol("h"), 4}))); }, 2));
}

TEST_CASE("a window that reads padding alone reads no rows") {
  CHECK(rows_read({2, 1, 4, 3}, {0, 1}, 13).size() == 0);
  CHECK(rows_read({2, 2, 1, 3}, {0, 2}, 13) == RowRange{0, 4});
  CHECK(rows_read({2, 2, 1, 3}, {6, 7}, 13) == RowRange{11, 13});
}
