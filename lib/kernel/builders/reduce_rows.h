// Reductions of rows, each of which may need those before, and what becomes of the rows by them: a row is walked once for all
// reductions whose operands are known, and at last for the result.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {

struct RowTerm {
  ExprOp combine = ExprOp::Add;  // Add, Mul, Min or Max
  DType type = DType::F32;       // to accumulate in
};
struct RowReduction {
  std::vector<RowTerm> terms;
  std::function<std::vector<Expr>(const LoadInput&)> values;  // of the terms, at an element
  // Takes what was accumulated, the i64 count of elements, and inputs that do not vary along a row.
  std::function<void(std::span<const Expr>, Expr, const LoadInput&)> done;
};
struct ReduceRowsSpec : RowSpec {
  std::vector<RowReduction> walks;
  bool one = false;                              // the output has one element for each row
  std::function<Expr(const LoadInput&)> result;  // at an element, or of the row
};
void build_reduce_rows(Builder&, const ReduceRowsSpec&, const Mapping&);  // adds inputs, output

}  // namespace rlxc::kernel
