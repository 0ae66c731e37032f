// The Python text of a graph for MLX: a function per graph, with a call of the host's operations (rlxc_mlx*.py) for each node,
// and a function that computes what depends on weights alone, once per load.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/package.h"
#include "support/diagnostics.h"
#include "support/foreign_text.h"

namespace rlxc::mlx {

// Whether the target has a form of the kind: a function of the host, control flow, or an elementwise region.
bool has_form(OpKind);
// Element types of values.
std::span<const DType> value_types();

struct ModuleText {
  std::string functions;                                   // regions, graphs, prepare()
  bool traceable = true;                                   // no size or branch depends on the data of a run
  size_t packed = 0;                                       // weights for mx.quantized_matmul
  std::vector<std::pair<ForeignText, std::string>> dense;  // quantized weights that are dequantized by load: node, reason
};
// Reports Code::UnsupportedOnTarget for nodes without a form, and for values without a type on MLX. O(nodes).
ModuleText module_text(const codegen::Package&, Diagnostics&);

std::string dtype_text(DType);  // a Python expression

}  // namespace rlxc::mlx
