#include "analysis/row_windows.h"

#include <doctest/doctest.h>

#include "eval/equivalence.h"
#include "ir/builder.h"
#include "ir/text.h"

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
    const RowRange computed = rows_computed(*map, range, g.dims(y)[axis].size());
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!map->operands[i]) continue;
      const size_t along = map->operands[i]->axis;
      const RowRange read = rows_read(*map, i, computed, g.dims(operands[i])[along].size());
      operands[i] = b.narrow(operands[i], static_cast<int64_t>(along), Dim(read.begin), Dim(read.size()));
    }
    const NodeId part = b.create_node(g.op(n), operands, attrs_of_rows(g, n, *map, computed));
    REQUIRE_MESSAGE(part.valid(), b.error());
    REQUIRE(g.dims(g.result(part))[axis].size() == computed.size());
    y = b.narrow(g.result(part), static_cast<int64_t>(axis), Dim(range.begin - computed.begin), Dim(range.size()));
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

namespace {

// A node of inputs %0, %1, .. and the axes of its results along which it can be cut.
struct Node {
  std::vector<const char*> operands;  // types
  const char *text, *axes;
  size_t results = 1;
};

// The node, or the wanted rows of it, cut out of it or computed from the rows that they need. Null: they cannot be cut.
std::unique_ptr<Module> part_of(const Node& c, size_t axis, std::optional<RowRange> wanted, bool from_parts) {
  std::string s = "module \"m\" mir {\ngraph @main {\n", values, types;
  for (size_t i = 0; i < c.operands.size(); ++i)
    s += "  %" + std::to_string(i) + " = input \"x" + std::to_string(i) + "\" : " + c.operands[i] + "\n";
  for (size_t i = 0; i < c.results; ++i) {
    values += (i ? ", %" : "%") + std::to_string(c.operands.size() + i);
    types += i ? ", f32[1]" : "f32[1]";
  }
  Diagnostics d;
  auto m = parse_text(s + "  " + values + " = " + c.text + " : " + types + "\n  return " + values + "\n}\n}\n", d);
  REQUIRE_MESSAGE(m, d.text());
  Graph& g = m->main();
  Builder b(g);
  const NodeId parsed = g.def(g.outputs()[0]);
  std::vector<ValueId> operands(g.operands(parsed).begin(), g.operands(parsed).end());
  const NodeId n = b.create_node(g.op(parsed), operands, m->attrs[g.attr_id(parsed)]);
  REQUIRE_MESSAGE(n.valid(), c.text, ": ", b.error());
  for (size_t r = 0; r < c.results; ++r) g.replace_all_uses(g.result(parsed, r), g.result(n, r));
  g.erase(parsed);
  if (!wanted) return m;
  const auto map = map_rows(g, n, axis);
  if (!map) return nullptr;
  const RowRange computed = from_parts ? rows_computed(*map, *wanted, g.dims(g.result(n))[axis].size()) : RowRange{};
  NodeId made = n;
  if (from_parts) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!map->operands[i]) continue;
      const size_t along = map->operands[i]->axis;
      const RowRange read = rows_read(*map, i, computed, g.dims(operands[i])[along].size());
      operands[i] = b.narrow(operands[i], static_cast<int64_t>(along), Dim(read.begin), Dim(read.size()));
    }
    made = b.create_node(g.op(n), operands, attrs_of_rows(g, n, *map, computed));
    REQUIRE_MESSAGE(made.valid(), c.text, ": ", b.error());
    REQUIRE(g.dims(g.result(made))[axis].size() == computed.size());
  }
  for (size_t r = 0; r < c.results; ++r)
    g.set_operand(
        g.terminator(), static_cast<uint32_t>(r),
        b.narrow(g.result(made, r), static_cast<int64_t>(axis), Dim(wanted->begin - computed.begin), Dim(wanted->size())));
  return m;
}

}  // namespace

TEST_CASE("rows of every kind of node along every axis with a loop are those of the whole result") {
  const std::vector<Node> nodes = {
      {{"u8[2,5,3]", "i8[3,4]", "u8[]", "i8[4]"}, "q_matmul(%0, %1, %2, %3)", "012"},
      {{"u8[5,3]", "i8[3,4]", "u8[5]", "i8[1,4]"}, "q_matmul(%0, %1, %2, %3)", "01"},
      {{"u8[2,5,3]", "i8[2,3,4]", "u8[2,5,1]"}, "q_matmul(%0, %1, %2)", "012"},
      {{"u8[5,3]", "i8[3,4]", "u8[]", "i8[]", "f32[4]", "f32[5,1]"},
       R"(fused_q_matmul(%0, %1, %2, %3, %4, %5) {steps = ["q_matmul():i32", "cast(s0):f32", "mul(s1,i4):f32", "add(s2,i5):f32"], also = [1]})",
       "01",
       2},
      {{"f32[5,3]", "i8[3,4]", "u8[]", "i8[]", "f32[]", "f32[5,4]"},
       R"(fused_q_matmul(%0, %1, %2, %3, %4, %5) {steps = ["q_matmul():i32", "cast(s0):f32", "mul(s1,i5):f32"]})",
       "01"},
      {{"u8[5,3]", "i8[3,8]", "u8[]", "i8[8]", "f32[4]"},
       R"(fused_q_matmul(%0, %1, %2, %3, %4) {steps = ["q_matmul():i32", "q_matmul():i32", "cast(s0):f32", "cast(s1):f32", "mul(s2,s3):f32", "mul(s4,i4):f32"]})",
       "0"},
      {{"f32[2,5,6]", "i8[6,4]", "f32[3,4]", "i8[3,4]", "f32[4]", "f32[2,5,4]"},
       R"(dequant_matmul(%0, %1, %2, %3, %4, %5) {block = 2})",
       "012"},
      {{"f32[5,6]", "i8[8,6]", "f32[8,1]", "i8[1,1]", "f32[8]"},
       R"(dequant_matmul(%0, %1, %2, %3, %4) {trans_b = true, gated = true})",
       "0"},
      {{"u8[2,3,9,5]", "i8[4,3,3,3]", "u8[]", "i8[4]"},
       R"(q_conv(%0, %1, %2, %3) {strides = [2, 1], pads_begin = [1, 1], pads_end = [1, 1], dilations = [1, 1]})",
       "0123"},
      {{"u8[2,4,9,5]", "i8[4,2,3,3]", "u8[]", "i8[]", "f32[4,1,1]", "f32[2,4,9,5]"},
       R"(fused_q_conv(%0, %1, %2, %3, %4, %5) {strides = [1, 1], pads_begin = [1, 1], pads_end = [1, 1], dilations = [1, 1], groups = 2, steps = ["q_conv():i32", "cast(s0):f32", "mul(s1,i4):f32", "add(s2,i5):f32"], also = [2]})",
       "0123",
       2},
      {{"f32[2,3,5,5]", "f32[3,4,3,3]", "f32[4]"},
       R"(conv_transpose(%0, %1, %2) {strides = [2, 1], pads_begin = [1, 1], pads_end = [1, 1], dilations = [1, 1], output_padding = [1, 0]})",
       "0123"},
      {{"f32[2,3,5,5]", "f32[3,4,2,2]"},
       R"(conv_transpose(%0, %1) {strides = [3, 2], pads_begin = [0, 0], pads_end = [0, 0], dilations = [1, 1]})",
       "0123"},
      {{"f32[1,2,5,4]", "f32[2,2,4,1]", "f32[2]", "f32[1,2,12,4]"},
       R"(fused_conv_transpose_bias_act(%0, %1, %2, %3) {strides = [2, 1], pads_begin = [0, 0], pads_end = [0, 0], dilations = [1, 1], act = "relu"})",
       "123"},
      {{"f32[2,6,8]", "f32[6,1]"},
       R"(reduce_region(%0, %1) {steps = ["mul(i0,i1):f32", "reduce_max(s0):f32", "sub(s0,s1):f32"], axes = [2]})",
       "01"},
      {{"f32[2,6,8]"}, R"(reduce_region(%0) {steps = ["abs(i0):f32", "reduce_sum(s0):f32"], axes = [0, 2]})", "1"},
      {{"f32[2,6,3]", "f32[2,6,5]", "f32[6,1]"},
       R"(concat_region(%0, %1, %2) {steps = ["mul(i0,i2):f32", "abs(i1):f32"], axis = 2, results = 1, parts = [0, 1]})",
       "01"},
      {{"f32[2,6,8]", "f32[8]"},
       R"(norm_region(%0, %1) {steps = ["abs(i0):f32", "layer_norm(s0;1e-05,0):f32", "mul(s1,i1):f32"], axis = 2, keep = true})",
       "01",
       2},
      {{"f32[3,4,6]", "f32[4,1]"},
       R"(norm_region(%0, %1) {steps = ["group_norm(i0;1e-05,2):f32", "mul(s0,i1):f32"], axis = 1})",
       "0"},
      {{"f32[3,4,6]", "f32[4]", "f32[4]"}, "group_norm(%0, %1, %2) {groups = 2}", "01"},
      {{"f32[2,4,6,8]", "f32[2,2,5,8]", "f32[2,2,5,8]", "f32[2,1,6,5]"}, R"(attention(%0, %1, %2, %3) {mask = "bias"})", "012"},
      {{"f32[2,6,16]", "f32[2,5,16]", "f32[2,5,16]"},
       R"(attention(%0, %1, %2) {num_heads = 4, num_kv_heads = 4, layout = "packed", out_layout = "packed"})",
       "012"},
      {{"f32[1,4,6,8]", "f32[1,4,6,8]", "f32[1,4,6,8]"}, R"(attention(%0, %1, %2) {mask = "causal"})", "1"},
      {{"u8[2,6,4]", "u8[1,4,5]", "u8[2,5,3]", "u8[]", "u8[]", "u8[]", "u8[]", "f32[6,1]", "f32[2,1,3]"},
       R"(q_attention(%0, %1, %2, %3, %4, %5, %6, %7, %8) {steps = ["q_matmul():i32", "cast(s0):f32", "mul(s1,i7):f32", "softmax(s2):f32", "round(s3):f32", "cast(s4):u8", "q_matmul():i32", "cast(s6):f32", "mul(s7,i8):f32"]})",
       "01"},
      {{"f32[2,3,4,5]"},
       R"(resize(%0) {sizes = [2, 3, 8, 5], mode = "nearest", coord = "asymmetric", nearest = "floor"})",
       "0123"},
      {{"f32[2,3,4,5]"}, R"(resize(%0) {sizes = [2, 3, 12, 10], mode = "linear"})", "0123"},
      {{"f32[2,3,6,5]"}, R"(resize(%0) {sizes = [2, 3, 12, 10], scales = [1, 1, 2, 2], mode = "cubic"})", "0123"},
      {{"f32[2,3,4,5]"}, R"(resize(%0) {sizes = [2, 3, 8, 5], mode = "linear", coord = "align_corners"})", "013"},
      {{"f32[2,3,4,5]"}, R"(resize(%0) {sizes = [2, 3, 6, 5], mode = "linear"})", "013"},
      {{"f32[2,6,8]", "f32[2,6,8]", "f32[8]", "f32[8]"}, "fused_residual_ln(%0, %1, %2, %3) {axis = 2}", "01", 2},
      {{"f32[2,6,8]", "f32[8,6]", "f32[6]"}, "fused_matmul_swiglu(%0, %1, %2)", "01"},
      {{"f32[4,6]", "f32[6]", "i8[6]"}, R"(quantize(%0, %1, %2) {axis = 1, to = "i8"})", "01"},
      {{"i8[4,6]", "f32[4,3]"}, R"(dequantize(%0, %1) {axis = 1, block = 2, to = "f32"})", ""},
      {{"f32[4,3]", "i64[2,5]"}, "gather(%0, %1) {axis = 0}", "012"},
      {{"f32[6,4]", "f32[6,5]"}, "matmul(%0, %1) {trans_a = true}", "01"},
      {{"f32[2,12,3]"}, "reshape(%0) {dims = [2, 3, 4, 3], scalar = false}", "013"},
      {{"f32[2,3,4,3]"}, "reshape(%0) {dims = [2, 12, 3], scalar = false}", "012"},
      {{"f32[2,4,6]"}, R"(softmax(%0) {axis = 1})", "02"},
      {{"f32[2,4,6]"}, "reverse(%0) {axes = [1]}", "02"},
      {{"f32[2,4,6]"}, R"(reduce(%0) {op = "sum", axes = [1], keep_dim = true})", "02"},
      {{"f32[2,4,6]"}, "layer_norm(%0) {axis = 1}", "0"},
      {{"f32[2,4,6]"}, "narrow(%0) {axis = 1, start = 1, len = 3}", "02"},
      {{"f32[2,4,6]"}, "narrow(%0) {axis = 1, start = 2, len = 2}", "02"},
      {{"f32[2,4]", "f32[2,4]"}, "concat(%0, %1) {axis = 1}", "0"},
      {{"f32[2,4]"}, R"(pad(%0) {before = [0, 1], after = [0, 1], mode = "reflect"})", "0"},
      {{"f32[2,6,4]", "f32[2,6,4]", "f32[4,2]", "f32[2,6,2]", "f32[2,6,2]"}, "selective_scan(%0, %1, %2, %3, %4)", "02"},
      {{"f32[3,8]"}, R"(fake_quantize(%0) {bits = 8})", ""},
  };
  for (const Node& c : nodes) {
    const auto whole = part_of(c, 0, std::nullopt, false);
    const Graph& g = whole->main();
    std::string axes;
    for (size_t axis = 0; axis < static_cast<size_t>(g.rank(g.outputs()[0])); ++axis) {
      const int64_t count = g.dims(g.outputs()[0])[axis].size();
      for (const RowRange r : {RowRange{0, 1}, {count - 1, count}, {1, count}, {0, count - 1}, {count / 2, count / 2 + 1}}) {
        if (r.begin < 0 || r.size() < 1 || r.end > count) continue;
        const auto cut = part_of(c, axis, r, false), made = part_of(c, axis, r, true);
        REQUIRE(!cut == !made);
        if (!cut) break;
        if (axes.empty() || axes.back() != static_cast<char>('0' + axis)) axes += static_cast<char>('0' + axis);
        std::string why;
        CHECK_MESSAGE(eval::same_results(*cut, *made, 1, 1e-5, 1e-6, &why), c.text, " axis ", axis, " rows ", r.begin, " to ",
                      r.end, ": ", why);
      }
    }
    CHECK_MESSAGE(axes == c.axes, c.text, " can be cut along ", axes);
  }
}

TEST_CASE("a symbolic number of rows is not cut") {
  Module m;
  Builder b(m.main());
  const ValueId y = b.unary(OpKind::Relu, b.input("x", f32({1, 2, b.dims().symbol("h"), 4})));
  CHECK_FALSE(map_rows(m.main(), m.main().def(y), 2));
}

TEST_CASE("a window that reads padding alone reads no rows") {
  const auto read = [](RowWindow w, RowRange r) { return rows_read({0, {w}}, 0, r, 13); };
  CHECK(read({2, 1, 4, 3}, {0, 1}).size() == 0);
  CHECK(read({2, 2, 1, 3}, {0, 2}) == RowRange{0, 4});
  CHECK(read({2, 2, 1, 3}, {6, 7}) == RowRange{11, 13});
}
