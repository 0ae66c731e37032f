#include "backend/weight_files.h"

#include <fstream>
#include <map>

#include "support/checked.h"
#include "support/hash.h"

namespace rlxc {
namespace {

uint64_t padded(uint64_t bytes) { return align_up(bytes, 64).value_or(bytes); }

}  // namespace

const TensorData& weight_data(const codegen::Package& p, const codegen::Weight& w) {
  static const TensorData none;
  return w.data.valid() ? p.lir->module->data[w.data] : none;
}

WeightFiles locate_weights(const codegen::Package& p, const CpuPackageOptions& o) {
  WeightFiles located;
  located.files.emplace_back(weights_file(p));
  located.packed_bytes = kWeightsHeader;
  uint64_t total = 0;
  for (const codegen::Weight& w : p.weights) total += weight_data(p, w).bytes.size();
  std::map<std::string, uint32_t> numbers;
  for (const codegen::Weight& w : p.weights) {
    const TensorData& d = weight_data(p, w);
    const uint64_t stored = d.bytes.size();
    if (o.embed_weights || total <= o.max_packed_bytes || d.file.empty() || d.splat) {
      located.weights.push_back({0, located.packed_bytes, stored});
      located.packed_bytes += padded(stored);
      continue;
    }
    const auto [it, is_new] = numbers.try_emplace(d.file, static_cast<uint32_t>(located.files.size()));
    if (is_new) located.files.emplace_back(d.file);
    located.weights.push_back({it->second, d.offset, stored});
  }
  return located;
}

std::string weights_file(const codegen::Package& p) { return p.name + ".weights"; }

std::string weights_header(const codegen::Package& p, const CpuPackageOptions& o) {
  const WeightFiles located = locate_weights(p, o);
  Hash128 hash;
  for (size_t i = 0; i < p.weights.size(); ++i) {
    const codegen::Weight& w = p.weights[i];
    const WeightFiles::Row& row = located.weights[i];
    hash.update_text(w.name.bytes());
    hash.update_text(name(w.dtype));
    hash.update_text(located.files[row.file].bytes());
    for (uint64_t n : {row.offset, row.stored, w.bytes}) hash.update_u64(n);
    if (row.file == 0) hash.update(weight_data(p, w).bytes);
  }
  return "rlxc weights 1 " + hash.hex();
}

bool write_weights(const codegen::Package& p, const CpuPackageOptions& o,
                   const std::function<bool(std::span<const std::byte>)>& write) {
  const WeightFiles located = locate_weights(p, o);
  const std::byte zeros[64] = {};
  const auto write_padded = [&](std::span<const std::byte> bytes) {
    const uint64_t rest = padded(bytes.size()) - bytes.size();
    return write(bytes) && (rest == 0 || write(std::span(zeros).first(rest)));
  };
  if (!write_padded(bytes_of(weights_header(p, o) + "\n"))) return false;
  for (size_t i = 0; i < p.weights.size(); ++i)
    if (located.weights[i].file == 0 && !write_padded(weight_data(p, p.weights[i]).bytes)) return false;
  return true;
}

bool write_weights_file(const codegen::Package& p, const CpuPackageOptions& o, const std::string& folder) {
  std::ofstream out(folder + "/" + weights_file(p), std::ios::binary);
  const bool written = write_weights(p, o, [&](std::span<const std::byte> b) {
    return static_cast<bool>(out.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size())));
  });
  out.close();
  return written && out.good();
}

}  // namespace rlxc
