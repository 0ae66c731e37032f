#include "import/json/import.h"

#include <doctest/doctest.h>

#include <fstream>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "report/graph_json.h"
#include "support/deep_module.h"
#include "support/example_module.h"
#include "support/golden.h"
#include "support/random.h"
#include "support/random_graph.h"
#include "support/schema.h"
#include "support/temp_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::string to_json(const Module& m) {
  std::string s;
  JsonWriter out(s);
  report::write_graph(m, out, {"example", "", false, "", "0.1.0"});
  return s;
}

std::unique_ptr<Module> read(std::string_view text, Diagnostics& d, const std::string& folder = "") {
  return import_json::parse_json(text, folder, {}, d);
}

std::string errors(std::string_view text) {
  Diagnostics d;
  const auto m = read(text, d);
  CHECK((m == nullptr) == !d.ok());
  return d.text();
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

std::string compact_text(Module& m) {
  for (size_t i = 0; i < m.graph_count(); ++i) m.graph(GraphId(i)).compact();
  return print(m, {.full_data = true, .origins = true});
}

void check_round_trip(Module& m) {
  const std::string before = compact_text(m), json = to_json(m);
  Diagnostics d;
  const auto again = read(json, d);
  REQUIRE_MESSAGE(again, d.text() << json);
  CHECK(print(*again, {.full_data = true, .origins = true}) == before);
  CHECK(to_json(*again) == json);
}

// A minimal document with these nodes and outputs.
std::string graph(const std::string& nodes, const std::string& outputs = "[1]") {
  return R"({"format": "rlxc-graph", "graphs": [{"nodes": [)" + nodes + R"(], "outputs": )" + outputs + "}]}";
}
const std::string kInput = R"({"op": "Input", "results": [[0, "f32[2,3]", "x"]]})";

}  // namespace

TEST_CASE("graphs, to JSON and back, are the same") {
  for (const bool symbolic : {false, true}) check_round_trip(*example_module(symbolic));
  check_round_trip(*deep_module(3));
  for (uint64_t seed = 0; seed < 300; ++seed)
    check_round_trip(*testing::random_graph({.seed = seed, .nodes = 50, .symbolic = seed % 2 == 1}));
}

TEST_CASE("the JSON of a graph follows its schema") {
  const auto m = example_module(true);
  const std::string json = to_json(*m);
  check_schema("graph", json);
  check_golden("report/graph.json", json);
  check_schema("graph", to_json(*testing::random_graph({.seed = 7, .nodes = 80, .symbolic = true})));
}

TEST_CASE("attributes of every kind of every operation survive") {
  Random random(5);
  for (int k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (has_trait(op, kTerminator) || std::holds_alternative<DataAttrs>(default_attrs(op))) continue;
    Module m("attrs");
    const Dim seq = m.dims.symbol("a \"seq\"");
    for (int round = 0; round < 8; ++round) {
      Attrs attrs = default_attrs(op);
      for (const auto& [field, value] : attr_fields(attrs, m.dims, true, op)) {
        std::string ignored;
        for (const AttrValue& tried :
             {AttrValue(random.chance(0.5)), AttrValue(random.integer(-5, 1'000'000'000'000)), AttrValue(random.normal() * 1e-9),
              AttrValue(std::string("inf")), AttrValue(std::string("f16")), AttrValue(m.dims.text(m.dims.mul(seq, Dim(3)))),
              AttrValue(std::string("relu(0.5,2)")), AttrValue(std::vector<int64_t>{3, -1, random.integer(0, 9)}),
              AttrValue(std::vector<double>{0.1, 2, -1e300}), AttrValue(std::vector<std::string>{"7", m.dims.text(seq)}),
              AttrValue(std::vector<std::string>{"add(i0,i1):f32", "clamp(s0;0.5,1):f16"})})
          if (Attrs changed = attrs; random.chance(0.6) && set_attr_field(changed, field, tried, m.dims, &ignored))
            attrs = std::move(changed);
      }
      const TypeId type = m.types.tensor(DType::F32, {seq});
      const std::vector<TypeId> types(static_cast<size_t>(std::max(1, result_count(op))), type);
      m.main().make_node(op, {}, m.attrs.intern(attrs), types);
    }
    check_round_trip(m);
  }
}

TEST_CASE("contents of every type survive") {
  Module m("data");
  Builder b(m.main());
  Random random(3);
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    for (const int64_t n : {0, 1, 5, 40}) {
      if (dtype == DType::String) {
        TensorData d;
        d.dtype = dtype, d.dims = {n}, d.strings.assign(static_cast<size_t>(n), "a\n\"\xC3\xA9");
        b.constant(std::move(d));
        continue;
      }
      std::vector<std::byte> bytes(byte_size(dtype, static_cast<uint64_t>(n)).value());
      for (std::byte& x : bytes) x = static_cast<std::byte>(dtype == DType::Bool ? random.integer(0, 1) : random.integer(0, 255));
      b.constant(make_data(dtype, {n}, bytes));
      if (n > 0) b.constant(make_splat(dtype, {n, 100}, std::span(bytes).first(byte_size(dtype, 1).value())));
    }
  }
  for (NodeId n : m.main().nodes()) m.main().add_output(m.main().result(n), {});
  const std::string json = to_json(m);
  Diagnostics d;
  const auto again = read(json, d);
  REQUIRE_MESSAGE(again, d.text());
  REQUIRE(again->data.size() == m.data.size());
  for (size_t i = 0; i < m.data.size(); ++i) {
    const TensorData &x = m.data[DataId(i)], &y = again->data[DataId(i)];
    CHECK(x.dtype == y.dtype);
    CHECK(x.dims == y.dims);
    CHECK(x.splat == y.splat);
    CHECK(std::ranges::equal(x.bytes, y.bytes));
    CHECK(x.strings == y.strings);
  }
}

TEST_CASE("weights stay in their file") {
  const TempDir folder;
  std::ofstream(folder / "w.bin", std::ios::binary) << std::string(8, '\0') << std::string("\0\0\x80?\0\0\0@", 8);
  const auto text = [](const std::string& more) {
    return R"({"format": "rlxc-graph", "constants": [{"id": 4, "dtype": "f32", "dims": [2], "file": "w.bin", )" + more +
           R"(}], "graphs": [{"nodes": [{"op": "param", "attrs": {"data": 4}, "results": [[0, "f32[2]", "w"]]}], "outputs": [[0, "y"]]}]})";
  };
  Diagnostics d;
  const std::string path = folder / "g.json";
  std::ofstream(path) << text("\"offset\": 8, \"bytes\": 8");
  auto m = import_json::import_json(path, {}, d);
  REQUIRE_MESSAGE(m, d.text());
  const TensorData& w = m->data[m->main().attrs<DataAttrs>(m->main().first()).data];
  CHECK(element_as_double(w, 1) == 2);
  CHECK(w.file == "w.bin");
  check_round_trip(*example_module());
  for (const char* bad : {"\"offset\": 12", "\"offset\": 18446744073709551615", "\"offset\": 8, \"bytes\": 4"}) {
    Diagnostics found;
    CHECK_FALSE(read(text(bad), found, std::string(folder / "")));
  }
  Diagnostics missing;
  CHECK_FALSE(read(text("\"offset\": 0"), missing, "/nonexistent/"));
  CHECK(missing.exit() == ExitCode::Unreadable);
  Diagnostics allowed;
  m = import_json::parse_json(text("\"offset\": 0"), "/nonexistent/", {.allow_missing_weights = true}, allowed);
  REQUIRE(m);
  CHECK_FALSE(m->main().attrs<DataAttrs>(m->main().first()).data.valid());
  CHECK(allowed.items().size() == 1);
  Diagnostics unsafe;
  std::string outside = text("\"offset\": 0");
  outside.replace(outside.find("w.bin"), 5, "../w.b");
  CHECK_FALSE(read(outside, unsafe, std::string(folder / "")));
}

TEST_CASE("types may be left out where a rule infers them") {
  Diagnostics d;
  const auto m = read(
      graph(kInput + R"(, {"op": "relu", "operands": [0], "results": [1]}, {"op": "Add", "operands": [1, 0], "results": [[2]]})",
            "[[2, \"y\"]]"),
      d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(verify(*m, d));
  CHECK(text(m->main().type(m->main().outputs()[0]), m->dims) == "f32[2,3]");
}

TEST_CASE("types of every kind are read, as objects and as texts") {
  const std::pair<const char*, const char*> types[] = {
      {R"({"dtype": "i64", "dims": []})", "i64[]"},
      {R"({"dtype": "f32", "dims": ["batch", "2*batch+1", 4]})", "f32[batch,2*batch+1,4]"},
      {R"({"kind": "sequence", "dtype": "f16", "dims": [2]})", "seq<f16[2]>"},
      {R"({"kind": "sequence", "dtype": "f16"})", "seq<f16[*]>"},
      {R"({"kind": "optional", "dtype": "bool", "dims": [3]})", "optional<bool[3]>"},
      {R"({"kind": "optional", "of": "sequence", "dtype": "bool", "dims": [3]})", "optional<seq<bool[3]>>"},
      {R"({"kind": "map", "keys": "string", "dtype": "f32"})", "map<string,f32>"},
      {R"({"kind": "sequence", "keys": "i64", "dtype": "f32"})", "seq<map<i64,f32>>"}};
  for (const auto& [object, name] : types)
    for (const std::string& written : {std::string(object), "\"" + std::string(name) + "\""}) {
      Diagnostics d;
      const auto m = read(graph(R"({"op": "Input", "results": [{"value": 0, "type": )" + written + R"(, "name": "x"}]})",
                                R"([{"value": 0, "name": "y"}])"),
                          d);
      REQUIRE_MESSAGE(m, written << d.text());
      CHECK(text(m->main().type(m->main().outputs()[0]), m->dims) == name);
      CHECK(m->bytes(m->main().output_name(0)) == "y");
      check_round_trip(*m);
    }
}

TEST_CASE("faults of JSON graphs") {
  CHECK(has(errors("{}"), "lacks \"format\""));
  CHECK(has(errors("[]"), "line 1 column 1"));
  CHECK(has(errors("{\"format\": \"rlxc-graph\",\n\"graphs\": [}"), "line 2 column 12"));
  CHECK(has(errors(R"({"format": "rlxc-plan"})"), "not \"rlxc-graph\""));
  CHECK(has(errors(R"({"format": "rlxc-graph", "format_version": "4.0", "graphs": []})"), "newer than this rlxc"));
  CHECK(has(errors(R"({"format": "rlxc-graph", "graphs": []})"), "has no graph"));
  CHECK(has(errors(R"({"format": "rlxc-graph", "graph": []})"), "did you mean \"graphs\"?"));
  // Reports all unknown ops at once, without errors for users of their results.
  const std::string unknown =
      errors(graph(kInput + R"(, {"op": "Foo", "operands": [0], "results": [1]}, {"op": "Bar", "operands": [1], "results": [2]},
{"op": "Baz", "name": "b", "operands": [2, 9], "results": [3]}, {"op": "Relu", "operands": [3], "results": [4]})",
                   "[4]"));
  CHECK(has(unknown, "line 1 column"));
  CHECK(has(unknown, "\"Foo\" is unknown"));
  CHECK(has(unknown, "\"Bar\" is unknown"));
  CHECK(has(unknown, "line 2 column 1: node \"b\" (Baz)"));
  CHECK(std::count(unknown.begin(), unknown.end(), '\n') == 3);
  const auto one = [&](const std::string& node) { return errors(graph(kInput + ", " + node)); };
  CHECK(has(one(R"({"op": "Relu", "operands": [7], "results": [1]})"), "reads value 7"));
  CHECK(has(one(R"({"op": "Relu", "operands": [1], "results": [1]})"), "reads value 1"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [0]})"), "defined twice"));
  CHECK(has(one(R"({"op": "Relu", "operands": [-2], "results": [1]})"), "negative"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0.5], "results": [1]})"), "expected an integer"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "operands": [0], "results": [1]})"), "stands twice"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [[1, "f32[2"]]})"), "is no type"));
  const auto typed = [&](const std::string& type) {
    return one(R"({"op": "Relu", "operands": [0], "results": [{"value": 1, "type": )" + type + "}]}");
  };
  CHECK(typed(R"({"dtype": "f32", "dims": [2, 3]})").empty());
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [{"name": "y"}]})"), "\"value\" is missing"));
  for (const char* bad :
       {R"({"dims": [2]})", R"({"dtype": "f32"})", R"({"dtype": "f33", "dims": [2]})",
        R"({"dtype": "f32", "dims": [99999999999999999999]})", R"({"dtype": "f32", "dims": [1.5]})",
        R"({"dtype": "f32", "dims": ["2+"]})", R"({"dtype": "f32", "dims": 2})", R"({"kind": "map", "dtype": "f32"})",
        R"({"kind": "list", "dtype": "f32", "dims": [2]})", R"({"dtype": "f32", "keys": "i64"})",
        R"({"dtype": "f32", "dims": [2], "of": "sequence"})", R"({"keys": "f32", "kind": "map", "dtype": "f32"})"})
    CHECK_MESSAGE(has(typed(bad), "a type is an object such as"), bad << ": " << typed(bad));
  CHECK(has(one(R"({"op": "Softmax", "operands": [0], "attrs": {"axes": 1}, "results": [1]})"), "unknown attribute \"axes\""));
  CHECK(has(one(R"({"op": "Softmax", "operands": [0], "attrs": {"axis": "one"}, "results": [1]})"),
            "bad value of attribute \"axis\""));
  CHECK(has(one(R"({"op": "Softmax", "operands": [0], "attrs": {"axis": 4294967297000000000000}, "results": [1]})"), "64 bits"));
  CHECK(has(one(R"({"op": "Softmax", "operands": [0], "attrs": {"axis": [[1]]}, "results": [1]})"), "expected a number"));
  CHECK(has(one(R"({"op": "MatMul", "operands": [0, 0], "results": [1]})"), "RLX0215"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "bodies": [1], "results": [1]})"), "no bodies"));
  CHECK(has(one(R"({"op": "If", "operands": [0], "bodies": [1, 999999999999], "results": [1]})"), "there is no graph"));
  CHECK(has(one(R"({"op": "Constant", "attrs": {"data": 3}, "results": [[1, "f32[]"]]})"), "no constant with the id 3"));
  CHECK(has(one(R"({"op": "Return", "operands": [0]})"), "is unknown"));
  CHECK(has(one(R"({"op": "Transpose", "operands": [0], "attrs": {"perm": [0, true]}, "results": [1]})"),
            "lists hold numbers or strings"));
  CHECK(has(one(R"({"op": "Transpose", "operands": [0], "attrs": {"perm": [0.5, "a"]}, "results": [1]})"), "not both"));
  CHECK(has(one(R"({"operands": [0], "results": [1]})"), "a node needs \"op\""));
  CHECK(has(one(R"({"op": "Relu", "operands": [0]})"), "a node needs \"results\" with their types"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [1, 2]})"), "makes 1 results, \"results\" lists 2"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [-1]})"), "the id of a value is negative"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [[1, "f32[2]", "y", 4]]})"),
            "a list of more than a value, its type and its name"));
  CHECK(has(one(R"({"op": "Relu", "operands": [0], "results": [[1, "f32[2"]]})"), "\"f32[2\" is no type, such as f32[batch,4]"));
  const auto member = [](const std::string& fields) {
    return errors(R"({"format": "rlxc-graph", )" + fields + R"(, "graphs": [{"nodes": []}]})");
  };
  CHECK(has(member(R"("stage": "air")"), "the stage is \"hir\" or \"mir\""));
  CHECK(has(member(R"("equalities": [["n"]])"), "two sizes make an equality"));
  CHECK(has(member(R"("equalities": [["n", 2, 3]])"), "two sizes make an equality"));
  CHECK(has(member(R"("equalities": [["n", "2*"]])"), "\"2*\" is no size"));
  CHECK(has(member(R"("equalities": [[2, 3]])"), "two sizes that must be equal cannot be"));
  CHECK(has(errors(R"({"format": "rlxc-graph", "graphs": [{"outputs": []}]})"), "a graph needs \"nodes\""));
  CHECK(has(errors(R"({"format": "rlxc-graph", "graphs": [{"inputs": [1], "nodes": [)" + kInput + R"(], "outputs": [0]}]})"),
            "\"inputs\" must list the Input nodes in the order of \"nodes\""));
  Diagnostics limited;
  CHECK_FALSE(import_json::parse_json(to_json(*deep_module(10)), "", {.max_nodes = 20}, limited));
  CHECK(limited.exit() == ExitCode::Limit);
  const auto constant = [](const std::string& fields) {
    return errors(R"({"format": "rlxc-graph", "constants": [{"id": 0, )" + fields + R"(}], "graphs": [{"nodes": []}]})");
  };
  CHECK(has(constant(R"("dtype": "f32", "dims": [2], "values": [1])"), "4 bytes, its dims ask for 8"));
  CHECK(has(constant(R"("dtype": "i8", "dims": [1], "values": [128])"), "i8 cannot hold 128"));
  CHECK(has(constant(R"("dtype": "u8", "dims": [1], "values": [-1])"), "u8 cannot hold -1"));
  CHECK(has(constant(R"("dtype": "i8", "dims": [1], "values": [1.5])"), "expected an integer"));
  CHECK(has(constant(R"("dtype": "f8", "dims": [1], "values": [1])"), "known \"dtype\""));
  CHECK(has(constant(R"("dtype": "c64", "dims": [1], "values": [1])"), "needs \"base64\""));
  CHECK(has(constant(R"("dtype": "f32", "dims": [1], "base64": "AAA")"), "malformed base64"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [1], "base64": "AA?A")"), "malformed base64"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [-1], "splat": 1)"), "negative"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [1000000000000, 1000000000000], "splat": 1)"), "too large"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [], "splat": 1, "values": [1])"), "both"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [])"), "needs contents: values"));
  CHECK(has(constant(R"("dtype": "f32", "dims": [], "splat": 1}, {"id": 0, "dtype": "f32", "dims": [], "splat": 1)"),
            "two constants"));
}

TEST_CASE("graphs within each other, and very deep ones, are refused") {
  const auto with = [](const std::string& bodies) {
    return R"({"format": "rlxc-graph", "graphs": [{"nodes": [{"op": "input", "results": [[0, "bool[]", "c"]]},
      {"op": "if", "operands": [0], "bodies": )" +
           bodies + R"(, "results": [[1, "f32[]"]]}], "outputs": [1]}, {"nodes": []}, {"nodes": []}]})";
  };
  CHECK(has(errors(with("[1, 1]")), "body of two nodes"));
  CHECK(has(errors(with("[0, 1]")), "RLX"));
  CHECK(has(errors(with("[1, 7]")), "graph 7"));
  std::string deep = R"({"format": "rlxc-graph", "graphs": [)";
  for (int i = 0; i < 200; ++i)
    deep += (i ? ", " : "") + std::string(R"({"nodes": [{"op": "loop", "operands": [null, null], "bodies": [)") +
            std::to_string(i + 1) + R"(], "results": [[0, "f32[]"]]}]})";
  CHECK(has(errors(deep + R"(, {"nodes": []}]})"), "nested deeper"));
}

TEST_CASE("damaged graphs never crash the reader or the verifier") {
  std::vector<std::string> seeds = {to_json(*example_module(true))};
  for (uint64_t seed = 0; seed < 4; ++seed)
    seeds.push_back(to_json(*testing::random_graph({.seed = seed, .nodes = 25, .symbolic = seed % 2 == 0})));
  Random random(11);
  size_t survivors = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = seeds[static_cast<size_t>(random.integer(0, static_cast<int64_t>(seeds.size()) - 1))];
    for (int64_t k = random.integer(1, 4); k > 0; --k) {
      const auto at = static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1));
      switch (random.integer(0, 3)) {
        case 0: text[at] = "0123456789[]{}\",:-ex"[random.integer(0, 19)]; break;
        case 1: text.erase(at, static_cast<size_t>(random.integer(1, 8))); break;
        case 2: text.insert(at, std::string(1, "09[]\"-"[random.integer(0, 5)])); break;
        case 3: {  // a number of one place at another
          const size_t from = text.find_first_of("0123456789", at),
                       to = text.find_first_of("0123456789",
                                               static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1)));
          if (from != text.npos && to != text.npos) text[to] = text[from];
          break;
        }
      }
      if (text.empty()) text = "{";
    }
    Diagnostics d;
    if (const auto m = read(text, d)) survivors += verify(*m, d);
  }
  CHECK(survivors > 0);
}
