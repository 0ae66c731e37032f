// Kernels that compute each element of the result from its index: out[i] = f(i). For ops that select, window or look up elements.
// f may emit statements (loops, conditions).
#pragma once
#include <functional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Returns the values to store at this point, one per output. They are cast to the dtype of the output.
using PointBody = std::function<std::vector<Expr>(const std::vector<Expr>& index)>;

// Writes dense outputs of shape `shape`. Inputs must have been added to the builder. `bytes`: memory traffic of one point, which
// determines the least work of a thread.
void build_generate(Builder&, const Dims& shape, const std::vector<std::pair<std::string, DType>>& outputs, int64_t bytes,
                    const Mapping&, const PointBody& body);

// Iterates over the rows of an outer x axis x inner view: body(row, base, stride) per pair of outer and inner index. Element i of
// the row is at base + i * stride. For ops that process a row in order (scans, selections).
void for_each_row(Builder&, const Mapping&, const Dims& shape, size_t axis, int64_t bytes,
                  const std::function<void(Expr row, Expr base, Expr stride)>& body);

// Iterates over vectors of adjacent rows. Element i of the `lanes` rows is the vector at base + i * stride. Vectors hold elements
// of type t. Grids and remainders use one lane.
void for_each_row_vector(Builder&, const Mapping&, const Dims& shape, size_t axis, DType t, int64_t bytes,
                         const std::function<void(Expr base, Expr stride, int lanes)>& body);

// Returns the row-major linear index.
Expr linear_index(Kernel*, const std::vector<Expr>& index, const Dims& shape);
// Normalizes an index from data: adds n to negative ones, then clamps to [0, n).
Expr wrap_index(Expr i, Expr n);

}  // namespace rlxc::kernel
