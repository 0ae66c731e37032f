// Data-dependent dims that control flow defines (docs/data-dependent-dims.md).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/package.h"

namespace rlxc::codegen {

class ControlFlowDims {
 public:
  explicit ControlFlowDims(const LirModule&);

  // Returns extent number `index` of those that the node defines; nullopt if it defines fewer.
  std::optional<uint32_t> of_node(const Graph&, NodeId, uint32_t index) const;

  // Fills `extents` and `stacked` of a control flow command. O(dims of its results * depth of the graphs).
  void tell(Command*) const;

 private:
  std::optional<uint32_t> own(const Command&, Dim) const;  // the extent of this dim, if the command's node defines it
  bool defined_within(const Command&, const DataDependentDim&) const;
  Stacked stacked(const Command&, Dim rows, ValueId row_of_body) const;

  const LirModule& lir_;
  std::map<std::string, uint32_t> number_;                      // by symbol
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> first_of_;  // by graph and node; a node's extents are consecutive
  struct Owner {
    GraphId graph;
    NodeId node;
  };
  std::vector<Owner> owner_;  // owner of each body, by graph
};

}  // namespace rlxc::codegen
