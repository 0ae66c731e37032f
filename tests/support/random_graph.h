// Random valid graphs for the tests of passes: equal options give equal graphs. Values are of f32, i64 and bool; ops are smooth
// or exact, so that a rewrite which is right to rounding gives results that are equal to tolerance.
#pragma once
#include <memory>

#include "ir/graph.h"

namespace rlxc::testing {

struct RandomGraphOptions {
  uint64_t seed = 1;
  int nodes = 40;
  bool symbolic = false;     // the leading size of an input is the symbol `batch`
  bool control_flow = true;  // If nodes with bodies
};

std::unique_ptr<Module> random_graph(const RandomGraphOptions&);

}  // namespace rlxc::testing
