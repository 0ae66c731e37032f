// Transforms of a whole module, one after another: the stage between reading a model and the passes. Inputs and outputs of the
// model stay; a transform adds some:
//
//   grad L       outputs grad:W for each W it is taken by (order N: also grad2:W, .. gradN:W)
//   jvp X        inputs tangent:X; outputs tangent:Y for each output Y that depends on an X
//   hvp          inputs tangent:W; outputs tangent:L and hvp:W for each W of the gradient before it
//   vmap X       the named inputs, and all outputs as their first axis, have an axis more
//
// A name that is taken gets a number behind its prefix: tangent2:X.
#pragma once
#include "transform/gradients.h"
#include "transform/steps.h"

namespace rlxc::transform {

// What became of a value that a gradient or tangent was asked for.
struct LedgerValue {
  std::string name, kind;  // kind: "param", "input" or "value"
  bool reached = false;
  double paths = 0;  // from it to the loss, or to all outputs, along which derivatives pass
  std::string why;   // it is not reached; else empty
};
struct LedgerCut {
  std::string node, op;
};
struct LedgerStep {
  std::string text;                          // as it was asked for
  std::vector<std::string> inputs, outputs;  // that were added, or of vmap: that have an axis more
  std::vector<LedgerValue> values;
  std::vector<LedgerCut> cuts;  // nodes that derivatives reach and do not pass
  size_t nodes_before = 0, nodes_after = 0;
};
struct Ledger {
  std::vector<LedgerStep> steps;
};

// Applies the steps to the main graph. False after errors: names that the model does not have, values on which the loss does not
// depend, paths that end in integers, operations without a rule (all of them at once). O(steps * (nodes + nodes made)).
bool apply_steps(Module&, const Steps&, Expand, Ledger*, Diagnostics&);

}  // namespace rlxc::transform
