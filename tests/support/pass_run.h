// Fixtures of pass tests: a context, running a pass by name, and the graph as one line of op names.
#pragma once
#include <doctest/doctest.h>

#include "ir/builder.h"
#include "ir/verify.h"
#include "passes/passes.h"

namespace rlxc::testing {

struct PassRun {
  TargetTraits target;
  PassOptions options;
  Diagnostics diagnostics;
  std::vector<Decision> decisions;
  std::vector<PrecisionNote> notes;
  std::shared_ptr<codegen::LoweringCache> lowerings;  // set if `context` refers to it
  PassContext context{target, options, diagnostics, decisions, notes};

  // Runs the pass and checks that the result is valid.
  PassResult operator()(Module& m, std::string_view name) {
    const PassInfo* pass = find_pass(name);
    REQUIRE(pass != nullptr);
    m.current_pass = m.symbol(name);
    const PassResult r = pass->run(m, context);
    m.current_pass = {};
    Diagnostics found;
    CHECK_MESSAGE(verify(m, found), name << ": " << found.text());
    return r;
  }
};

// The fixture of tests of one pass.
struct PassFixture {
  Module m;
  Graph& g = m.main();
  Builder b{g};
  PassRun run;
};

// Returns "input relu add": the nodes of a graph in order, without the terminator.
inline std::string ops(const Graph& g) {
  std::string s;
  for (NodeId n : g.nodes()) s += (s.empty() ? "" : " ") + std::string(name(g.op(n)));
  return s;
}

inline int64_t count(const PassResult& r, std::string_view what) {
  for (const auto& [name, n] : r.counts)
    if (name == what) return n;
  return -1;
}

}  // namespace rlxc::testing
