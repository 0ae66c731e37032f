// README.md of a cpu package: every file, and example calls in each language with the model's names and sizes.
#pragma once
#include <string>

#include "backend/c/cpu_package.h"

namespace rlxc {

std::string cpu_readme(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
