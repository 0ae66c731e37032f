#include "backend/weight_files.h"

#include <map>

namespace rlxc {

WeightFiles locate_weights(const codegen::Package& p, const CpuPackageOptions& o) {
  WeightFiles located;
  located.files.emplace_back(weights_file(p));
  std::vector<const TensorData*> data;
  uint64_t total = 0;
  static const TensorData none;
  for (const codegen::Weight& w : p.weights)
    data.push_back(w.data.valid() ? &p.lir->module->data[w.data] : &none), total += data.back()->bytes.size();
  std::map<std::string, uint32_t> numbers;
  for (const TensorData* d : data) {
    const uint64_t stored = d->bytes.size();
    if (total <= o.max_packed_bytes || d->file.empty() || d->splat) {
      located.weights.push_back({0, located.packed_bytes, stored});
      located.packed_bytes += padded_weight(stored);
      continue;
    }
    const auto [it, is_new] = numbers.try_emplace(d->file, static_cast<uint32_t>(located.files.size()));
    if (is_new) located.files.emplace_back(d->file);
    located.weights.push_back({it->second, d->offset, stored});
  }
  return located;
}

}  // namespace rlxc
