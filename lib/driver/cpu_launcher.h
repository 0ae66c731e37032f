// The host side of a cpu package, in C: how a program of launches, copies and control flow is spelled.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/package.h"

namespace rlxc {

// Sizes as C: literals, or entries n[i] of the table that `<name>_set_sizes` fills from the symbols.
class CSizes {
 public:
  CSizes(const DimTable& dims, std::vector<std::string> symbols) : dims_(dims), symbols_(std::move(symbols)) {}
  std::string operator()(Dim);  // as an operand
  std::string table() const;    // statements that fill n[] from s[], and set `bad` on overflow
  size_t count() const { return entries_.size(); }

 private:
  std::string expression(Dim) const;
  const DimTable& dims_;
  std::vector<std::string> symbols_;
  std::vector<Dim> entries_;
  std::map<int64_t, size_t> index_;  // by the Dim's representation
};

// Static functions `load` and `graph_<i>` (of the struct type <name>_ctx); sizes are entered into the table.
// With `guard`, a kernel may touch only the buffers of its node: the rest of the arena is poisoned for AddressSanitizer.
std::string launcher_functions(const codegen::Package&, bool guard, CSizes*);

}  // namespace rlxc
