#include "backend/c/cpu_models.h"

#include <algorithm>

#include "backend/c/cpu_dot.h"

namespace rlxc::target {
namespace {

// `generic` has the widest vectors, which a C compiler splits where they are narrower.
constexpr CpuModel kCpus[] = {
    {kGenericCpu, 64, 32}, {"zen4", 64, 32, true}, {"skylake-avx512", 64, 32}, {"sapphirerapids", 64, 32, true},
    {"zen3", 32, 16},      {"haswell", 32, 16},    {"neoverse-n1", 16, 32},    {"apple-m1", 16, 32}};

std::string_view native_name() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return "zen4";
  if (__builtin_cpu_supports("avx512f")) return "skylake-avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "haswell";
#elif defined(__aarch64__)
  return "neoverse-n1";
#endif
  return kGenericCpu;
}

}  // namespace

const CpuModel* find_cpu(std::string_view name) {
  if (name == "native") name = native_name();
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
  return m;
}

}  // namespace rlxc::target
