#include <array>

#include "eval/text_bytes.h"
#include "ir/verify.h"
#include "support/eval.h"
#include "support/pass_run.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

HostValue text(std::vector<int64_t> dims, std::vector<std::string> strings) {
  TensorData d;
  d.dtype = DType::String, d.dims = std::move(dims), d.strings = std::move(strings);
  return {TypeKind::Tensor, std::move(d), {}};
}

// Compares the results of the graph that `make` builds, on strings and on bytes.
template <class Make>
void same_by_bytes(const std::vector<HostValue>& inputs, Make make) {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  std::vector<ValueId> in;
  for (const HostValue& v : inputs) in.push_back(b.input("x" + std::to_string(in.size()), eval::type_of(v)));
  const std::vector<ValueId> out = make(b, in);
  REQUIRE_MESSAGE(d.ok(), d.text());
  m.main().set_outputs(out);
  const auto expected = eval::evaluate(m, inputs, d);
  REQUIRE_MESSAGE(expected, d.text());
  testing::PassRun run;
  CHECK(run(m, "strings_as_bytes").changed);
  CHECK_FALSE(run(m, "strings_as_bytes").changed);
  std::vector<HostValue> bytes;
  for (const HostValue& v : inputs) bytes.push_back(v.tensor.dtype == DType::String ? *eval::bytes_of_text(v) : v);
  const auto got = eval::evaluate(m, bytes, d);
  REQUIRE_MESSAGE(got, d.text());
  for (size_t i = 0; i < expected->size(); ++i) {
    const HostValue& want = (*expected)[i];
    const auto r = eval::compare(want.tensor.dtype == DType::String ? eval::text_of_bytes((*got)[i]) : (*got)[i], want, 0, 0);
    CHECK_MESSAGE(r.pass, i, ": ", r.message);
  }
}

}  // namespace

TEST_CASE("normalised strings by bytes") {
  for (const auto change : {LetterCase::None, LetterCase::Lower, LetterCase::Upper})
    for (const bool sensitive : {false, true})
      for (const auto& stops : {std::vector<std::string>{}, {"monday"}, {"Monday", "\u00c4rger", "a long stop word"}})
        for (const auto& words :
             {std::vector<std::string>{"Monday", "tuesday", "\u00e4rger \u03a9\u03c9 \u042f\u044f\u0401\u0451", "z[{@`A"},
              {"monday"},
              {"", "x"}}) {
          const auto n = static_cast<int64_t>(words.size());
          const auto make = [&](Builder& b, const std::vector<ValueId>& x) {
            return std::vector{b.create(OpKind::StringNormalize, {x[0]}, StringNormalizeAttrs{change, sensitive, stops})};
          };
          same_by_bytes({text({n}, words)}, make);
          same_by_bytes({text({1, n}, words)}, make);
        }
}

TEST_CASE("strings compared, joined, found and moved, by bytes") {
  const HostValue a = text({2, 1}, {"ab", ""}), b = text({3}, {"ab", "a", "longer"}), at = i64({2}, {2, 0});
  same_by_bytes({a, b, at}, [](Builder& g, const std::vector<ValueId>& x) {
    const ValueId joined = g.create(OpKind::StringConcat, {x[0], x[1]});
    return std::vector{g.create(OpKind::StringEqual, {x[0], x[1]}), joined,
                       g.create(OpKind::StringIndex, {x[1]}, StringIndexAttrs{{"a", "none", "longer", "a"}}),
                       g.create(OpKind::Gather, {joined, x[2]}, AxisAttrs{1}), g.reshape(joined, {Dim(6)})};
  });
}

TEST_CASE("strings of different lengths moved, by bytes") {
  const HostValue a = text({2, 3}, {"ab", "", "\u00e4", "longest", "b", "ab"}), b = text({2, 1}, {"x", "yes"}),
                  at = i64({2, 1}, {1, 0});
  same_by_bytes({a, b, {TypeKind::Tensor, make_data(DType::Bool, {3}, std::vector<uint8_t>{1, 0, 1}), {}}, at},
                [](Builder& g, const std::vector<ValueId>& x) {
                  const ValueId joined = g.concat(std::array{x[0], x[1]}, 1), wide = g.expand(x[1], {Dim(2), Dim(3)});
                  const ValueId none = g.constant(text({}, {"none of them"}).tensor);
                  return std::vector{joined,
                                     wide,
                                     g.create(OpKind::Where, {x[2], x[0], x[1]}),
                                     g.create(OpKind::Where, {x[2], none, x[0]}),
                                     g.narrow(joined, 1, 1, 2),
                                     g.create(OpKind::Slice, {joined}, SliceAttrs{1, Dim(3), Dim(2), -2}),
                                     g.create(OpKind::Reverse, {joined}, AxesAttrs{{0, 1}}),
                                     g.create(OpKind::Transpose, {joined}, PermAttrs{{1, 0}}),
                                     g.create(OpKind::Tile, {x[1]}, DimsAttrs{{Dim(2), Dim(2)}}),
                                     g.create(OpKind::GatherNd, {joined, x[3]}, BatchDimsAttrs{0})};
                });
}

TEST_CASE("what has no form in bytes stays, and each such node is named") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::String, {Dim(2)})), both = b.concat(std::array{x, x}, 0);
  std::vector<ValueId> out;
  for (const char* name : {"first", "second"}) {
    out.push_back(b.create(OpKind::StringMatch, {both}, StringMatchAttrs{"a*"}));
    m.main().set_node_name(m.main().def(out.back()), m.symbol(name));
  }
  m.main().set_outputs(out);
  testing::PassRun run;
  CHECK_FALSE(run(m, "strings_as_bytes").changed);
  CHECK(m.main().dtype(x) == DType::String);
  REQUIRE(run.diagnostics.items().size() == 2);
  for (size_t i : {0, 1}) {
    CHECK(run.diagnostics.items()[i].where == (i ? "node \"second\"" : "node \"first\""));
    CHECK(run.diagnostics.items()[i].message.find("none for string_match") != std::string::npos);
  }
}

TEST_CASE("strings that reach no node without a form are rewritten") {
  Module m;
  Builder b(m.main());
  const ValueId x = b.input("x", tensor_type(DType::String, {Dim(2)})), y = b.input("y", tensor_type(DType::String, {Dim(2)}));
  const ValueId matched = b.create(OpKind::StringMatch, {b.concat(std::array{x, x}, 0)}, StringMatchAttrs{"a*"});
  m.main().set_outputs(std::array{matched, b.create(OpKind::StringEqual, {y, y})});
  testing::PassRun run;
  CHECK(run(m, "strings_as_bytes").changed);
  CHECK(m.main().dtype(x) == DType::String);
  CHECK(m.main().dtype(y) == DType::U8);
  CHECK(run.diagnostics.items().size() == 1);
  Diagnostics d;
  CHECK(verify(m, d));
}

TEST_CASE("a string that ends with a zero byte has no form in bytes") {
  const std::string zero("ab\0", 3);
  CHECK_FALSE(eval::bytes_of_text(text({2}, {"ab", zero})));
  CHECK(eval::bytes_of_text(text({1}, {std::string("a\0b", 3)})));
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::String, {Dim(2)}));
  m.main().set_outputs(std::array{b.create(OpKind::StringIndex, {x}, StringIndexAttrs{{"ab", zero}})});
  testing::PassRun run;
  CHECK_FALSE(run(m, "strings_as_bytes").changed);
  CHECK(run.diagnostics.ok());
  CHECK(run.diagnostics.text().find("ends with a zero byte") != std::string::npos);
}
