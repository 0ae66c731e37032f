// Shared by both forms of the fusion report: totals over decisions, and intermediate values with the decisions about them.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/lir.h"
#include "passes/pass.h"

namespace rlxc::report {

// Counts over the graphs in use. Traffic: bytes that launches read and write; symbolic sizes count as 0.
struct ModuleCounts {
  std::array<int64_t, kOpCount> ops{};  // nodes by kind
  int64_t nodes = 0, launches = 0, traffic = 0;
};
ModuleCounts count_module(const Module&);
ModuleCounts count_module(const LirModule&);  // with the views and phases of its plans

struct DecisionTotals {
  int64_t formed = 0, declined = 0, launches = 0, bytes = 0;
  void add(const Decision&);
};

struct DecisionSummary {
  DecisionTotals all;
  std::map<std::string_view, DecisionTotals> patterns;
  std::map<std::tuple<std::string_view, std::string_view>, std::vector<const Decision*>> declined;  // by pattern and reason

  explicit DecisionSummary(std::span<const Decision>);
};

// A value that one launch writes and others read. Fusing them would save this traffic.
struct IntermediateValue {
  GraphId graph;
  ValueId value;
  NodeId from;                             // the launch that computes `value`
  std::vector<NodeId> to;                  // launches that read it, directly or through views, in order
  int64_t bytes = 0;                       // of the value; 0 if symbolic
  std::vector<const Decision*> decisions;  // decisions about these nodes; empty: not considered by any pass
};

// Launches in execution order, and the intermediate values between them.
struct LaunchFacts {
  struct Launch {
    GraphId graph;
    std::vector<NodeId> nodes;  // in execution order
  };
  std::vector<Launch> launches;
  std::vector<IntermediateValue> intermediates;

  LaunchFacts(const LirModule&, std::span<const Decision>);  // O(nodes + uses + decisions)
};

}  // namespace rlxc::report
