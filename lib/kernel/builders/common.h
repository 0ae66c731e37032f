// Pieces that several builders share: strided operands, and index spaces spread over threads or over a grid of threads.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/mapping.h"

namespace rlxc::kernel {

using Dims = std::vector<Index>;

// 8-bit codes as dot units take them: so many in an i32 word, and the distance between a code as signed and as unsigned.
inline constexpr int kWordCodes = 4, kSignFlip = 128;

// A tensor as a kernel argument, seen over the index space of the kernel: one stride (in elements) per dimension of the
// space, 0 where the tensor is broadcast.
struct Operand {
  std::string name;
  DType dtype = DType::F32;
  Dims strides;
  Index extent = 0;  // elements of the buffer
  Index offset = 0;  // of the first element
  // A dimension that no single stride walks along: positions split into factors, outermost first. By dimension, or none at all.
  struct DimFactor {
    Index size, stride;
  };
  std::vector<std::vector<DimFactor>> factors = {};
  Dims starts = {};  // by dimension, or none at all: which position of the factors is the first one

  bool split(size_t d) const { return d < factors.size() && !factors[d].empty(); }
};

using LoadInput = std::function<Expr(size_t i)>;  // input i at an element, as its compute type

// Row-major tensor of this shape; and one of the shape `own` that is broadcast to `shape` (NumPy's rule, right-aligned).
Operand dense(Kernel*, std::string name, DType, const Dims& shape);
Operand broadcast_operand(Kernel*, std::string name, DType, const Dims& own, const Dims& shape);

Expr product(Kernel*, const Dims&, size_t begin = 0, size_t end = SIZE_MAX);
bool same(const Index&, const Index&);        // the same constant or the same expression
bool constant(const Index&, int64_t* value);  // its value, if it is a constant
bool is_constant(const Index&, int64_t value);
bool is_multiple(const Index&, int64_t of);  // certainly

// Merges each of the dimensions begin..end into the next one where every operand steps through the pair as through one, and drops
// those of size 1. Returns the end of those that are left.
size_t merge_dims(Kernel*, Dims* shape, const std::vector<Operand*>&, size_t begin, size_t end);

// The element of the operand at this point.
Expr element_at(Kernel*, const Operand&, const std::vector<Expr>& index);

// Splits a row-major linear index into one index per dim (dims from the second on must be positive).
std::vector<Expr> split_index(Expr linear, const Dims& dims);

// The type to compute with for values stored as t: f32 for f16 and bf16, else t.
DType compute_dtype(DType t);

// Calls body(i) for every i in [0, count), in parallel: on a grid one thread per i, on threads a Parallel loop. The first
// statement of the kernel. `bytes` is the traffic of one iteration.
void for_each(Builder&, const Mapping&, const std::string& name, Index count, int64_t bytes,
              const std::function<void(Expr)>& body);

// One workgroup of `threads` threads for every i in [0, count), folded into the axes of the grid. Calls body(i, thread); all
// threads of a workgroup call it with the same i, so that it may use barriers. The first statement of the kernel.
void for_each_workgroup(Builder&, const Mapping&, const std::string& name, Index count, int64_t threads,
                        const std::function<void(Expr i, Expr thread)>& body);

}  // namespace rlxc::kernel
