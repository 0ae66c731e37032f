// Concatenates values along their first axis, nearer to the parameters that they are computed from.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "ir/builder.h"

namespace rlxc::fuse {

// Where all values are computed by the same operations, which keep rows apart, the operands of these are concatenated and the
// operations run once: concat(decode(a), decode(b)) = decode(concat(a, b)). Kernels that read a weight through its decoding
// still do. Other values become operands of a Concat. O(nodes visited), to a depth of 64.
class JoinRows {
 public:
  explicit JoinRows(Builder& b) : b_(b), g_(b.graph()) {}
  ValueId operator()(const std::vector<ValueId>& parts) { return join(parts, 0); }

 private:
  ValueId join(const std::vector<ValueId>& parts, int depth);
  ValueId computed(const std::vector<ValueId>& parts, int depth);  // invalid: the parts are not computed alike
  bool is_alike(const std::vector<ValueId>& parts) const;

  Builder& b_;
  const Graph& g_;
  std::map<std::vector<ValueId>, ValueId> joined_;
};

}  // namespace rlxc::fuse
