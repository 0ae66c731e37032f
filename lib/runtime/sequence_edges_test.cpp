#include "runtime/sequence_edges.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

HostValue holder(TypeKind kind, std::vector<HostValue> items) {
  HostValue v;
  v.kind = kind;
  v.items = std::move(items);
  return v;
}
HostValue row(std::vector<double> x) { return tensor_of(DType::F32, {static_cast<int64_t>(x.size())}, x); }

constexpr std::string_view kModel = R"(module "m" mir {
graph @main {
  %0 = input "s" : seq<f32[*]>
  %1 = input "x" : f32[2]
  %2 = input "o" : optional<f32[3]>
  %3 = sequence_insert(%0, %1) : seq<f32[*]>
  %4 = optional_get(%2) : f32[3]
  return %3 "all", %4 "got", %2 "same"
}
}
)";

}  // namespace

TEST_CASE("sequences and optionals become inputs and outputs of their elements, and are made of them again") {
  Diagnostics d;
  auto m = parse_text(kModel, d);
  REQUIRE_MESSAGE(m, d.text());
  const HostValue s = holder(TypeKind::Sequence, {row({1, 2}), row({3})}), o = holder(TypeKind::Optional, {row({4, 5, 6})});
  const HostValue all = holder(TypeKind::Sequence, {row({1, 2}), row({3}), row({7, 8})});
  std::vector<DataSet> sets{{"set", {s, row({7, 8}), o}, {all, row({4, 5, 6}), o}}};
  const SequenceEdges edges = SequenceEdges::apply(*m, &sets);
  REQUIRE(edges.any());
  CHECK_MESSAGE(verify(*m, d), d.text());
  const Graph& g = m->main();
  REQUIRE(g.inputs().size() == 4);
  CHECK(m->bytes(g.value_name(g.result(g.inputs()[1]))) == "s_0");
  CHECK(g.outputs().size() == 7);
  for (ValueId v : g.outputs()) CHECK(g.type(v).kind == TypeKind::Tensor);
  auto results = eval::evaluate(*m, sets[0].inputs, d);
  REQUIRE_MESSAGE(results, d.text());
  const auto nested = edges.nested(*results);
  REQUIRE(nested.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(eval::compare(nested[i], sets[0].expected[i], 0, 0).pass);
  // A number of elements other than the expected one shows.
  (*results)[0] = tensor_of(DType::I64, {}, {2});
  CHECK(edges.nested(*results)[0].items.size() == 2);
  (*results)[0] = tensor_of(DType::I64, {}, {4});
  CHECK_FALSE(eval::compare(edges.nested(*results)[0], all, 0, 0).pass);
}

TEST_CASE("data sets that differ in form leave the module as it is") {
  Diagnostics d;
  auto m = parse_text(kModel, d);
  const HostValue s = holder(TypeKind::Sequence, {row({1})}), none = holder(TypeKind::Optional, {});
  const HostValue o = holder(TypeKind::Optional, {row({4, 5, 6})});
  const HostValue all = holder(TypeKind::Sequence, {row({1}), row({7, 8})});
  std::vector<DataSet> sets{{"a", {s, row({7, 8}), o}, {all, row({4, 5, 6}), o}},
                            {"b", {s, row({7, 8}), none}, {all, row({4, 5, 6}), o}}};
  CHECK_FALSE(SequenceEdges::apply(*m, &sets).any());
  sets.resize(1);
  sets[0].expected.clear();
  CHECK_FALSE(SequenceEdges::apply(*m, &sets).any());
  CHECK(m->main().inputs().size() == 3);
}
