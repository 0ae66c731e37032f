#include "driver/weight_files.h"

#include <algorithm>
#include <map>

namespace rlxc {
namespace {

bool in_model_file(const codegen::Package& p, bool pack, const codegen::Weight& w) {
  const TensorData& d = p.lir->module->data[w.data];
  return !pack && !d.file.empty() && !d.splat;
}

}  // namespace

WeightFiles locate_weights(const codegen::Package& p, bool pack) {
  WeightFiles located;
  located.files = {"weights.bin"};
  std::map<std::string, uint32_t> numbers;
  for (const codegen::Weight& w : p.weights) {
    const TensorData& d = p.lir->module->data[w.data];
    if (in_model_file(p, pack, w)) {
      const auto [it, is_new] = numbers.try_emplace(d.file, static_cast<uint32_t>(located.files.size()));
      if (is_new) located.files.push_back(d.file);
      located.weights.push_back({it->second, d.offset});
    } else {
      located.weights.push_back({0, located.packed_bytes});
      located.packed_bytes = (located.packed_bytes + w.bytes + 63) / 64 * 64;
    }
  }
  return located;
}

bool write_weights(const codegen::Package& p, bool pack, const std::function<bool(std::span<const std::byte>)>& write) {
  constexpr size_t kBlock = 1 << 16;
  for (const codegen::Weight& w : p.weights) {
    if (in_model_file(p, pack, w)) continue;
    const TensorData& d = p.lir->module->data[w.data];
    if (!d.splat) {
      if (!write(d.bytes)) return false;
    } else {
      std::vector<std::byte> block;
      while (block.size() < kBlock && block.size() < w.bytes) block.insert(block.end(), d.bytes.begin(), d.bytes.end());
      for (uint64_t done = 0; done < w.bytes; done += block.size())
        if (!write(std::span(block).first(std::min<uint64_t>(block.size(), w.bytes - done)))) return false;
    }
    const std::byte zeros[64] = {};
    if (w.bytes % 64 != 0 && !write(std::span(zeros).first(64 - w.bytes % 64))) return false;
  }
  return true;
}

}  // namespace rlxc
