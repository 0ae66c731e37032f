// fusion.json and fusion.txt: every group that passes formed and every one they declined, with the reason that they recorded
// where they decided, and what is left: each launch of the result, and each value that one launch hands to another through
// memory.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "report/context.h"

namespace rlxc::report {

// Of a module at one moment, over the graphs that are in use. Traffic: bytes that launches read and write; symbolic sizes count
// 0.
struct ModuleCounts {
  std::array<int64_t, kOpCount> ops{};  // nodes by kind
  int64_t nodes = 0, launches = 0, traffic = 0;
};
ModuleCounts count_module(const Module&);

// The decisions that hold in the end: a pass that runs several times repeats its misses, and a later run may form what an earlier
// one declined. Of equal misses the first stays; misses of a pattern about a node that a later decision of it merged go.
std::vector<Decision> settled(std::vector<Decision>);

struct FusionReport {
  ModuleCounts before, after;
  std::span<const Decision> decisions;  // in the order in which they were taken
  const Module& result;                 // what `after` counts; the decisions name nodes by its symbols
  std::vector<OpKind> no_kernel;  // fused kinds that the target lacks: expanded or never formed, and no misses are said of them
};

// O(nodes + decisions log patterns). Sums that a reader can check: `traffic` and `launches` after are those of the list
// "launches".
void write_fusion(const FusionReport&, JsonWriter&, const ReportContext&);
// For people: the summary first, long lists cut short.
void write_fusion_text(const FusionReport&, std::string* out, const ReportContext&);

}  // namespace rlxc::report
