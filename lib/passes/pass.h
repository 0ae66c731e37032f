// What a pass is: a function from a module to "changed?" and counts. It is idempotent: run again at once, it changes nothing. It
// reads its options from the context, records every decision (fused, or why not) where it is taken, and does not log, read the
// environment or abort. Each pass recurses into sub-graphs where that preserves the meaning. The runner (runner.h) times,
// verifies and dumps.
#pragma once
#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/cost.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

namespace codegen {
class LoweringCache;
}

// What the target can do, as far as passes need to know. Filled from the target's capability row.
struct TargetTraits {
  std::string name = "cpu";
  std::bitset<kOpCount> native;     // op kinds with a kernel; the others must be decomposed
  std::bitset<kOpCount> epilogues;  // activations that a matmul or convolution kernel can end with
  bool strides = true;              // matmuls can end in another order of axes than that of their rows (can_write_layout)
  uint32_t region_max_steps = 64, region_max_inputs = 16;
  Machine machine;  // of the cost decision
  TargetTraits() { native.set(), epilogues.set(); }
};

// A fusion that was made, or was looked at and declined. Nodes are recorded by their label at that time, a symbol of the module:
// what later passes put in the place of a node carries that symbol as its name or among its sources (Graph::origin).
struct Decision {
  std::string pattern;  // "matmul_bias_act", "attention", ...
  std::string reason;   // a stable code: "fused", "multi_consumer", ...
  Symbol node;          // that the decision is about
  GraphId graph;
  std::vector<Symbol>
      members;         // of a fusion, the nodes that were merged; of a refusal, those it keeps apart from `node`, or none
  std::string detail;  // numbers and names behind the reason
  std::string hint;    // what the author of the model could do
  bool fused = false;
  // A refusal of a node's own end or neighbours: it lapses when any later fusion takes the node in, not only one of its pattern.
  bool lapses_when_merged = false;
  int64_t launches_saved = 0;
  int64_t bytes_saved = 0;  // traffic to memory; 0 when sizes are symbolic
};

// One cast that the precision pass placed, or one Q/DQ pair.
struct PrecisionNote {
  std::string value, from, to, reason;
};

// The rewrites of a whole compile, counted one by one, so that the one that breaks something can be found.
struct RewriteCounter {
  int64_t limit = -1;  // so many are made; negative: all
  int64_t made = 0;
};

struct PassContext {
  const TargetTraits& target;
  const PassOptions& options;
  Diagnostics& diagnostics;
  std::vector<Decision>& decisions;
  std::vector<PrecisionNote>& precision;
  RewriteCounter* rewrites = nullptr;           // null: all are made
  codegen::LoweringCache* lowerings = nullptr;  // of the module, where kernels can be joined (codegen/kernel_fusion.h); else null
  uint64_t operations = 0;                      // of constant folding so far

  // Runs `attempt`, which makes one rewrite (the least change that keeps the meaning) and returns true, or none and false; not
  // when as many as allowed have been made.
  template <class F>
  bool rewrite(F attempt) const {
    if (rewrites && rewrites->limit >= 0 && rewrites->made >= rewrites->limit) return false;
    const bool made = attempt();
    if (rewrites) rewrites->made += made;
    return made;
  }
};

struct PassResult {
  bool changed = false;
  std::vector<std::pair<std::string_view, int64_t>> counts;  // what was done how often, in a fixed order
};

using PassFn = PassResult (*)(Module&, PassContext&);

struct PassInfo {
  std::string_view name;   // "fuse_matmul_bias_act"
  std::string_view group;  // "interface", "lower", "simplify", "recognise", "fuse", "precision", "quantise", "legalise", "lint"
  PassFn run;
  std::string_view doc;
};

const std::vector<PassInfo>& all_passes();  // in a fixed order, from passes.def
const PassInfo* find_pass(std::string_view name);

}  // namespace rlxc
