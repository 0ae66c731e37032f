#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

const MapKeysAttrs kWords{{}, {"dog", "cat", "bird"}, false};

HostValue ints(std::vector<double> v) { return eval::tensor_of(DType::I64, {static_cast<int64_t>(v.size())}, v); }

}  // namespace

TEST_CASE("maps have their keys in ascending order") {
  const auto m = eval::map_of(eval::strings_of({2}, {"b", "a"}).tensor, eval::tensor_of(DType::F32, {2}, {1, 2}).tensor);
  REQUIRE(m);
  CHECK(m->items[0].tensor.strings == std::vector<std::string>{"a", "b"});
  CHECK(eval::numbers(m->items[1]) == std::vector<double>{2, 1});
  CHECK(eval::type_of(*m) == map_type(MapKey::String, DType::F32));
  CHECK_FALSE(eval::map_of(ints({1, 1}).tensor, ints({1, 2}).tensor));
  CHECK_FALSE(eval::map_of(ints({1, 2}).tensor, ints({1}).tensor));
  CHECK_FALSE(eval::map_of(eval::tensor_of(DType::F32, {1}, {1}).tensor, ints({1}).tensor));
}

TEST_CASE("rows become maps, and maps vectors") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(2), Dim(3)}));
  const ValueId maps = b.create(OpKind::MapOfRow, {x}, kWords);
  const ValueId second = b.create(OpKind::SequenceAt, {maps, b.scalar(DType::I64, 1)});
  const ValueId all = b.unary(OpKind::MapValues, second);
  const ValueId some = b.create(OpKind::MapLookup, {second}, MapKeysAttrs{{}, {"dog", "fish"}, false});
  REQUIRE_MESSAGE(d.ok(), d.text());
  CHECK(text(m.main().type(maps), m.dims) == "seq<map<string,f32>>");
  CHECK(text(m.main().type(second), m.dims) == "map<string,f32>");
  m.main().set_outputs(std::array{maps, all, some});
  REQUIRE_MESSAGE(verify(m, d), d.text());
  const auto out = eval::evaluate(m, std::array{eval::tensor_of(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6})}, d);
  REQUIRE_MESSAGE(out, d.text());
  CHECK((*out)[0].items.size() == 2);
  CHECK((*out)[0].items[0].items[0].tensor.strings == std::vector<std::string>{"bird", "cat", "dog"});
  CHECK(eval::numbers((*out)[0].items[0].items[1]) == std::vector<double>{3, 2, 1});
  CHECK(eval::numbers((*out)[1]) == std::vector<double>{6, 5, 4});
  CHECK(eval::numbers((*out)[2]) == std::vector<double>{4, 0});
}

TEST_CASE("a map of the wrong type or with strange keys is an error") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", map_type(MapKey::I64, DType::F32));
  m.main().set_outputs(std::array{b.create(OpKind::MapLookup, {x}, MapKeysAttrs{{0, 1}, {}, true})});
  REQUIRE_MESSAGE(d.ok(), d.text());
  const auto run = [&](const HostValue& v) { return eval::evaluate(m, std::array{v}, d); };
  const auto reals = eval::tensor_of(DType::F32, {1}, {7});
  const auto good = eval::map_of(ints({1}).tensor, reals.tensor), strange = eval::map_of(ints({2}).tensor, reals.tensor),
             other = eval::map_of(eval::strings_of({1}, {"1"}).tensor, reals.tensor);
  REQUIRE((good && strange && other));
  const auto out = run(*good);
  REQUIRE_MESSAGE(out, d.text());
  CHECK(eval::numbers((*out)[0]) == std::vector<double>{0, 7});
  CHECK_FALSE(run(*strange));
  CHECK(d.text().find("keys that are not expected") != std::string::npos);
  CHECK_FALSE(run(*other));
  CHECK_FALSE(run(reals));
  CHECK_FALSE(run({TypeKind::Map, {}, {}}));
  CHECK(b.create(OpKind::MapLookup, {x}, kWords).valid() == false);
  CHECK(b.create(OpKind::MapOfRow, {x}, kWords).valid() == false);
  CHECK(b.unary(OpKind::Neg, x).valid() == false);
  CHECK(b.create(OpKind::MapLookup, {x}, MapKeysAttrs{{3, 3}, {}, false}).valid() == false);
}

TEST_CASE("maps in the text form") {
  for (const char* t :
       {"map<i64,f32>", "map<string,string>", "seq<map<string,f64>>", "optional<map<i64,i64>>", "optional<seq<map<i64,f32>>>"}) {
    DimTable dims;
    const auto type = parse_type(t, dims);
    REQUIRE(type);
    CHECK(text(*type, dims) == t);
  }
  DimTable dims;
  CHECK_FALSE(parse_type("map<f32,f32>", dims));
  CHECK_FALSE(parse_type("map<i64>", dims));
  CHECK_FALSE(parse_type("map<i64,what>", dims));
}
