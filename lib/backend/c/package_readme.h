// README.md of a cpu package: every file, and example calls in each language with the model's names and sizes.
#pragma once
#include <string>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

std::string cpu_readme(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
