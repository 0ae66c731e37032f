// Rewrites that the user gives in a file (--rules): nodes to find, conditions, and what takes their place.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/fragment.h"

namespace rlxc {

// Conditions on one name of the pattern.
struct ValueCondition {
  std::string value;
  std::vector<DType> dtypes;          // empty: any
  std::optional<ShapePattern> shape;  // binds its symbols
  bool constant = false;              // a weight or a constant whose contents are known
  std::optional<double> low, high;    // of all its elements
};
struct SizeCondition {
  std::string size;  // an expression of bound symbols
  std::optional<int64_t> multiple_of, low, high;
};

// The pattern names values: results of its nodes, and operands from outside. Attributes that it gives have to be equal; "$NAME"
// binds a parameter. Values between its nodes have no other readers.
struct RewriteRule {
  std::string name;
  std::vector<FragmentNode> pattern;
  std::string result;  // a result of the last node of the pattern
  std::vector<ValueCondition> values;
  std::vector<SizeCondition> sizes;
  std::vector<FragmentNode> replacement;
  std::string with;  // the value that takes the place of `result`: of the replacement, or an operand from outside
};

struct RuleSet {
  std::vector<RewriteRule> rules;
};

// Why the rule can never be used; empty if nothing speaks against it: a pattern whose nodes do not all lead to the result, a name
// that is not bound, or conditions on one.
std::string fault_of(const RewriteRule&);

}  // namespace rlxc
