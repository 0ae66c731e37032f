// Packages of targets that take a graph instead of kernels: mlx as a Python module, tpu as StableHLO.
#pragma once
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

// The nodes of all graphs whose results are weights of the package, in order: Params, Constants, and the part of a Param that
// belongs to a device, of which it needs no other.
std::vector<std::pair<const Graph*, NodeId>> weight_nodes(const Module&);

// Returns the weights and ports of a module without kernels, for weight_files.h.
codegen::Package graph_only_package(const LirModule&, Diagnostics&);

// The first position of a ScatterElements that writes consecutive rows, if it is an input whose range is checked: the write is
// one of a slice.
std::optional<ValueId> consecutive_rows(const LirModule&, const Graph&, NodeId scatter);

// Returns model.json: names and types of inputs, outputs and weights, and the file location of each weight. `parameters`: the
// weights that the program takes, and results of its preparation of weights, which takes those of `prepared`; null: all as they
// are.
std::string model_json(const codegen::Package&, std::string_view target, const CpuPackageOptions&,
                       const std::vector<size_t>* parameters = nullptr, const std::vector<size_t>* prepared = nullptr);

}  // namespace rlxc
