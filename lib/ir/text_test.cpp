#include "ir/text.h"

#include <doctest/doctest.h>

#include <array>

#include "ir/builder.h"
#include "ir/verify.h"

using namespace rlxc;

namespace {

constexpr std::string_view kText = R"(module "m" mir {
equal "b" "batch"
devices {"configurations": [{"name": "tp", "devices": 4, "device_names": ["g0", "g\u00011"]}], "nodes": [{"node": "mm/1", "configuration": "tp", "stage": 1, "tensors": [{"tensor": "w", "devices": [0, -1], "groups": [{"id": -1, "devices": [1, 2]}], "axes": [{"axis": -1, "parts": [{"shards": 2, "size": 8}, {"shards": 1, "size": "n"}, {"shards": 1}]}]}]}]}
graph @main {
  %0 = input "x y" : f32[batch,4]
  %1 = param "w" : f32[4,8]
  %2 = constant {data = dense [0.5, -inf]} : f32[2]
  %3 = constant {data = splat 1} : i64[100]
  %4 = matmul(%0, %1) "mm/1" : f32[batch,8]
  %5, %6 = topk(%4) {k = 3, axis = 1} : f32[batch,3], i64[batch,3]
  %7 = elementwise_region(%4) {steps = ["add(i0,i0):f32", "leaky_relu(s0;0.1,0):f32"]} : f32[batch,8]
  %8 = constant {data = dense [1]} : bool[]
  %9 = if(%8, %7) [@then, @else] : f32[batch,8]
  %10 = clamp(%9) {min = 0.0} : f32[batch,8]
  %11 = narrow(%10) {len = "batch"} : f32[batch,8]
  return %11 "y", %6
}
graph @then {
  %0 = input "a" : f32[batch,8]
  return %0
}
graph @else {
  %0 = input "a" : f32[batch,8]
  %1 = neg(%0) : f32[batch,8]
  return %1
}
}
)";

}  // namespace

TEST_CASE("text parses, verifies and prints back the same") {
  Diagnostics d;
  const auto m = parse_text(kText, d);
  INFO(d.text());
  REQUIRE(m);
  CHECK(verify(*m, d));
  CHECK(d.text() == "");
  CHECK(print(*m) == kText);
}

TEST_CASE("any name fits on one line and comes back") {
  Diagnostics d;
  Module m("m\n}");
  const Dim size = m.dims.symbol("n\n\"\\\u2028");
  Builder main(m.main(), &d);
  m.main().add_output(main.input("x\r\x1b", tensor_type(DType::F32, {size})), m.symbol("y\u0085"));
  Graph& body = m.graph(m.make_graph("body\n@x"));
  body.add_output(Builder(body, &d).input("z\n}", tensor_type(DType::F32, {size})), {});
  const std::string text = print(m);
  CHECK(std::ranges::count(text, '\n') == 10);
  const auto back = parse_text(text, d);
  INFO(text, d.text());
  REQUIRE(back);
  CHECK(print(*back) == text);
  CHECK(back->name == "m\n}");
  CHECK(back->dims.equal(back->main().dims(back->main().outputs()[0])[0], back->dims.symbol("n\n\"\\\u2028")));
  CHECK(back->graph(GraphId(1)).name() == "body\n@x");
}

TEST_CASE("large constants print in full when asked") {
  Diagnostics d;
  Module m;
  std::vector<int64_t> values(40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) - 3;
  const AttrId a = m.attrs.intern(DataAttrs{m.data.add(make_data(DType::I64, {40}, values))});
  const TypeId t = m.types.tensor(DType::I64, {40});
  const NodeId n = m.main().make_node(OpKind::Constant, {}, a, {&t, 1});
  m.main().add_output(m.main().result(n), {});
  CHECK(print(m).find("elided") != std::string::npos);
  const auto back = parse_text(print(m, {.full_data = true}), d);
  REQUIRE(back);
  CHECK(element_as_int(back->data[DataId(0)], 39) == 36);
}

TEST_CASE("errors in text carry the place") {
  for (auto [bad, message] : {std::pair{"module \"m\" mir {\ngraph @main {\n  %0 = nothing : f32[2]\n  return\n}\n}",
                                        "line 3 column 15: unknown operation"},
                              {"module \"m\" mir {\ngraph @main {\n  return %4\n}\n}", "%4 is not defined"},
                              {"module \"m\" mir {\ngraph @main {\n  %0 = constant {data = dense [1]} : f32[2]\n  return\n}\n}",
                               "wrong number of elements"},
                              {"module \"m\" mir {\ngraph @main {\n  %0 = dim_value {dims = [1, \"n\"]} : i64[2]\n  return\n}\n}",
                               "numbers or strings, not both"},
                              {"modul", "expected 'module'"},
                              {"", "expected 'module'"}}) {
    Diagnostics d;
    CHECK_FALSE(parse_text(bad, d));
    INFO(d.text());
    CHECK(d.text().find(message) != std::string::npos);
  }
}

TEST_CASE("each fault of text is named at its place") {
  const auto said = [](const std::string& text) {
    Diagnostics d;
    CHECK_FALSE(parse_text(text, d));
    return d.text();
  };
  const auto node = [&](const std::string& line) {
    return said("module \"m\" mir {\ngraph @main {\n  %0 = input \"x\" : f32[2]\n  " + line + "\n  return %0\n}\n}");
  };
  const auto constant = [&](const std::string& data, const std::string& type) {
    return node("%1 = constant {data = " + data + "} : " + type);
  };
  const std::pair<std::string, std::string> cases[] = {
      {said("module m mir {}"), "line 1 column 8: expected a quoted name"},
      {said("module \"m mir {}"), "line 1 column 8: unterminated name"},
      {said("module \"m\\q\" mir {}"), "line 1 column 8: malformed name"},
      {said("module \"m\" air {}"), "expected hir, mir or lir"},
      {said("module \"m\" mir {}"), "a module needs a graph"},
      {said("module \"m\" mir {\nequal \"2\" \"3\"\n}"), "line 2 column 14: contradicting sizes"},
      {said("module \"m\" mir {\nconstants\n}"), "expected 'graph', 'size', 'equal', 'devices' or '}'"},
      {said("module \"m\" mir {\ngraph @main {\n  return\n}\ngraph @main {\n  return\n}\n}"), "two graphs have this name"},
      {node("%1 = if(%0) [@a, @b] : f32[2]"), "line 4 column 18: unknown graph"},
      {node("%1 = relu(%0) lunch \"a\" : f32[2]"), "expected launch and its name"},
      {node("%1 = relu(%0) : f32[2], f32[2]"), "as many types as results are needed"},
      {node("%1 = relu(%0) : f32[2"), "line 4 column"},
      {node("%1 = relu(%0) : f99[2]"), "malformed type"},
      {node("%1 = constant : f32[2]"), "a constant needs data"},
      {node("%1 = relu(%z) : f32[2]"), "line 4 column 14: expected an integer"},
      {node("%1 = transpose(%0) {perm = [0, \"a\"]} : f32[2]"), "a list holds numbers or strings, not both"},
      {constant("dense [,]", "f32[2]"), "expected an element"},
      {constant("sparse [1]", "f32[2]"), "expected dense, splat, hex, strings, file or elided"},
      {constant("dense [1, 2]", "f32[n]"), "data needs a static type"},
      {constant("dense [1, x]", "f32[2]"), "expected a number"},
      {constant("hex 000", "u8[2]"), "odd number of hex digits"},
      {constant("hex 0g00", "u8[2]"), "malformed hex digits"},
      {constant("hex 000000", "u8[2]"), "wrong number of elements"},
      {constant("strings [\"a\"]", "string[2]"), "wrong number of elements"},
      {constant("dense [1, 256]", "u8[2]"), "u8 cannot hold 256"},
      {constant("dense [-1, 3]", "u8[2]"), "u8 cannot hold -1"},
      {constant("dense [-129, 3]", "i8[2]"), "i8 cannot hold -129"},
      {constant("dense [128, 3]", "i8[2]"), "i8 cannot hold 128"},
      {constant("splat 2", "bool[2]"), "bool cannot hold 2"},
      {constant("splat 9223372036854775808", "i64[2]"), "i64 cannot hold 9223372036854775808"},
      {constant("dense [1, 2]", "c64[2]"), "write data of this type as hex"},
  };
  for (const auto& c : cases) CHECK_MESSAGE(c.first.find(c.second) != std::string::npos, c.second << "\n" << c.first);
}

TEST_CASE("integers at the ends of their range are read") {
  Diagnostics d;
  const auto m = parse_text(
      "module \"m\" mir {\ngraph @main {\n  %0 = constant {data = dense [-128, 127]} : i8[2]\n"
      "  %1 = constant {data = dense [0, 255]} : u8[2]\n"
      "  %2 = constant {data = dense [-9223372036854775808, 9223372036854775807]} : i64[2]\n"
      "  %3 = constant {data = dense [18446744073709551615, 0]} : u64[2]\n  return %0, %1, %2, %3\n}\n}",
      d);
  REQUIRE_MESSAGE(m, d.text());
  const std::string text = print(*m);
  for (const char* part : {"[-128, 127]", "[0, 255]", "[-9223372036854775808, 9223372036854775807]", "[18446744073709551615, 0]"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("bodies of one name are printed with a number each, and inputs in their order") {
  Module m;
  Builder b(m.main());
  const ValueId second = b.input("second", tensor_type(DType::F32, {2})), cond = b.input("cond", tensor_type(DType::Bool, {}));
  m.main().move_before(m.main().def(cond), m.main().def(second));
  std::vector<ValueId> out;
  for (int i = 0; i < 2; ++i) {
    std::vector<GraphId> bodies;
    for (const char* name : {"body", i ? "body_1" : "body"}) {
      bodies.push_back(m.make_graph(name));
      Builder inner(m.graph(bodies.back()));
      m.graph(bodies.back()).add_output(inner.unary(OpKind::Relu, inner.input("x", tensor_type(DType::F32, {2}))), {});
    }
    out.push_back(m.main().result(b.create_node(OpKind::If, std::array{cond, second}, IfAttrs{}, bodies)));
  }
  m.main().set_outputs(out);
  const std::string text = print(m);
  Diagnostics d;
  const auto back = parse_text(text, d);
  REQUIRE_MESSAGE(back, d.text());
  CHECK(print(*back) == text);
  CHECK(text.find("[@body, @body_2]") != std::string::npos);
  CHECK(text.find("[@body_3, @body_1]") != std::string::npos);
  const Graph& g = back->main();
  REQUIRE(g.inputs().size() == 2);
  CHECK(back->text(g.value_name(g.result(g.inputs()[0]))) == "second");
}
