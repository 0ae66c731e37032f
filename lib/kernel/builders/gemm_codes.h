// Reads a quantized b in runs of elements along k, on a grid. One access reads the codes of a run, and a thread decodes them in
// registers. A run has one scale and one zero point.
#pragma once
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {

class CodeRuns {
 public:
  // Runs of at most `most` elements, and vectors of at most `width` elements.
  CodeRuns(GemmOperands&, const Mapping&, int64_t most, int64_t width);

  int64_t size() const { return size_; }    // elements of a run; 1: b cannot be read in runs
  int64_t bytes() const { return bytes_; }  // of a run's codes

  struct Parameters {
    Expr scale, zero;
  };
  // The codes of the run that starts at k, in the storage type of b, and its parameters. If the condition is false, nothing is
  // read and they are 0.
  Expr codes(Expr k, Expr column, Expr condition) const;
  Parameters parameters(Expr k, Expr column, Expr condition) const;
  // Calls body for vectors of neighbours in a run. Their elements are the values less the zero point, not scaled.
  void each(Expr codes, Expr zero, const std::function<void(int64_t first, Expr values)>& body) const;
  int64_t width() const { return width_; }  // of a vector

 private:
  GemmOperands& o_;
  Builder& b_;
  int64_t size_ = 1, bytes_ = 0, width_ = 1;
};

}  // namespace rlxc::kernel
