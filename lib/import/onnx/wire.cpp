#include "import/onnx/wire.h"

#include <cstring>

namespace rlxc::onnx_import {

bool read_packed(Bytes b, std::vector<int64_t>* out) {
  uint64_t v = 0;
  int shift = 0;
  for (std::byte raw : b) {
    const auto byte = std::to_integer<uint64_t>(raw);
    if (shift >= 70) return false;
    v |= (byte & 127) << shift;
    shift += 7;
    if (byte < 128) {
      out->push_back(static_cast<int64_t>(v));
      v = 0;
      shift = 0;
    }
  }
  return shift == 0;
}

bool read_packed(Bytes b, std::vector<float>* out) {
  if (b.size() % sizeof(float) != 0) return false;
  const size_t old = out->size();
  out->resize(old + b.size() / sizeof(float));
  if (!b.empty()) std::memcpy(out->data() + old, b.data(), b.size());
  return true;
}

}  // namespace rlxc::onnx_import
