// Which rows of its operands a node reads for some rows of its results, by its index maps. A convolution reads a window around
// them, an elementwise op the same rows. A product reads all of its weights. Such nodes can run on parts of an image, one after
// another.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace rlxc {

struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

// Iteration i of the loop over the rows of the result reads `reach` rows of the operand, from i * stride - before on. Rows
// outside of the operand are padding.
struct RowWindow {
  size_t axis = 0;  // of the operand
  int64_t stride = 1, before = 0, reach = 1;
};

struct RowMap {
  size_t axis = 0;                                 // of all results
  std::vector<std::optional<RowWindow>> operands;  // nullopt: the operand is read whole, or is absent
  int64_t group = 1;                               // rows of the results that an iteration computes
  int64_t around = 0;      // iterations at a cut whose rows are wrong, because their operand ends there: a resize has no padding
  int64_t iterations = 0;  // of the loop, if an attribute counts them
};

// How results with rows along `axis` follow from operands. Nullopt: a row needs all rows, or the op is not known. Rows have a
// constant number. O(operands * rank).
std::optional<RowMap> map_rows(const Graph&, NodeId, size_t axis);
// The least rows of the results that a node can compute to have these, of so many rows.
RowRange rows_computed(const RowMap&, RowRange wanted, int64_t rows);
// The rows of an operand with `rows` of them that the node reads to compute rows of the results; empty if there are none.
RowRange rows_read(const RowMap&, size_t operand, RowRange computed, int64_t rows);
// The attributes of the node that computes these rows from exactly the rows that it reads.
Attrs attrs_of_rows(const Graph&, NodeId, const RowMap&, RowRange computed);

}  // namespace rlxc
