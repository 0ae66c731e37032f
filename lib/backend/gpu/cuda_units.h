// The matrix units and dot units of NVIDIA and AMD GPUs, as the vendors define them.
#pragma once
#include <algorithm>
#include <array>

#include "backend/gpu/gpu_backend.h"

namespace rlxc::cuda_units {

using kernel::columns;
using kernel::FragmentLayout;
using kernel::MatrixUnit;
using kernel::rows;
using kernel::Source;

// PTX ISA, mma.m16n8k16, with the steps of k permuted to the order of a quad's lanes.
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
// mma.m16n8k32, likewise.
constexpr MatrixUnit tensor_core_of_bytes(DType t, DType accumulator, std::optional<DType> right = {}) {
  return {16,
          8,
          32,
          32,
          t,
          accumulator,
          {{columns(8), columns(16), rows(1), rows(2), rows(4)}, {columns(1), columns(2), columns(4), rows(8)}, 4},
          {{rows(8), rows(16), columns(1), columns(2), columns(4)}, {rows(1), rows(2), rows(4)}, 3},
          {{columns(2), columns(4), rows(1), rows(2), rows(4)}, {columns(1), rows(8)}, 2},
          Source::Lanes,
          Source::Lanes,
          right};
}
// PTX ISA, wgmma.m64nNk16: the registers of a warpgroup for m x n elements.
constexpr FragmentLayout of_warpgroup(int m, int n) {
  FragmentLayout s = {{columns(2), columns(4), rows(1), rows(2), rows(4), rows(16), rows(32)}, {columns(1), rows(8)}, 2};
  for (int column = 8; column < n; column *= 2) s.element[static_cast<size_t>(s.element_bits++)] = columns(column);
  for (int row = 64; row < m; row *= 2) s.element[static_cast<size_t>(s.element_bits++)] = rows(row);
  return s;
}
constexpr MatrixUnit tensor_core_of_tiles(DType t, int m, int n, int k, Source a, Source b) {
  return {m,
          n,
          k,
          128,
          t,
          DType::F32,
          a == Source::Lanes ? of_warpgroup(m, k) : FragmentLayout(),
          {},
          of_warpgroup(m, n),
          a,
          b,
          {},
          n == 128 && a == Source::AlongK};
}
constexpr auto tensor_cores_of_tiles(DType t) {
  return std::array{tensor_core_of_tiles(t, 128, 128, 64, Source::AlongK, Source::AlongK),
                    tensor_core_of_tiles(t, 128, 128, 64, Source::AlongK, Source::AcrossK),
                    tensor_core_of_tiles(t, 64, 128, 64, Source::AlongK, Source::AlongK),
                    tensor_core_of_tiles(t, 64, 128, 64, Source::AlongK, Source::AcrossK),
                    tensor_core_of_tiles(t, 64, 64, 64, Source::AlongK, Source::AlongK),
                    tensor_core_of_tiles(t, 64, 64, 128, Source::AlongK, Source::AlongK),
                    tensor_core_of_tiles(t, 64, 64, 64, Source::Lanes, Source::AcrossK),
                    tensor_core_of_tiles(t, 64, 128, 64, Source::Lanes, Source::AcrossK)};
}
// wgmma.m64n128k32, four of them along k.
constexpr MatrixUnit tensor_core_of_byte_tiles(int m, DType t, DType accumulator, std::optional<DType> right = {}) {
  return {m,
          128,
          128,
          128,
          t,
          accumulator,
          {},
          {},
          of_warpgroup(m, 128),
          Source::AlongK,
          Source::AlongK,
          right,
          accumulator == DType::I32};
}
constexpr auto tensor_cores_of_byte_tiles(int m) {
  return std::array{
      tensor_core_of_byte_tiles(m, DType::I8, DType::I32), tensor_core_of_byte_tiles(m, DType::U8, DType::I32, DType::I8),
      tensor_core_of_byte_tiles(m, DType::F8E4M3FN, DType::F32), tensor_core_of_byte_tiles(m, DType::F8E5M2, DType::F32)};
}
constexpr auto kTensorCoresOfTiles = [] {
  std::array<MatrixUnit, 24> all{};
  auto* to = all.begin();
  for (DType t : {DType::F16, DType::BF16}) to = std::ranges::copy(tensor_cores_of_tiles(t), to).out;
  for (int m : {128, 64}) to = std::ranges::copy(tensor_cores_of_byte_tiles(m), to).out;
  return all;
}();
constexpr MatrixUnit kTensorCores[] = {tensor_core(DType::F16),
                                       tensor_core(DType::BF16),
                                       tensor_core_of_bytes(DType::I8, DType::I32),
                                       tensor_core_of_bytes(DType::U8, DType::I32, DType::I8),
                                       tensor_core_of_bytes(DType::F8E4M3FN, DType::F32),
                                       tensor_core_of_bytes(DType::F8E5M2, DType::F32)};

// dp4a, and products of four 8-bit floats.
constexpr kernel::DotUnit dots_of_f8(DType t) { return {1, 4, t, t, DType::F32}; }
constexpr auto kDotsOfWords = [] {
  std::array<kernel::DotUnit, std::size(kByteDots) + 2> all{};
  std::ranges::copy(std::array{dots_of_f8(DType::F8E4M3FN), dots_of_f8(DType::F8E5M2)},
                    std::ranges::copy(kByteDots, all.begin()).out);
  return all;
}();

// AMD CDNA 2 ISA, v_mfma_f32_16x16x16 and v_mfma_i32_16x16x16i8: four elements of k per lane.
constexpr MatrixUnit matrix_core(DType t, DType accumulator = DType::F32) {
  return {16,
          16,
          16,
          64,
          t,
          accumulator,
          {{rows(1), rows(2), rows(4), rows(8), columns(4), columns(8)}, {columns(1), columns(2)}, 2},
          {{columns(1), columns(2), columns(4), columns(8), rows(4), rows(8)}, {rows(1), rows(2)}, 2},
          {{columns(1), columns(2), columns(4), columns(8), rows(4), rows(8)}, {rows(1), rows(2)}, 2}};
}
constexpr MatrixUnit kMatrixCores[] = {matrix_core(DType::F16), matrix_core(DType::BF16), matrix_core(DType::I8, DType::I32)};

}  // namespace rlxc::cuda_units
