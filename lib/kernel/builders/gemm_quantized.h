// A quantized weight in panels for register tiles. A lane of a vector of words holds its quantized values of all vectors of a row
// of the panel, and of as many rows as fit: a shift and a mask of the words give a vector of quantized values, without a
// conversion from bytes.
#pragma once
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {

// Entries of a scale or zero point from a column of a panel on: those of one block, one for each lane or one for all.
Expr panel_entry(const GemmOperands&, const Buf&, const Operand&, Expr panel, Expr block, int64_t column, int lanes);

class QuantizedPanels {
 public:
  QuantizedPanels(GemmOperands& o, const RegisterTile& t);

  // Calls body(p, column) for the steps p < count of a chunk of k that begins at k0; column(v) are the decoded numbers of vector
  // v of the panel, of lanes[v] lanes. Scales are read once for each block.
  using Column = std::function<Expr(size_t v)>;
  void each_step(Expr panel, Expr k0, Expr count, const std::vector<int>& lanes,
                 const std::function<void(Expr p, const Column&)>& body) const;

  Expr words() const { return ceil_div(o_.k, rows_) * int64_t{tile_.lanes}; }  // of a panel
  // Word `at` of a panel whose columns are those that `column` gives for places in it.
  Expr word(Expr at, const std::function<Expr(Expr place)>& column) const;

 private:
  void steps(Expr panel, Expr k0, Expr first, Expr count, Expr block, const std::vector<int>& lanes,
             const std::function<void(Expr p, const Column&)>& body) const;

  GemmOperands& o_;
  Builder& b_;
  const Quantized& quantized_;
  const RegisterTile tile_;
  const int64_t bits_, rows_;  // of a code; steps of k in a word
};

}  // namespace rlxc::kernel
