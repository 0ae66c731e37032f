// Values of the main graph by the names that users write in flags.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "support/diagnostics.h"

namespace rlxc::transform {

// Outputs first, then inputs, parameters and what nodes give, then nodes of one result. O(nodes).
class Names {
 public:
  explicit Names(const Module&);

  bool contains(const std::string& name) const { return values_.contains(name); }
  // Invalid after an error: the model has no value of this name. `flag` is what names it.
  ValueId find(const std::string& name, std::string_view flag, Diagnostics&) const;

 private:
  std::unordered_map<std::string, ValueId> values_;
};

// PREFIX:NAME, with a number behind the prefix if an input or output has the name.
std::string fresh_name(const Module&, const std::string& prefix, const std::string& name);

// The name of the value, or the label of its node.
std::string name_of(const Graph&, ValueId);

}  // namespace rlxc::transform
