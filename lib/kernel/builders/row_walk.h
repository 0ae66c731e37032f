// What kernels share that walk each row of their operands several times: rows spread over threads or workgroups, vectors
// along a row, and statistics of it.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// body(i, lanes, slot) for i = 0, lanes, 2*lanes ... and then one by one up to n, neighbours in different slots below `slots`.
// The threads of a workgroup divide the iterations among themselves.
void across(Builder&, Expr n, int lanes, std::optional<Expr> thread, int64_t group, int slots,
            const std::function<void(Expr, int, int)>& body);

// A few accumulators for the vectors of a row, one for its tail.
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

// Calls body(row, thread): a workgroup for each row on a grid, a thread alone where rows are known to be short, a thread
// elsewhere.
void per_row(Builder&, const Mapping&, Expr rows, Expr n, int element_bytes,
             const std::function<void(Expr, std::optional<Expr>)>& body);
// Lanes of the vectors of a row of n elements.
int vector_for(const Mapping&, Expr n, DType compute);

// Rows of some operands over the last axes of `shape`. Outputs are dense, or have one element for each row.
struct RowSpec {
  Dims shape;
  size_t axis = 0;                       // the first of those that rows go along
  DType compute = DType::F32;            // the widest type of what is computed
  std::vector<Operand> inputs, outputs;  // strides over `shape`; axes that rows do not go along may be split
  bool gathers = false;                  // the first input is copied to the first output where its rows do not lie together
};

class RowBuilder {
 protected:
  using Thread = std::optional<Expr>;
  struct Place {  // `lanes` elements of a row, from here on
    std::vector<Expr> at;
    int lanes;
  };

  RowBuilder(Builder&, RowSpec, const Mapping&);  // adds inputs, outputs

  void each_row(const std::function<void(Thread)>& body);
  // body(place, slot) over the axes of a row, the last of them by vectors.
  void walk(Thread, int slots, const std::function<void(const Place&, int)>& body);
  Expr size() const { return product(k_, s_.shape, s_.axis); }  // of a row
  Expr address(size_t operand, const Place&) const;             // operand: inputs, then outputs
  LoadInput loader(const Place&);                               // loads once, which `place` outlives
  void store(size_t output, const Place&, Expr);

  Builder& b_;
  Kernel* k_;
  RowSpec s_;
  const Mapping& m_;
  std::vector<Operand*> operands_;  // inputs, outputs
  std::vector<Buf> bufs_;
  std::vector<Expr> bases_;  // of the row at hand
  int lanes_ = 1;            // of those operands that are not gathered
  bool gathers_ = false;     // rows of the first input are to be copied to the first output, one by one
};

}  // namespace rlxc::kernel
