#include "ir/bind_dims.h"

#include <doctest/doctest.h>

#include "ir/size_message.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/example_module.h"
#include "support/random_graph.h"

using namespace rlxc;

TEST_CASE("symbols follow from sizes that are linear in the only one that is not known") {
  DimTable t;
  const auto solved = [&](std::vector<std::pair<std::string, int64_t>> sizes) {
    std::vector<KnownSize> known;
    for (const auto& [text, size] : sizes) known.push_back({*t.parse(text), size});
    DimBindings b;
    solve_dims(t, known, &b);
    return b;
  };
  CHECK(solved({{"2*h", 6}, {"past+seq", 9}, {"seq", 4}}) == DimBindings{{"h", 3}, {"past", 5}, {"seq", 4}});
  CHECK(solved({{"a*b", 6}, {"b+1", 3}}) == DimBindings{{"a", 3}, {"b", 2}});
  CHECK(solved({{"2*h", 5}}).empty());
  CHECK(solved({{"h+3", 2}}).empty());
  CHECK(solved({{"past+seq", 9}}).empty());
  CHECK(solved({{"h*h", 9}}).empty());
  CHECK(solved({{"h", 2}, {"h+1", 9}}) == DimBindings{{"h", 2}});
}

TEST_CASE("a size that no input determines is named with the dim that holds it") {
  DimTable t;
  const auto missing = [&](const std::vector<std::pair<std::string, int64_t>>& sizes) {
    std::vector<KnownSize> known;
    for (const auto& [text, size] : sizes) known.push_back({*t.parse(text), size});
    DimBindings b;
    solve_dims(t, known, &b);
    return undetermined_size(t, known, b);
  };
  CHECK(missing({{"past+seq", 9}, {"seq", 4}, {"3", 3}}) == "");
  CHECK(missing({{"n", 4}, {"ba-tch", 0}}) == "the inputs do not determine the size \"ba\": ba-tch is 0");
  CHECK(missing({{"2*h", 5}}) == "the inputs do not determine the size \"h\": 2*h is 5");
}

TEST_CASE("linear equalities with one unknown determine sizes of inputs") {
  const auto determined = [](std::vector<std::pair<std::string, std::string>> equalities) {
    Module m("m");
    Builder b(m.main());
    for (const char* name : {"n", "h", "w"}) b.input(name, tensor_type(DType::F32, {m.dims.symbol(name)}));
    for (const auto& [x, y] : equalities) CHECK(m.dims.assume_equal(*m.dims.parse(x), *m.dims.parse(y)));
    return determined_sizes(m);
  };
  CHECK(determined({{"12*n", "12"}}) == DimBindings{{"n", 1}});
  CHECK(determined({{"7", "2*n+1"}, {"n*h", "6"}}) == DimBindings{{"n", 3}, {"h", 2}});
  CHECK(determined({{"mod(n,2)", "1"}, {"min(h,5)", "5"}, {"floordiv(w,4)", "2"}}).empty());
  CHECK(determined({{"n*h", "6"}, {"n*n", "4"}, {"12*m", "12"}}).empty());
}

TEST_CASE("a bound module is the one that was static from the start") {
  auto m = test::example_module(true);
  bind_dims(*m, {{"batch", 2}});
  CHECK(print(*m) == print(*test::example_module(false)));
  Diagnostics d;
  CHECK_MESSAGE(verify(*m, d), d.text());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto random = testing::random_graph({.seed = seed, .symbolic = true});
    bind_dims(*random, {{"batch", 3}});
    for (size_t i = 0; i < random->graph_count(); ++i) {
      const Graph& g = random->graph(GraphId(i));
      for (NodeId n : g.nodes())
        for (size_t r = 0; r < g.result_count(n); ++r) CHECK(g.type(g.result(n, r)).is_static());
    }
    CHECK_MESSAGE(verify(*random, d), d.text());
  }
}
