// CUDA C++ of units that read tiles in shared memory. On sm_90a, the matrix unit of a warpgroup does. Elsewhere each warp loads
// fragments and computes 16 of 64 rows.
#pragma once
#include <string_view>

namespace rlxc::target {

// Multiplication of tiles in shared memory: what its instances for a unit share.
constexpr std::string_view kTiles = R"(#ifndef rlxc_mma_tiles
template <class T, int m, int n, int k, bool across>
__device__ inline void rlxc_mma_tiles(float* c, const void* a, const void* b);
template <class T, int m, int n, int k, bool across>
__device__ inline void rlxc_mma_tiles(float* c, const uint32_t* a, const void* b);
template <class T, int m, int n, int k, bool across>
__device__ inline void rlxc_mma_tiles(int32_t* c, const void* a, const void* b);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// The descriptor of rows of 128 bytes with swizzled chunks, in groups of eight rows. `plane`: 16 bytes between planes across k.
__device__ inline uint64_t rlxc_tile(const void* at, uint64_t plane) {
  return ((uint32_t)__cvta_generic_to_shared(at) >> 4 & 0x3fff) | plane << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}
#else
__device__ inline uint32_t rlxc_chunk(const void* tile, int row, int chunk) {
  return (uint32_t)__cvta_generic_to_shared(tile) + row * 128 + (chunk ^ row % 8) * 16;
}
__device__ inline void rlxc_fragment(uint32_t* to, const void* tile, int row, int chunk) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(rlxc_chunk(tile, row, chunk)) : "memory");
}
__device__ inline void rlxc_turned_fragment(uint32_t* to, const void* tile, int row, int chunk) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(rlxc_chunk(tile, row, chunk)) : "memory");
}
#endif
#endif
)";

// Waits for a warpgroup's products. What follows reads the sums, not copies of earlier values.
constexpr std::string_view kSettle = R"(#ifndef rlxc_settle
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
__device__ inline void rlxc_hold(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ inline void rlxc_hold(int32_t& sum) { asm volatile("" : "+r"(sum)::"memory"); }
#endif
template <class T, int n>
__device__ inline void rlxc_settle(T (&sums)[n]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  #pragma unroll
  for (int i = 0; i < n; ++i) rlxc_hold(sums[i]);
#endif
}
#endif
)";

// Multiplication of tiles of bytes. Sums of 8-bit floats leave the matrix unit, which keeps about 14 bits of them, after 128
// steps of k.
constexpr std::string_view kByteTiles = R"(#ifndef rlxc_mma_tiles
template <>
__device__ inline void rlxc_mma_tiles$A($C* c, const void* a, const void* b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const uint64_t x = rlxc_tile(a, 1), y = rlxc_tile(b, 1);
  #pragma unroll
  for (int h = 0; h < $M / 64; ++h) {
    $D
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int s = 0; s < $K / 32; ++s)
      asm volatile("wgmma.mma_async.sync.aligned.m64n$Nk32.$T {$L}, %$X, %$Y, 1$E;"
                   : $O : "l"(x + h * 512 + s * 2), "l"(y + s * 2));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    $W
  }
#else
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  #pragma unroll
  for (int s = 0; s < $K / 32; ++s) {
    uint32_t x[$M / 64][4];
    #pragma unroll
    for (int h = 0; h < $M / 64; ++h) {
      uint32_t rows[4];
      rlxc_fragment(rows, a, h * 64 + warp * 16 + lane % 16, 2 * s + lane / 16);
      for (int i = 0; i < 4; ++i) x[h][i] = rows[i % 2 * 2 + i / 2];
    }
    #pragma unroll
    for (int j = 0; j < $N; j += 16) {
      uint32_t y[4];
      rlxc_fragment(y, b, j + lane / 16 * 8 + lane % 8, 2 * s + lane / 8 % 2);
      #pragma unroll
      for (int h = 0; h < $M / 64; ++h)
        for (int v = 0; v < 2; ++v) rlxc_mma_$I(c + h * $R + (j / 8 + v) * 4, x[h], y + 2 * v);
    }
  }
#endif
}
#endif
)";

}  // namespace rlxc::target
