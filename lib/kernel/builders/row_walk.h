// Helpers for kernels that read each row of their operands several times: rows split among threads or workgroups, vectors along a
// row, and row statistics.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/fused_io.h"

namespace rlxc::kernel {

// Calls body(i, lanes, slot) for i = 0, lanes, 2*lanes ... and then for single elements up to n. Neighbours use different slots
// below `slots`. The threads of a workgroup divide the iterations; n is a multiple of their lanes.
void across(Builder&, Expr n, int lanes, std::optional<Expr> thread, int64_t group, int slots,
            const std::function<void(Expr, int, int)>& body);

// Several accumulators for the vectors of a row, and one for its tail.
class Accumulator {
 public:
  Accumulator(Builder&, ExprOp combine, DType, int lanes);
  int slots() const { return static_cast<int>(wide_.size()); }
  void add(Expr v, int slot);
  Expr result(const Mapping&, std::optional<Expr> thread, int64_t group) const;

 private:
  Builder& b_;
  ExprOp combine_;
  std::vector<Buf> wide_;
  Buf tail_;
  int lanes_;
};

// The maximum of a row for a softmax: 0 in place of an infinity, so that hidden elements have the exponential 0.
Expr finite_or_zero(Expr top);

// Calls body(row, thread). On a grid, each row has a workgroup, or one thread if rows are known to be shorter than a warp. On a
// CPU, each row is one iteration of a Parallel loop.
void per_row(Builder&, const Mapping&, Expr rows, Expr n, int element_bytes,
             const std::function<void(Expr, std::optional<Expr>)>& body);
// Returns the mapping with workgroups for rows of n elements: some vectors for each thread.
Mapping mapping_of_rows(Mapping, Expr rows, Expr n, int lanes);
// Returns the vector lanes for a row of n elements.
int vector_for(const Mapping&, Expr n, DType compute);

// Rows of operands over the last axes of `shape`. Outputs are dense, or have one element per row.
struct RowSpec {
  Dims shape;
  size_t axis = 0;                       // the first axis of a row
  DType compute = DType::F32;            // widest compute type
  std::vector<Operand> inputs, outputs;  // strides over `shape`; axes outside of a row may be split
  std::optional<size_t> order = {};      // the input in whose order rows are walked; by default that of the shape
  bool gathers = false;                  // the first input is copied to the first output if its rows are not contiguous
};

class RowBuilder {
 protected:
  using Thread = std::optional<Expr>;
  struct Place {  // `lanes` elements of a row from `at` on
    std::vector<Expr> at;
    int lanes;
  };

  RowBuilder(Builder&, RowSpec, const Mapping&);  // adds inputs, outputs

  void each_row(const std::function<void(Thread)>& body);
  // On a CPU: calls body(first, count) for groups of up to `most` rows, which calls start_row for each.
  void each_rows(int64_t most, const std::function<void(Expr, Expr)>& body);
  void start_row(Expr row);
  // Calls body(place, slot) over the axes of a row, by vectors along the last one. `last`: the size of that axis, if another.
  void walk(Thread, int slots, const std::function<void(const Place&, int)>& body, const std::optional<Index>& last = {});
  Expr size() const { return product(k_, s_.shape, s_.axis); }  // elements of a row
  Expr address(size_t operand, const Place&) const;             // operand: inputs, then outputs
  LoadInput loader(const Place&);                               // loads each input once; `place` must outlive it
  void store(size_t output, const Place&, Expr);

  Builder& b_;
  Kernel* k_;
  RowSpec s_;
  Mapping m_;                       // for rows of this length
  std::vector<Operand*> operands_;  // inputs, outputs
  std::vector<Buf> bufs_;
  std::vector<Expr> bases_;  // offsets of the current row
  int lanes_ = 1;            // of operands that are not gathered
  bool gathers_ = false;     // rows of the first input are copied to the first output

 private:
  int aligned_lanes() const;
};

}  // namespace rlxc::kernel
