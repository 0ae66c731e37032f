#include "backend/targets.h"

#include <algorithm>
#include <array>

#include "backend/c/cpu.h"
#include "backend/gpu/cuda.h"
#include "backend/gpu/metal.h"
#include "backend/gpu/wgpu.h"

namespace rlxc::target {
namespace {

using kernel::Mapping;

constexpr DType kAllTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,  DType::I16, DType::I32,
                               DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kMetalTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                                 DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kWgpuTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                                DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool};
constexpr DType kMlxTypes[] = {DType::F32, DType::F16, DType::BF16, DType::I8,  DType::I16, DType::I32,
                               DType::I64, DType::U8,  DType::U16,  DType::U32, DType::U64, DType::Bool,
                               DType::C64, DType::I4,  DType::U4,   DType::I2,  DType::U2};
constexpr DType kTpuTypes[] = {DType::F32,  DType::F16, DType::BF16,     DType::F64,    DType::I8,  DType::I16,
                               DType::I32,  DType::I64, DType::U8,       DType::U16,    DType::U32, DType::U64,
                               DType::Bool, DType::C64, DType::F8E4M3FN, DType::F8E5M2, DType::I4,  DType::U4};

using kernel::columns;
using kernel::MatrixUnit;
using kernel::rows;
using kernel::Spread;

// PTX ISA, mma.m16n8k16, with the steps of k in the order in which a lane of a quad holds them.
constexpr MatrixUnit tensor_core(DType t) {
  return {16,
          8,
          16,
          32,
          t,
          DType::F32,
          {{columns(4), columns(8), rows(1), rows(2), rows(4)}, {columns(1), columns(2), rows(8)}, 3},
          {{rows(4), rows(8), columns(1), columns(2), columns(4)}, {rows(1), rows(2)}, 2},
          {{columns(2), columns(4), rows(1), rows(2), rows(4)}, {columns(1), rows(8)}, 2}};
}
// AMD's CDNA 2 ISA, v_mfma_f32_16x16x16: four elements of k a lane.
constexpr MatrixUnit matrix_core(DType t) {
  return {16,
          16,
          16,
          64,
          t,
          DType::F32,
          {{rows(1), rows(2), rows(4), rows(8), columns(4), columns(8)}, {columns(1), columns(2)}, 2},
          {{columns(1), columns(2), columns(4), columns(8), rows(4), rows(8)}, {rows(1), rows(2)}, 2},
          {{columns(1), columns(2), columns(4), columns(8), rows(4), rows(8)}, {rows(1), rows(2)}, 2}};
}
// simdgroup_matrix: the same two elements of a row in each operand, as MLX (steel/gemm/mma.h) relies on too.
constexpr MatrixUnit simdgroup(DType t) {
  constexpr Spread spread = {{columns(2), rows(1), rows(2), columns(4), rows(4)}, {columns(1)}, 1};
  return {8, 8, 8, 32, t, DType::F32, spread, spread, spread};
}
constexpr MatrixUnit kTensorCores[] = {tensor_core(DType::F16), tensor_core(DType::BF16)};
constexpr MatrixUnit kMatrixCores[] = {matrix_core(DType::F16), matrix_core(DType::BF16)};
constexpr MatrixUnit kSimdgroups[] = {simdgroup(DType::F16), simdgroup(DType::BF16)};

Mapping cpu_mapping() {
  Mapping m;
  m.threads = 0;  // as many as the machine that runs has
  return m;
}

Mapping grid_mapping(int group_lanes, int max_group_lanes, int warp, int64_t shared_bytes, int max_vector_lanes,
                     std::span<const MatrixUnit> matrix_units = {}) {
  Mapping m;
  m.lanes = true;
  m.load_bytes = m.vector_bytes = 16;
  m.max_vector_lanes = max_vector_lanes;
  m.group_lanes = group_lanes, m.max_group_lanes = max_group_lanes, m.warp = warp;
  m.shared_bytes = shared_bytes;
  m.vector_registers = 64;
  m.matrix_units = matrix_units;
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
       0,
       0,
       true,
       0,
       0,
       {30, 100, 100, 50, 1000}},
      {TargetId::Metal,
       "metal",
       "Metal Shading Language",
       metal,
       "metal",
       grid_mapping(256, 1024, 32, 32 << 10, 4, kSimdgroups),
       kMetalTypes,
       32,
       16,
       true,
       0,
       31,
       {200, 5000, 5000, 2000, 800000}},
      {TargetId::Mlx,
       "mlx",
       "Python module on mlx.core",
       nullptr,
       "py",
       grid_mapping(256, 1024, 32, 32 << 10, 4),
       kMlxTypes,
       32,
       16,
       true,
       0,
       0,
       {200, 5000, 5000, 2000, 200000}},
      {TargetId::Wgpu,
       "wgpu",
       "WGSL",
       wgpu,
       "wgsl",
       wgpu_mapping(),
       kWgpuTypes,
       32,
       16,
       false,
       uint64_t{128} << 20,
       8,
       {200, 2000, 2000, 10000, 1000000}},
      {TargetId::Cuda,
       "cuda",
       "CUDA C++",
       cuda,
       "cu",
       grid_mapping(256, 1024, 32, 48 << 10, 16, kTensorCores),
       kAllTypes,
       32,
       16,
       true,
       0,
       512,
       {2000, 19500, 312000, 3000, 10000}},
      {TargetId::Rocm,
       "rocm",
       "HIP C++",
       rocm,
       "hip.cpp",
       grid_mapping(256, 1024, 64, 64 << 10, 16, kMatrixCores),
       kAllTypes,
       32,
       16,
       true,
       0,
       512,
       {1600, 23900, 191500, 5000, 15000}},
      {TargetId::Tpu,
       "tpu",
       "StableHLO",
       nullptr,
       "mlir",
       Mapping(),
       kTpuTypes,
       32,
       16,
       true,
       0,
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
#include "backend/claims.def"
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
