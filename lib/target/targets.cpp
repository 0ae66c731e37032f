#include "target/targets.h"

#include <algorithm>
#include <array>

#include "target/cpu.h"
#include "target/cuda.h"
#include "target/metal.h"
#include "target/wgpu.h"

namespace rlxc::target {
namespace {

using kernel::Mapping;

constexpr DType kAllTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,  DType::I16, DType::I32,
                               DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kMetalTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                                 DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kWgpuTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                                DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kMlxTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16,  DType::I32, DType::I64,
                               DType::U8,  DType::U16, DType::U32,  DType::U64, DType::Bool, DType::C64};
constexpr DType kTpuTypes[] = {DType::F32,  DType::F16, DType::BF16,     DType::F64,    DType::I8,  DType::I16,
                               DType::I32,  DType::I64, DType::U8,       DType::U16,    DType::U32, DType::U64,
                               DType::Bool, DType::C64, DType::F8E4M3FN, DType::F8E5M2, DType::I4,  DType::U4};

constexpr MatrixUnit kTensorCores[] = {{16, 16, 16, DType::F16, DType::F32}, {16, 16, 16, DType::BF16, DType::F32}};
constexpr MatrixUnit kSimdgroup[] = {
    {8, 8, 8, DType::F16, DType::F32}, {8, 8, 8, DType::BF16, DType::F32}, {8, 8, 8, DType::F32, DType::F32}};

Mapping cpu_mapping() {
  Mapping m;
  m.threads = 0;  // as many as the machine that runs has
  return m;
}

Mapping grid_mapping(int group_lanes, int max_group_lanes, int warp, int64_t shared_bytes, int max_vector_lanes) {
  Mapping m;
  m.lanes = true;
  m.load_bytes = m.vector_bytes = 16;
  m.max_vector_lanes = max_vector_lanes;
  m.group_lanes = group_lanes, m.max_group_lanes = max_group_lanes, m.warp = warp;
  m.shared_bytes = shared_bytes;
  m.vector_registers = 64;
  return m;
}

Mapping wgpu_mapping() {
  Mapping m = grid_mapping(64, 256, 1, 16 << 10, 4);
  m.max_grid = {65535, 65535, 65535};
  return m;
}

const std::array<Target, kTargetCount>& table() {
  static const std::array<Target, kTargetCount> rows = {{
      {TargetId::Cpu,
       "cpu",
       "C11 with vector extensions",
       cpu,
       "c",
       cpu_mapping(),
       kAllTypes,
       {},
       0,
       0,
       true,
       0,
       {30, 100, 100, 50, 1000}},
      {TargetId::Metal,
       "metal",
       "Metal Shading Language",
       metal,
       "metal",
       grid_mapping(256, 1024, 32, 32 << 10, 4),
       kMetalTypes,
       kSimdgroup,
       32,
       16,
       true,
       0,
       {200, 5000, 5000, 2000, 800000}},
      {TargetId::Mlx,
       "mlx",
       "Python module on mlx.core",
       nullptr,
       "py",
       grid_mapping(256, 1024, 32, 32 << 10, 4),
       kMlxTypes,
       {},
       32,
       16,
       true,
       0,
       {200, 5000, 5000, 2000, 200000}},
      {TargetId::Wgpu,
       "wgpu",
       "WGSL",
       wgpu,
       "wgsl",
       wgpu_mapping(),
       kWgpuTypes,
       {},
       32,
       16,
       false,
       uint64_t{128} << 20,
       {200, 2000, 2000, 10000, 1000000}},
      {TargetId::Cuda,
       "cuda",
       "CUDA C++",
       cuda,
       "cu",
       grid_mapping(256, 1024, 32, 48 << 10, 16),
       kAllTypes,
       kTensorCores,
       32,
       16,
       true,
       0,
       {2000, 19500, 312000, 3000, 10000}},
      {TargetId::Rocm,
       "rocm",
       "HIP C++",
       rocm,
       "hip.cpp",
       grid_mapping(256, 1024, 64, 64 << 10, 16),
       kAllTypes,
       kTensorCores,
       32,
       16,
       true,
       0,
       {1600, 23900, 191500, 5000, 15000}},
      {TargetId::Tpu,
       "tpu",
       "StableHLO",
       nullptr,
       "mlir",
       Mapping(),
       kTpuTypes,
       {},
       32,
       16,
       true,
       0,
       {819, 98000, 197000, 1000, 50000}},
  }};
  return rows;
}

struct Claim {
  std::string_view kind, by;
};
constexpr Claim kClaims[] = {
#define CLAIM(kind, by) {#kind, by},
#include "target/claims.def"
#undef CLAIM
};

}  // namespace

std::span<const Target> targets() { return table(); }
const Target& target(TargetId id) { return table()[static_cast<size_t>(id)]; }

std::optional<TargetId> target_from_name(std::string_view name) {
  for (const Target& t : table())
    if (t.name == name) return t.id;
  return std::nullopt;
}

bool has_dtype(const Target& t, DType d) { return std::find(t.dtypes.begin(), t.dtypes.end(), d) != t.dtypes.end(); }

bool claims(TargetId id, std::string_view op_kind) {
  for (const Claim& c : kClaims)
    if (c.kind == op_kind) return c.by[static_cast<size_t>(id)] == 'x';
  return false;
}

}  // namespace rlxc::target
