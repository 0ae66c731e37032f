// fusion.json and fusion.txt: every fusion that passes formed or declined, with the recorded reason; the launches of the result;
// and the intermediate values between launches.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/lir.h"
#include "passes/pass.h"
#include "report/context.h"
#include "report/fusion_facts.h"

namespace rlxc::report {

// The final decisions: without repetitions of declined ones (the first stays), and without declined ones of a pattern about a
// node that a later fusion of the pattern took.
std::vector<Decision> settled(std::vector<Decision>);

struct FusionReport {
  ModuleCounts before, after;
  std::span<const Decision> decisions;  // in the order they were made
  const LirModule& result;              // counted in `after`; its module owns the symbols of the decisions
  std::vector<OpKind> no_kernel;        // fused kinds that the target lacks, so none is declined
};

// `traffic` and `launches` after fusion are the sums over the list "launches". O(nodes + decisions log patterns).
void write_fusion(const FusionReport&, JsonWriter&, const ReportContext&);
// As text: the summary first, long lists truncated.
void write_fusion_text(const FusionReport&, std::string* out, const ReportContext&);

}  // namespace rlxc::report
