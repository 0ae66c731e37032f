// Merges matmuls of one value by several weights into one matmul by the weights side by side. Users read slices of its result.
// Float and integer matmuls share this class. It finds matmuls that are near enough, estimates the cost, and joins the weights.
// Derived classes say which matmuls may be merged, and how.
#pragma once
#include <string_view>
#include <vector>

#include "ir/lir.h"
#include "passes/fuse/cost_decision.h"
#include "passes/match.h"

namespace rlxc::fuse {

inline constexpr std::string_view kSharedInput = "shared_input_matmul";

class SharedInput {
 public:
  // `runs`: distances are counted in nodes that run, not in those of weights. Q/DQ pairs have many of these.
  SharedInput(Graph&, PassContext&, bool runs = false);
  virtual ~SharedInput() = default;
  SharedInput(const SharedInput&) = delete;
  SharedInput& operator=(const SharedInput&) = delete;

  int64_t run();  // returns the number of matmuls merged

 protected:
  struct Member {
    NodeId matmul;
    ValueId bias;   // added by an Add, if any
    ValueId value;  // the result to replace
  };

  virtual bool candidate(NodeId) const = 0;  // whether operand 0 of the node may be shared
  virtual Member member(NodeId n) const { return {n, {}, g_.result(n)}; }
  virtual bool has_weights(NodeId) const = 0;                        // whether what differs between matmuls is known at load time
  virtual const char* conflict(NodeId, NodeId) = 0;                  // the reason why two matmuls cannot be merged, or null
  virtual NodeId lost_end(const Member&) const { return {}; }        // a node that would fuse with the separate matmul only
  virtual bool prepare(const std::vector<Member>&) { return true; }  // false: the members cannot be merged after all
  virtual ValueId merged(std::vector<Member>&, ValueId x) = 0;       // builds the merged matmul before the first member

  bool on_load(ValueId) const;  // whether the value is computed at load time from weights, at any depth
  void hoist(ValueId v, NodeId before) { order_.hoist(g_, v, before); }

  Graph& g_;
  PassContext& ctx_;

 private:
  void readers_of(ValueId x);
  void merge_alike(std::span<const NodeId>, ValueId x);
  bool merge(std::span<const NodeId>, ValueId x);
  bool is_copied(const Member&, Dim columns) const;
  Dim columns(const std::vector<Member>&) const;
  CostDecision time_of(const std::vector<Member>&, ValueId x) const;
  bool pays(std::vector<Member>&, ValueId x);
  bool fits(const std::vector<Member>&);
  void emit(std::vector<Member>&, ValueId x);

  match::Order order_;
  std::vector<uint32_t> place_;  // by node: in execution order, for distances
  std::vector<Phase> phase_;
  size_t known_;            // nodes created later have larger ids
  std::vector<bool> seen_;  // by value: its users have been visited
  int64_t merged_ = 0;
  int64_t room_;  // remaining bytes for packed weights
};

}  // namespace rlxc::fuse
