// The interface of passes. A pass is a function from a module to "changed?" and counts. It is idempotent: a second run changes
// nothing. It reads options from the context, records every decision where it is made, recurses into bodies where that is valid,
// and does not log, read the environment or abort. The runner (runner.h) times, verifies and dumps.
#pragma once
#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/cost.h"
#include "analysis/phases.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "options/options.h"
#include "support/diagnostics.h"

namespace rlxc {

namespace codegen {
class LoweringCache;
}

// Capabilities of the target that passes read. Filled from the target's capability row.
struct TargetTraits {
  std::string name = "cpu";
  std::bitset<kOpCount> native;         // op kinds with a kernel; others must be decomposed
  std::bitset<kOpCount> decomposed;     // native kinds whose nodes are decomposed nevertheless where they have a decomposition
  std::bitset<kOpCount> epilogues;      // activations supported as epilogues of matmuls and convolutions
  std::bitset<kDTypeCount> multiplies;  // 8-bit floats whose products are an instruction of matrix units
  bool strides = true;                  // matmuls can write strided layouts (can_write_layout)
  bool fast_bytes = false;              // two products of 8-bit integers take less time than one of floats
  bool threads = true;                  // kernels are for threads of a CPU, not for a grid
  bool integer_fusions = true;          // kernels of integers also round, gate and give several results; others store their codes
  bool splits_divisors = false;         // its kernels may divide by products with a reciprocal (kernel/divisor.h)
  uint32_t region_max_steps = 64, region_max_inputs = 16;
  Machine machine;  // for cost decisions
  TargetTraits() {
    native.set();
    epilogues.set();
  }
};

// A fusion that was formed or declined. Nodes are recorded by their label at that time: nodes that later replace them have it as
// their name or among their sources (Graph::origin).
struct Decision {
  std::string pattern;  // "matmul_bias_act", "attention", ...
  std::string reason;   // a stable code: "fused", "multi_consumer", ...
  Symbol node;          // subject of the decision
  GraphId graph;
  std::vector<Symbol> members;  // formed: the merged nodes; declined: nodes that stay separate from `node`, or none
  std::string detail;           // numbers and names for the reason
  std::string hint;             // advice to the author of the model
  bool fused = false;
  // A decline about the end of a node or its neighbours. It lapses if any later fusion takes the node.
  bool lapses_when_merged = false;
  int64_t launches_saved = 0;
  int64_t bytes_saved = 0;  // memory traffic; 0 if dims are symbolic
};

// A cast inserted by the precision pass, or a Q/DQ pair.
struct PrecisionNote {
  std::string value, from, to, reason;
};

// Counts the rewrites of a whole compile, for bisecting.
struct RewriteCounter {
  int64_t limit = -1;  // limit on rewrites; negative: none
  int64_t made = 0;
};

// Phases and layouts of a graph.
struct LaunchFacts {
  GraphId graph;
  std::vector<Phase> phases;
  GraphLayouts layouts;
};

struct PassContext {
  const TargetTraits& target;
  const PassOptions& options;
  Diagnostics& diagnostics;
  std::vector<Decision>& decisions;
  std::vector<PrecisionNote>& precision;
  RewriteCounter* rewrites = nullptr;           // null: no limit
  codegen::LoweringCache* lowerings = nullptr;  // of the module, if kernels can be fused (codegen/kernel_fusion.h); else null
  uint64_t operations = 0;                      // used by constant folding so far
  mutable std::shared_ptr<const LaunchFacts> launches = nullptr;  // of the last graph that a pass asked for, until a rewrite

  // Calls `attempt` unless the limit is reached. `attempt` makes one rewrite, the least change that preserves the meaning, and
  // returns true, or makes none and returns false.
  template <class F>
  bool rewrite(F attempt) const {
    if (rewrites && rewrites->limit >= 0 && rewrites->made >= rewrites->limit) return false;
    const bool made = attempt();
    if (rewrites) rewrites->made += made;
    if (made) launches.reset();
    return made;
  }
};

struct PassResult {
  bool changed = false;
  std::vector<std::pair<std::string_view, int64_t>> counts;  // counts of changes by kind, in a fixed order
};

using PassFn = PassResult (*)(Module&, PassContext&);

struct PassInfo {
  std::string_view name;  // "fuse_matmul_bias_act"
  std::string_view
      group;  // "interface", "lower", "shard", "simplify", "recognise", "fuse", "precision", "quantize", "legalise", "lint"
  PassFn run;
  std::string_view doc;
};

}  // namespace rlxc
