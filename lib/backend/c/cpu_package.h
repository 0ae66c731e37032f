// The cpu package: readable C sources with a C API, and weights.
#pragma once
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

// Returns all text files: <name>.h, <name>.hpp, <name>_model.py, <name>.c, kernels.h, kernels_*.c, levels.h, levels.c,
// parallel.c, weights.c (embedded weights), <name>_train.h and .c (training), main.c, Makefile, CMakeLists.txt, README.md. The
// package's name must be a C identifier.
std::vector<TextFile> write_cpu_package(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
