// Sequences and optionals at the interface of a model, as tensors: kernels read and give tensors only. The data tell how many
// elements there are, and their shapes.
#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "runtime/data_set.h"

namespace rlxc {

class SequenceEdges {
 public:
  // Replaces inputs by one input per element, and outputs by one output per element that is expected; the inputs of the sets
  // become those of the module. Changes nothing if there are only tensors, or if the sets differ in form or lack outputs.
  static SequenceEdges apply(Module&, std::vector<DataSet>* sets);

  bool any() const { return !outputs_.empty(); }
  // The outputs of the model from those of the kernels.
  std::vector<eval::HostValue> nested(std::vector<eval::HostValue>) const;

 private:
  std::vector<eval::HostValue> outputs_;  // the form of each output
};

}  // namespace rlxc
