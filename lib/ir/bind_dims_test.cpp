#include "ir/bind_dims.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "support/example_module.h"
#include "support/random_graph.h"

using namespace rlxc;

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
