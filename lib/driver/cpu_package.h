// The cpu package: C sources that a person can read and build, with a C API and the weights beside them.
#pragma once
#include <string>
#include <vector>

#include "codegen/package.h"

namespace rlxc {

struct TextFile {
  std::string name, content;
};

struct CpuPackageOptions {
  bool threads = true;
  // Weights that lie in a file of the model are read from there (file names relative to the folder given to `create`), others
  // from weights.bin. With `pack_weights` all go to weights.bin.
  bool pack_weights = false;
};

// All text files: <name>.h, <name>.c, kernels_*.c, parallel.c, main.c, Makefile, README.md. The package's name must be a C
// identifier.
std::vector<TextFile> write_cpu_package(const codegen::Package&, const CpuPackageOptions&);

// A C identifier made of any text.
std::string c_identifier(std::string_view);

}  // namespace rlxc
