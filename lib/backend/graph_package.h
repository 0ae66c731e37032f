// Packages for targets that take a graph rather than kernels: mlx as a Python module, tpu as StableHLO.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

// The weights and ports of a module, without kernels: what weight_files.h needs.
codegen::Package graph_only_package(const LirModule&, Diagnostics&);

// model.json: names and types of inputs, outputs and weights, and where the bytes of each weight are.
std::string model_json(const codegen::Package&, std::string_view target, const CpuPackageOptions&);

}  // namespace rlxc
