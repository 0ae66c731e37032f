// README.md of a cpu package: every file, and worked calls in each language with the names and sizes of the model.
#pragma once
#include <string>

#include "backend/c/cpu_package.h"

namespace rlxc {

std::string cpu_readme(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
