// kernels/<target>/: the sources of a compiled module for its target, whatever kind of package that is.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "driver/cpu_package.h"
#include "ir/lir.h"

namespace rlxc {

class OutputFile;

struct PackageFile {
  std::string name;
  std::function<bool(OutputFile&)> write;  // false where the file could not be written
};

// The files of the target's package, in the order in which they are to be written; they refer to the module. Errors: all nodes
// that the target can't compute (Code::UnsupportedOnTarget), Code::MissingWeights.
std::optional<std::vector<PackageFile>> package_files(const LirModule&, std::string_view target, Diagnostics&);

// Writes them into a folder, which is made if need be.
bool write_package(const LirModule&, std::string_view target, const std::string& folder, Diagnostics&);

}  // namespace rlxc
