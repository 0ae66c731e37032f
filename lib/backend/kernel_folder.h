// Writes the folder kernels/<target>/ of a compile: sources and weights.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "backend/c/cpu_package.h"
#include "codegen/lowering_cache.h"
#include "ir/lir.h"
#include "support/output_file.h"

namespace rlxc {

// Creates a file of the folder and commits what `body` writes to it.
using MakeFile = std::function<void(const std::string& name, const std::function<void(OutputFile&)>& body)>;

// `lowerings`: of the module for the target; may be null. Errors: Code::UnsupportedOnTarget for every node without a kernel, and
// write errors.
void write_kernel_folder(const LirModule&, std::string_view target, const CpuPackageOptions&, codegen::LoweringCache* lowerings,
                         const MakeFile&, Diagnostics&);

}  // namespace rlxc
