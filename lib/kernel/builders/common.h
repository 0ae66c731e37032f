// Helpers shared by builders: strided operands, and index spaces split among CPU threads or over a grid.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel/builder.h"
#include "kernel/mapping.h"

namespace rlxc::kernel {

using Dims = std::vector<Index>;

// 8-bit values as dot units read them: values per i32 word, and the offset between signed and unsigned form.
inline constexpr int kWordCodes = 4, kSignFlip = 128;

// A kernel argument over the index space of the kernel: one stride (in elements) per dim, 0 where the tensor is broadcast.
struct Operand {
  std::string name;
  DType dtype = DType::F32;
  Dims strides;
  Index extent = 0;  // elements of the buffer
  Index offset = 0;  // of the first element
  // A dim without a single stride is split into factors, outermost first. One entry per dim, or empty if no dim is split.
  struct DimFactor {
    Index size, stride;
  };
  std::vector<std::vector<DimFactor>> factors = {};
  Dims starts = {};   // position of the first element in the factors, per dim, or empty
  bool view = false;  // of an argument that has been added, with this name (fused_io.h)

  bool split(size_t d) const { return d < factors.size() && !factors[d].empty(); }
};

using LoadInput = std::function<Expr(size_t i)>;  // input i at an element, in its compute type

// A row-major tensor of this shape; and a tensor of shape `own` broadcast to `shape` (NumPy's rule, right-aligned).
Operand dense(Kernel*, std::string name, DType, const Dims& shape);
Operand broadcast_operand(Kernel*, std::string name, DType, const Dims& own, const Dims& shape);

Expr product(Kernel*, const Dims&, size_t begin = 0, size_t end = SIZE_MAX);
bool same(const Index&, const Index&);        // whether they are the same constant or the same expression
bool constant(const Index&, int64_t* value);  // sets *value if it is a constant
bool is_constant(const Index&, int64_t value);
int64_t constant_value(const Index&);        // of an index that is known to be a constant
bool is_multiple(const Index&, int64_t of);  // whether it provably is

// Merges neighbouring dims within begin..end that are collapsible in every operand and drops dims of 1. Returns the new end.
size_t merge_dims(Kernel*, Dims* shape, const std::vector<Operand*>&, size_t begin, size_t end);

// Orders the dims before `end` as those of an operand lie in memory, if their strides there are known.
void sort_dims(Dims* shape, const std::vector<Operand*>&, size_t end, const Operand& by);

// Returns the operand's element offset at this point.
Expr element_at(Kernel*, const Operand&, const std::vector<Expr>& index);

// Returns how many elements along an axis, `extent` long, one aligned access can read: up to `most`, a power of two. 1 if the
// axis is not contiguous.
int64_t contiguous_lanes(const Operand&, size_t axis, Expr extent, int64_t most);

// Marks an output as streamed, if no cache holds it. Its elements are stored once, in order, and never loaded. Returns whether.
bool stream(const Buf&, const Mapping&);

// Splits a row-major linear index into one index per dim. Dims after the first must be positive.
std::vector<Expr> split_index(Expr linear, const Dims& dims);

// The compute type of values stored as t: f32 for f16 and bf16, else t.
DType compute_dtype(DType t);

// Returns saturate(round_even(v / scale) + zero) in the type of `zero`, u8 or i8.
Expr quantized(Expr v, Expr scale, Expr zero);

// Returns e^x for a softmax, where x is at most 0: the error may grow with abs(x), because the result shrinks faster. Vectors on
// CPU threads take a power of two, which is cheaper.
Expr exp_of_softmax(Expr x, const Mapping&);

// Calls body(i) for every i in [0, count), in parallel: one thread per i on a grid, a Parallel loop on a CPU. Must be the first
// statement of the kernel. `bytes`: memory traffic of one iteration.
void for_each(Builder&, const Mapping&, const std::string& name, Index count, int64_t bytes,
              const std::function<void(Expr)>& body);

// Runs one workgroup of `threads` threads for every i in [0, count), folded into the axes of the grid. All threads of a workgroup
// call body(i, thread) with the same i, which may use barriers. Must be the first statement of the kernel.
void for_each_workgroup(Builder&, const Mapping&, const std::string& name, Index count, int64_t threads,
                        const std::function<void(Expr i, Expr thread)>& body);

}  // namespace rlxc::kernel
