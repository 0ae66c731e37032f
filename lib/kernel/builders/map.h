// Elementwise kernels: out[i] = f(in_0[i], in_1[i], ...) over an index space of any rank, each operand with its own strides (0
// where broadcast). Collapsible dims are merged first, which leaves few loops. Contiguous operands are read and written by
// vectors.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/builders/common.h"

namespace rlxc::kernel {

// Maps the operands' values at one point to one value per output. Inputs arrive in their compute type (f16 and bf16 as f32), with
// one or more lanes. Results are cast to the dtype of the output.
using MapBody = std::function<std::vector<Expr>(const std::vector<Expr>&)>;

struct MapSpec {
  std::vector<Index> shape;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  MapBody body;
};

// Adds arguments (inputs, then outputs) and the body. The builder must have its symbols and nothing else.
void build_map(Builder&, const MapSpec&, const Mapping&);

}  // namespace rlxc::kernel
