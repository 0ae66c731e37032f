#include "backend/c/cpu_models.h"

#include <algorithm>

#include "backend/c/cpu_dot.h"
#include "backend/c/cpu_matrix.h"
#include "support/cpu_features.h"
#include "support/system_calls.h"

namespace rlxc::target {
namespace {

// `generic` has the widest vectors, which a C compiler splits where they are narrower.
constexpr CpuModel kCpus[] = {
    {kGenericCpu, 64, 32, 1 << 20, 32 << 20, false, 0},         {"zen4", 64, 32, 1 << 20, 32 << 20, true, 1, 1},
    {"skylake-avx512", 64, 32, 1 << 20, 32 << 20, false, 3, 2}, {"sapphirerapids", 64, 32, 2 << 20, 64 << 20, true, 1, 1},
    {"zen3", 32, 16, 512 << 10, 32 << 20, false, 3, 2},         {"haswell", 32, 16, 256 << 10, 32 << 20, false, 3, 2},
    {"neoverse-n1", 16, 32, 1 << 20, 32 << 20, false, 1},       {"neoverse-v1", 16, 32, 1 << 20, 32 << 20, true, 1, 0, true},
    {"apple-m1", 16, 32, 3 << 20, 8 << 20, false, 1},  // its second cache is shared by four
    {"apple-m2", 16, 32, 4 << 20, 8 << 20, true, 1, 0, true},
};

// Half of the second cache holds a block of rows, a quarter the image of a convolution, a sixteenth the rows of a window: the
// panels and results that pass by need the rest. More rows than the default do not pay: a panel is packed for enough of them.
// Sums are stored between chunks of a panel, so chunks of prepacked panels are as deep as the second cache allows. Beyond 768
// terms the rows of a tile leave the nearest cache.
kernel::Blocking blocking_for(const CpuModel& c) {
  kernel::Blocking b;
  b.gemm_rows = std::min<int64_t>(b.gemm_rows, c.second_cache / 2 / (b.gemm_depth * static_cast<int64_t>(sizeof(float))));
  b.packed_depth = std::clamp<int64_t>(c.second_cache * 3 / 4096, b.gemm_depth, b.packed_depth);
  b.conv_image_bytes = c.second_cache / 4;
  b.window_bytes = c.second_cache / 16;
  return b;
}

std::string_view native_name() {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return "zen4";
  if (has_avx512f()) return "skylake-avx512";
  if (has_avx2() && has_fma()) return "haswell";
#elif defined(__aarch64__)
  return has_i8mm() && has_bf16() ? "neoverse-v1" : "neoverse-n1";
#endif
  return kGenericCpu;
}

// The row of the processor that runs this program, with the second cache and the dot products that it has.
const CpuModel* native_cpu() {
  static const CpuModel native = [] {
    CpuModel c = *find_cpu(native_name());
#if defined(__x86_64__)
    if (has_vnni()) c.dot_instructions = c.pair_dot_instructions = 1;
#endif
    if (const int64_t bytes = second_cache_bytes(); bytes >= 128 << 10) c.second_cache = bytes;
    return c;
  }();
  return &native;
}

}  // namespace

const CpuModel* find_cpu(std::string_view name) {
  if (name == "native") return native_cpu();
  const auto* row = std::ranges::find(kCpus, name, &CpuModel::name);
  return row == std::end(kCpus) ? nullptr : row;
}

std::string cpu_names() {
  std::string s = "native";
  for (const CpuModel& c : kCpus) s += ", " + std::string(c.name);
  return s;
}

kernel::Mapping cpu_mapping(const CpuModel& c) {
  kernel::Mapping m = cpu_mapping(c.bf16);
  m.vector_bytes = m.load_bytes = c.vector_bytes;
  m.vector_registers = c.vector_registers;
  m.last_cache = c.last_cache;
  m.dot_instructions = c.dot_instructions;
  m.pair_dot_instructions = c.pair_dot_instructions;
  if (c.matrices) m.matrix_units = kCpuMatrixUnits;
  m.blocking = blocking_for(c);
  return m;
}

}  // namespace rlxc::target
