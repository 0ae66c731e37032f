// Iterates over broadcast operands by rows: along the innermost axis every operand has step 0 or 1.
#pragma once
#include "eval/tensor.h"

namespace rlxc::eval {

class BroadcastRows {
 public:
  // `operands`: tensors, of which only the dims (right-aligned) and `splat` are read.
  BroadcastRows(std::span<const int64_t> out, std::span<const TensorData* const> operands);

  // Calls f(result offset, row length, offset of each operand, step of each operand).
  template <class F>
  void for_each(F f) const {
    std::vector<int64_t> at(dims_.size()), offset(steps_.size());
    if (rows_ == 0 || length_ == 0) return;
    for (int64_t row = 0;; ++row) {
      f(row * length_, length_, offset.data(), steps_.data());
      if (row + 1 == rows_) return;
      for (size_t k = dims_.size(); k-- > 0;) {
        const bool wrap = ++at[k] == dims_[k];
        for (size_t i = 0; i < offset.size(); ++i) offset[i] += wrap ? -strides_[k][i] * (dims_[k] - 1) : strides_[k][i];
        if (!wrap) break;
        at[k] = 0;
      }
    }
  }

 private:
  int64_t rows_ = 1, length_ = 1;
  std::vector<int64_t> dims_;                  // all but the innermost
  std::vector<std::vector<int64_t>> strides_;  // [axis][operand]
  std::vector<int64_t> steps_;
};

}  // namespace rlxc::eval
