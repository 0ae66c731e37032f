// Packages for devices: kernels in the device's language, launch.json with the program, and a host that carries it out.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

// cuda, rocm, metal, wgpu.
bool is_device_target(std::string_view target);

// What code generation must know of the target; nullopt where kernels are not generated for it.
std::optional<codegen::CapabilityRow> capability(std::string_view target);

// A package as the target binds and computes it: kernels take the target's integer types, and where the target binds weights
// apart, kernels that are used with and without them are two. Errors: Code::UnsupportedOnTarget with the kernel's nodes.
std::optional<codegen::Package> adapt_package(const codegen::Package&, std::string_view target, Diagnostics&);

// Text files of an adapted package: kernels_*.<language>, launch.json, host sources, Makefile, README.md. Beside them belongs
// <name>.weights (see weight_files.h).
std::vector<TextFile> write_device_package(const codegen::Package& adapted, std::string_view target,
                                           const CpuPackageOptions& = {});

// Kernels of each source file, by number in the package.
std::vector<std::vector<uint32_t>> kernel_files(const codegen::Package&, std::string_view target);

}  // namespace rlxc
