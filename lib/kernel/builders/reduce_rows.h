// Chained reductions of rows, and an elementwise result that uses them. A row is read once for all reductions whose operands are
// available, and once more for the result.
#pragma once
#include <functional>
#include <optional>
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
  bool one = false;             // the outputs have one element per row
  std::optional<Index> result;  // number of elements of a row of the outputs, and of what they read, if not those of a row
  std::function<std::vector<Expr>(const LoadInput&)> results;  // by output, at an element or once per row
  // If set, CPU threads reduce several rows before they walk over these for the results, which hides the latency of what `done`
  // computes for a row: `keep` returns the values of a row that `results` needs, and `restore` takes them. `kept`: their types.
  std::function<std::vector<Expr>()> keep;
  std::function<void(std::span<const Expr>)> restore;
  std::vector<DType> kept;
};
void build_reduce_rows(Builder&, const ReduceRowsSpec&, const Mapping&);  // adds inputs, outputs

}  // namespace rlxc::kernel
