// Interval analysis of i64 and i32 expressions, from loop extents, symbol limits and enclosing conditions. An unknown value has
// all of i64. Arithmetic saturates: a result is never narrower than the exact interval.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kernel/language.h"

namespace rlxc::kernel {

struct Interval {
  static constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;  // also: unbounded
  int64_t min = kMin, max = kMax;
  bool empty() const { return min > max; }
  bool bounded() const { return min != kMin && max != kMax; }
};

class Ranges {
 public:
  explicit Ranges(const Kernel& k);

  // Scopes of facts: close() removes all facts since the matching open(). Empty intervals are allowed (dead code).
  void open() { marks_.push_back(undo_.size()); }
  void close();
  void bind(VarId, Interval);
  void bind_loop(const Stmt& loop);  // the variable of a For: [0, extent)
  void assume(ExprId condition, bool holds);

  Interval of(ExprId);

 private:
  void set(uint32_t node, Interval);
  Interval compute(const ExprNode&);

  const Kernel& k_;
  std::unordered_map<uint32_t, Interval> known_;    // facts: variables, and expressions bounded by conditions
  std::unordered_map<uint32_t, Interval> derived_;  // cache
  std::unordered_map<int64_t, uint32_t> var_node_;
  std::vector<std::pair<uint32_t, Interval>> undo_;
  std::vector<size_t> marks_;
  size_t scanned_ = 0;
};

}  // namespace rlxc::kernel
