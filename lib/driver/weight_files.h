// Where a package finds its weights: those that lie in a file of the model are read from there, the others from weights.bin.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/package.h"

namespace rlxc {

struct WeightFiles {
  struct Row {
    uint32_t file;
    uint64_t offset;
  };
  std::vector<std::string> files;  // weights.bin, then files of the model (relative to its folder)
  std::vector<Row> weights;        // by weight
  uint64_t packed_bytes = 0;       // length of weights.bin
};

// With `pack` all weights are in weights.bin.
WeightFiles locate_weights(const codegen::Package&, bool pack);

// The bytes of weights.bin, streamed in order. False when `write` is.
bool write_weights(const codegen::Package&, bool pack, const std::function<bool(std::span<const std::byte>)>& write);

}  // namespace rlxc
