#include "support/onnx_pairs.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Reals = std::vector<double>;
using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

void ml(OnnxPair& p, std::string_view op, const std::string& in, const std::string& out,
        const std::vector<std::string>& attributes) {
  p.node_of("ai.onnx.ml", op, {in}, {out}, attributes);
}
// TypeProto of a map of f32, and what holds it.
std::string map_of_f32(int64_t key) { return field(5, field(1, key) + field(2, field(1, field(1, int64_t{1})))); }
std::string declared(std::string_view name, const std::string& type) { return field(1, name) + field(2, type); }

}  // namespace

TEST_CASE("rows become maps, maps vectors") {
  OnnxPair p;
  p.model().input("x", DType::F32, {2, 3}, {1, 2.5, 3, 4, 5.5, 6});
  p.number("one", 1).on("Cast", {"one"}, "second", {attribute("to", 7)});
  ml(p, "ZipMap", "x", "maps", {attribute("classlabels_int64s", Ints{3, 0, 2})});
  p.on("SequenceAt", {"maps", "second"}, "map");
  ml(p, "CastMap", "map", "dense", {});
  ml(p, "CastMap", "map", "sparse", {attribute("cast_to", "TO_INT64"), attribute("map_form", "SPARSE"), attribute("max_map", 5)});
  ml(p, "DictVectorizer", "map", "vector", {attribute("int64_vocabulary", Ints{2, 7, 3})});
  ml(p, "ZipMap", "x", "words", {attribute("classlabels_strings", Texts{"b", "a", "c"})});
  p.on("SequenceAt", {"words", "second"}, "word");
  ml(p, "DictVectorizer", "word", "row", {attribute("string_vocabulary", Texts{"a", "z"})});
  p.on("SequenceLength", {"maps"}, "count");
  for (const char* name : {"dense", "sparse", "vector", "count"}) p.model().output(name);
  p.model().raw_graph(field(12, value_info("row", DType::F32, {1, 2})));
  const auto got = p.model().run();
  CHECK(got[0] == Reals{5.5, 6, 4});
  CHECK(got[1] == Reals{5, 0, 6, 4, 0});
  CHECK(got[2] == Reals{6, 0, 4});
  CHECK(got[3] == Reals{2});
  CHECK(got[4] == Reals{5.5, 0});
}

TEST_CASE("types of maps in ONNX models") {
  Diagnostics d;
  OnnxModel m;
  m.opset("ai.onnx.ml", 5);
  m.raw_graph(field(11, declared("a", map_of_f32(7))) + field(11, declared("b", field(4, field(1, map_of_f32(8))))) +
              field(11, declared("c", field(9, field(1, field(4, field(1, map_of_f32(7))))))));
  for (const char* name : {"a", "b", "c"}) m.output(name);
  const auto module = m.load(d);
  REQUIRE_MESSAGE(module, d.text());
  const Graph& g = module->main();
  CHECK(text(g.type(g.outputs()[0]), module->dims) == "map<i64,f32>");
  CHECK(text(g.type(g.outputs()[1]), module->dims) == "seq<map<string,f32>>");
  CHECK(text(g.type(g.outputs()[2]), module->dims) == "optional<seq<map<i64,f32>>>");

  const auto refuses = [](const std::string& type, const char* why) {
    OnnxModel bad;
    bad.raw_graph(field(11, declared("x", type)));
    bad.output("x");
    Diagnostics inner;
    CHECK_FALSE(bad.load(inner));
    CHECK_MESSAGE(inner.text().find(why) != std::string::npos, inner.text());
  };
  refuses(map_of_f32(1), "keys of a map must be int64 or string");
  refuses(field(5, field(1, int64_t{7}) + field(2, map_of_f32(7))), "single elements");
  refuses(field(5, field(1, int64_t{7}) + field(2, field(1, field(1, int64_t{1}) + field(2, field(1, field(1, int64_t{3})))))),
          "single elements");
}

TEST_CASE("operators on maps refuse what does not fit") {
  const auto refuses = [](std::string_view op, const std::vector<std::string>& attributes, const char* why) {
    OnnxPair p;
    p.model().input("x", DType::F32, {2, 3}, Reals(6));
    ml(p, op, "x", "y", attributes);
    p.model().output("y");
    Diagnostics d;
    CHECK_FALSE(p.model().load(d));
    CHECK_MESSAGE(d.text().find(why) != std::string::npos, d.text());
  };
  refuses("ZipMap", {}, "keys");
  refuses("ZipMap", {attribute("classlabels_int64s", Ints{1, 2})}, "columns and keys differ");
  refuses("ZipMap", {attribute("classlabels_int64s", Ints{1, 2, 1})}, "a key occurs twice");
  refuses("DictVectorizer", {attribute("int64_vocabulary", Ints{1})}, "input 0 must be a map");
  refuses("CastMap", {}, "input 0 must be a map");
  refuses("CastMap", {attribute("cast_to", "TO_BOOL")}, "cast_to");
}
