// The host side of a cpu package in C: a program of launches, copies and control flow.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

// Prints sizes as C: literals, entries n[i] of the table that `<name>_set_sizes` computes from the symbols, or expressions over
// these and the extents x[i] that kernels and control flow store. Named sizes that depend on extents are entries c->open[i],
// which `open_sizes` computes whenever an extent is stored.
class CSizes {
 public:
  CSizes(DimTable& dims, std::vector<ForeignText> symbols, const std::vector<DataDependentDim>& extents);
  std::string operator()(Dim);  // as a C operand
  std::string table() const;    // statements that fill n[] from s[], and set `bad` on overflow
  size_t count() const { return entries_.size(); }
  bool has_open_sizes() const { return has_open_; }
  std::string open_sizes(const std::string& context);  // the function, whose argument has this type; empty if there are none
  size_t open_count() const { return open_.size(); }

 private:
  using SymbolText = std::function<std::string(const std::string&)>;
  using NamedText = std::function<std::string(Dim)>;
  // Parts of long expressions: variables that statements define, by their text.
  struct Parts {
    std::map<std::string, std::string> names;
    std::string statements;
  };
  std::string expression(const std::vector<std::string>& postfix, const SymbolText&, const NamedText&, Parts* = nullptr) const;
  std::string of_extents(const std::vector<std::string>& postfix);
  bool uses_extents(Dim) const;
  std::string open(Dim);  // the entry of a named size
  DimTable& dims_;
  std::vector<ForeignText> symbols_;
  std::map<std::string, std::string, std::less<>> extents_;  // their C text, by symbol
  std::vector<Dim> entries_;
  std::map<int64_t, size_t> index_;  // by the Dim's representation
  bool has_open_ = false;
  std::vector<Dim> open_;
  std::map<int64_t, size_t> open_index_;
};

// Returns the static functions `load` and `graph_<i>` (over the struct type <name>_ctx) and adds sizes to the table. With
// `guard`, a kernel may access only its node's buffers: the rest of the arena is poisoned for AddressSanitizer. With `laps`, each
// launch and copy is timed.
std::string launcher_functions(const codegen::Package&, const CpuPackageOptions&, CSizes*);

}  // namespace rlxc
