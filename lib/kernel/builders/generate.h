// Kernels that say what each element of the result is: out[i] = f(i). For ops that select, window or look up elements, where
// the index arithmetic is the whole of the op. The function may write statements (loops, conditions) of its own.
#pragma once
#include <functional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// The values to store at this point, one per output; cast to the dtype of the output.
using PointBody = std::function<std::vector<Expr>(const std::vector<Expr>& index)>;

// Writes dense outputs of shape `shape`. The inputs that `body` reads were added to the builder before. `bytes` is the traffic
// of one point, a hint for the least work of a thread.
void build_generate(Builder&, const Dims& shape, const std::vector<std::pair<std::string, DType>>& outputs, int64_t bytes,
                    const Mapping&, const PointBody& body);

// Walks the rows of an outer x axis x inner view: body(base, stride) for each pair of outer and inner index, where element i of
// the row lies at base + i * stride. For ops that must see a whole row in order (scans, selections).
void for_each_row(Builder&, const Mapping&, const Dims& shape, size_t axis, int64_t bytes,
                  const std::function<void(Expr row, Expr base, Expr stride)>& body);

// Row-major element number of an index.
Expr linear_index(Kernel*, const std::vector<Expr>& index, const Dims& shape);
// An index from data made safe: negative ones count from the end, what is still outside is moved to the nearest end.
Expr wrap_index(Expr i, Expr n);

}  // namespace rlxc::kernel
