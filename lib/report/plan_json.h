// plan.json: memory of a compiled module: sizes, offsets, the peak step and the tensors live there. Format:
// schemas/plan.schema.json.
#pragma once
#include "ir/lir.h"
#include "report/context.h"

namespace rlxc::report {

// The members before "graphs" refer to the main graph, whose arena contains those of its bodies. Sizes are bytes, or expressions
// as text if they depend on symbols; then lower bound and peak are omitted. O(nodes + operands).
void write_plan(const LirModule&, JsonWriter&, const ReportContext&);

// plan.txt: sizes, and the values live where most bytes are.
void write_plan_text(const LirModule&, std::string* out, const ReportContext&);

// The step at which most bytes of the main graph's activations are live with these sizes, and the values, largest first.
// O(values).
struct LivePeak {
  struct Slot {
    ValueId root;
    int64_t bytes = 0;
    uint32_t first_step = 0, last_step = 0;  // over all values that share the bytes
  };
  int64_t bytes = 0;
  uint32_t step = 0;
  std::vector<Slot> slots;  // that are live there, largest first
};
LivePeak live_peak(const LirModule&, const DimBindings&);

// Sizes of all symbols of a plan at which reports evaluate its expressions: the ends of their ranges; 1 and 128 for others, or
// more where a buffer would have a negative size. Empty without symbols.
std::vector<DimBindings> corner_sizes(const LirModule&);
std::vector<std::string> symbols_of_plan(const LirModule&);  // sorted

}  // namespace rlxc::report
