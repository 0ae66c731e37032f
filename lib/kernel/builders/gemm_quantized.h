// A quantized weight in panels for register tiles. Lane l of a vector of words has the quantized values of lane l of all vectors
// of a panel row, for as many rows as fit. A shift and a mask of the words yield a vector of quantized values without byte
// conversions. Words for a dot unit (GemmSpec::dots, gemm_quantized_dots.cpp) have the values of one column each, and are read in
// the same way.
#pragma once
#include "kernel/builders/gemm_operands.h"

namespace rlxc::kernel {

// Loads a block's scale or zero point for a vector at `column` of a panel: one per lane, or one for all.
Expr panel_entry(const GemmOperands&, const Buf&, const Operand&, Expr panel, Expr block, int64_t column, int lanes);

class QuantizedPanels {
 public:
  QuantizedPanels(GemmOperands& o, const RegisterTile& t);

  // Calls body(p, column) for p < count, the steps of the chunk of k at k0. column(v) returns the decoded vector v of the panel,
  // with lanes[v] lanes. Scales are loaded once per block.
  using Column = std::function<Expr(size_t v)>;
  void each_step(Expr panel, Expr k0, Expr count, const std::vector<int>& lanes,
                 const std::function<void(Expr p, const Column&)>& body) const;

  int64_t steps_of_word() const { return rows_; }                        // steps of k, for each of which body is called in turn
  Expr words() const { return ceil_div(o_.k, rows_) * words_of_rows_; }  // of a panel
  // Returns word `at` of a panel. `column` maps places in the panel to columns of b.
  Expr word(Expr at, const std::function<Expr(Expr place)>& column) const;

 private:
  void steps(Expr panel, Expr k0, Expr first, Expr count, Expr block, const std::vector<int>& lanes,
             const std::function<void(Expr p, const Column&)>& body) const;

  GemmOperands& o_;
  Builder& b_;
  const Quantized& quantized_;
  const RegisterTile tile_;
  const int64_t bits_, rows_;    // of a quantized value; steps of k in a word
  const int64_t words_of_rows_;  // of a panel for so many steps
};

}  // namespace rlxc::kernel
