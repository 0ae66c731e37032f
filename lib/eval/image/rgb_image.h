// Decoded pixels.
#pragma once
#include <cstdint>
#include <vector>

namespace rlxc::eval {

struct Image {
  int64_t height = 0, width = 0;
  std::vector<uint8_t> rgb;  // [height,width,3]
};

}  // namespace rlxc::eval
