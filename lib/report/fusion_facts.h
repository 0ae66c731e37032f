// What the two forms of the fusion report both need: sums over the decisions, and the unfused neighbours of the result with what
// passes recorded about them.
#pragma once
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "report/fusion.h"

namespace rlxc::report {

struct DecisionTotals {
  int64_t formed = 0, missed = 0, launches = 0, bytes = 0;
  void add(const Decision&);
};

struct DecisionSummary {
  DecisionTotals all;
  std::map<std::string_view, DecisionTotals> patterns;
  std::map<std::tuple<std::string_view, std::string_view>, std::vector<const Decision*>> misses;  // by pattern and reason

  explicit DecisionSummary(std::span<const Decision>);
};

// A value that one launch writes and others read: traffic that a fusion of the two would save.
struct IntermediateValue {
  GraphId graph;
  ValueId value;
  NodeId from;                             // the launch; `value` is its result
  std::vector<NodeId> to;                  // launches that read it, also through views, in order
  int64_t bytes = 0;                       // of the value; 0 where symbolic
  std::vector<const Decision*> decisions;  // what passes recorded about these neighbours; empty: no pass considered them
};

// Launches of the module in execution order, and the intermediate values between them.
struct LaunchFacts {
  struct Launch {
    GraphId graph;
    std::vector<NodeId> nodes;  // that it runs, in order
  };
  std::vector<Launch> launches;
  std::vector<IntermediateValue> intermediates;

  LaunchFacts(const Module&, std::span<const Decision>);  // O(nodes + uses + decisions)
};

}  // namespace rlxc::report
