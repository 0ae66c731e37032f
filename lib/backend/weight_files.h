// Where the host of a package reads its weights: from <name>.weights, or from files of the model.
//
// <name>.weights begins with 64 bytes: the line "rlxc weights 1 FINGERPRINT" (32 hex digits), then zeros. The fingerprint covers
// names, types and contents of the weights; hosts reject a file with another one. Each weight is aligned to 64 bytes.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backend/package_options.h"
#include "codegen/package.h"

namespace rlxc {

inline constexpr uint64_t kWeightsHeader = 64;  // bytes

struct WeightFiles {
  struct Row {
    uint32_t file;
    uint64_t offset, stored;  // bytes in the file; fewer than the weight's: one element, repeated
  };
  std::vector<ForeignText> files;  // <name>.weights, then files of the model (relative to its folder)
  std::vector<Row> weights;        // by weight; a weight without data takes no bytes
  uint64_t packed_bytes = 0;       // length of <name>.weights

  bool has_own() const { return packed_bytes > kWeightsHeader; }
};

WeightFiles locate_weights(const codegen::Package&, const CpuPackageOptions&);
const TensorData& weight_data(const codegen::Package&, const codegen::Weight&);  // empty if the model has no data for it

std::string weights_file(const codegen::Package&);  // <name>.weights
std::string weights_header(const codegen::Package&,
                           const CpuPackageOptions&);  // its first line, without the line break. O(bytes)
// Streams the bytes of <name>.weights in order. Returns false as soon as `write` does.
bool write_weights(const codegen::Package&, const CpuPackageOptions&,
                   const std::function<bool(std::span<const std::byte>)>& write);
bool write_weights_file(const codegen::Package&, const CpuPackageOptions&, const std::string& folder);

}  // namespace rlxc
