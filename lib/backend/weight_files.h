// Where the host of a device package finds its weights: in <name>.weights, as write_weights of cpu_package.h writes it, or in
// files of the model.
#pragma once
#include <string>
#include <vector>

#include "backend/c/cpu_package.h"
#include "codegen/package.h"

namespace rlxc {

struct WeightFiles {
  struct Row {
    uint32_t file;
    uint64_t offset, stored;  // bytes in the file; less than those of the weight: one element, which all are equal to
  };
  std::vector<ForeignText> files;  // <name>.weights, then files of the model (relative to its folder)
  std::vector<Row> weights;        // by weight
  uint64_t packed_bytes = 0;       // length of <name>.weights
};

WeightFiles locate_weights(const codegen::Package&, const CpuPackageOptions&);

}  // namespace rlxc
