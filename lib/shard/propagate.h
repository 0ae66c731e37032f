// Decides how every value of the main graph is divided, from what the user and the strategies say about some.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "shard/rules.h"
#include "shard/sharding.h"

namespace rlxc::shard {

// Shardings of the values of a graph that fit the rules of its nodes. A dim is decided once; later wishes lose.
class Shardings {
 public:
  Shardings(const Graph&, Mesh);

  const Graph& graph() const { return g_; }
  const Mesh& mesh() const { return mesh_; }
  const Sharding& of(ValueId v) const { return of_[v.raw]; }
  bool keeps_whole(ValueId v) const { return fixed_[v.raw] && is_whole(of_[v.raw]); }
  const Rule& rule(NodeId) const;  // made on first use

  // Divides the values whose names match; they keep this sharding. Dims of one block are padded. Errors: Code::BadSharding if no
  // value has the name, a dim does not exist, is symbolic or does not divide.
  bool apply(const Request&, Diagnostics&);
  // Divides the values that hints name, unless they are decided, and propagates. What cannot be is a warning
  // (Code::ShardingConflict).
  void apply_hints(std::span<const Request>, Diagnostics&);
  // Splits a dim, unless the value is decided otherwise. False if it does not divide, or the mesh axes are in use.
  bool split(ValueId, size_t dim, const DimSharding&);
  // The value stays whole, unless it is split already.
  void keep_whole(ValueId v) { fixed_[v.raw] = true; }
  // Carries decisions from operands to results and back until nothing changes. Operands that contradict each other are warnings
  // (Code::ShardingConflict). O(decided dims * uses).
  void propagate(Diagnostics&);

 private:
  bool decide(ValueId, const Request&, Diagnostics&);
  DimSharding asked(const Request::Part&, Dim size) const;
  void visit(NodeId, Diagnostics&);
  void push(NodeId);
  void push_neighbours(ValueId);
  void report_conflict(NodeId, ValueId, ValueId, Diagnostics&);
  std::string describe(ValueId) const;

  const Graph& g_;
  const Mesh mesh_;
  std::vector<Sharding> of_;
  std::vector<bool> fixed_;  // by value: asked for by name
  mutable std::vector<Rule> rules_;
  mutable std::vector<bool> has_rule_;
  std::vector<NodeId> work_;
  std::vector<bool> queued_, conflicting_;
};

}  // namespace rlxc::shard
