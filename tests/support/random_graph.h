// Random valid graphs for pass tests, reproducible by options. Values are f32, i64 and bool. Ops are smooth or exact: a correct
// rewrite yields equal results within tolerance.
#pragma once
#include <memory>

#include "ir/graph.h"

namespace rlxc::testing {

struct RandomGraphOptions {
  uint64_t seed = 1;
  int nodes = 40;
  bool symbolic = false;     // the leading dim of inputs is the symbol `batch`
  bool control_flow = true;  // If nodes with bodies
};

std::unique_ptr<Module> random_graph(const RandomGraphOptions&);

}  // namespace rlxc::testing
