// Chained reductions of rows, and an elementwise result that uses them. A row is read once for all reductions whose operands are
// available, and once more for the result.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {

struct RowTerm {
  ExprOp combine = ExprOp::Add;  // Add, Mul, Min or Max
  DType type = DType::F32;       // type to accumulate in
};
struct RowReduction {
  std::vector<RowTerm> terms;
  std::function<std::vector<Expr>(const LoadInput&)> values;  // values of the terms at an element
  // Takes the accumulated values, the i64 count of elements, and inputs that are invariant along a row.
  std::function<void(std::span<const Expr>, Expr, const LoadInput&)> done;
};
struct ReduceRowsSpec : RowSpec {
  std::vector<RowReduction> walks;
  bool one = false;                              // the output has one element per row
  std::function<Expr(const LoadInput&)> result;  // at an element, or once per row
};
void build_reduce_rows(Builder&, const ReduceRowsSpec&, const Mapping&);  // adds inputs, output

}  // namespace rlxc::kernel
