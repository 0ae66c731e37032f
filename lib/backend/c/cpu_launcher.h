// The host side of a cpu package, in C: how a program of launches, copies and control flow is spelled.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

// Sizes as C: literals, entries n[i] of the table that `<name>_set_sizes` fills from the symbols, or expressions over these and
// over the extents x[i] that kernels and control flow store.
class CSizes {
 public:
  CSizes(DimTable& dims, std::vector<ForeignText> symbols, const std::vector<DataDependentDim>& extents);
  std::string operator()(Dim);  // as an operand
  std::string table() const;    // statements that fill n[] from s[], and set `bad` on overflow
  size_t count() const { return entries_.size(); }

 private:
  using SymbolText = std::function<std::string(const std::string&)>;
  std::string expression(Dim, const SymbolText&) const;
  DimTable& dims_;
  std::vector<ForeignText> symbols_;
  std::map<std::string, std::string, std::less<>> extents_;  // what stands for them
  std::vector<Dim> entries_;
  std::map<int64_t, size_t> index_;  // by the Dim's representation
};

// Static functions `load` and `graph_<i>` (of the struct type <name>_ctx); sizes are entered into the table.
// With `guard`, a kernel may touch only the buffers of its node: the rest of the arena is poisoned for AddressSanitizer. With
// `laps`, each launch and copy is timed.
std::string launcher_functions(const codegen::Package&, const CpuPackageOptions&, CSizes*);

}  // namespace rlxc
