// Chained reductions of rows, and an elementwise result that uses them. A row is read once for all reductions whose operands are
// available, and once more for the result.
#pragma once
#include <optional>
#include <vector>

#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {

struct RowTerm {
  ExprOp combine = ExprOp::Add;  // Add, Mul, Min or Max
  DType type = DType::F32;       // type to accumulate in
};
struct RowReduction {
  std::vector<RowTerm> terms;
  Prologue prologue;  // the values of the terms at an element; its roots are the values of a row from all earlier epilogues
  // Further values of a row, from those roots, the accumulated values, the i64 count of elements, and inputs that are invariant
  // along a row.
  Epilogue epilogue;
};
struct ReduceRowsSpec : RowSpec {
  std::vector<RowReduction> walks;
  bool one = false;             // the outputs have one element per row
  std::optional<Index> result;  // number of elements of a row of the outputs, and of what they read, if not those of a row
  Epilogue epilogue;            // the outputs at an element, or once per row, from all values of a row
  // If set, CPU threads reduce several rows before they walk over these for the results, which hides the latency of what is
  // computed for a row: the values of a row, and their types, that the epilogue needs.
  struct Kept {
    size_t root;
    DType dtype;
  };
  std::vector<Kept> kept;
};
void build_reduce_rows(Builder&, const ReduceRowsSpec&, const Mapping&);  // adds inputs, outputs

}  // namespace rlxc::kernel
