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

bool has_mlx_function(OpKind);  // in rlxc_mlx.py, or control flow

// model.py, rlxc_mlx.py, model.json, README.md. Errors: Code::UnsupportedOnTarget, for all nodes that rlxc_mlx.py has no
// function for or whose types MLX lacks.
std::optional<std::vector<TextFile>> write_mlx_package(const codegen::Package&, const CpuPackageOptions&, Diagnostics&);

// model.mlir, model.json, README.md. Errors: Code::UnsupportedOnTarget, for all nodes without a translation.
std::optional<std::vector<TextFile>> write_tpu_package(const codegen::Package&, const CpuPackageOptions&, Diagnostics&);

// Programs of this target are for one set of sizes.
inline bool needs_static_sizes(std::string_view target) { return target == "tpu"; }

// model.json: names and types of inputs, outputs and weights, and where the bytes of each weight are.
std::string model_json(const codegen::Package&, std::string_view target, const CpuPackageOptions&);

}  // namespace rlxc
