// A matmul of rows and a strip of columns, in vectors of a given number of bytes. Compiled once per instruction set (see
// gemm.cpp), so only these declarations may be shared with other sources.
#pragma once
#include <stdint.h>

namespace rlxc::eval {

constexpr int64_t kStrip = 16;  // columns per strip

// c[m,16] += a[m,k] * strip[k,16]. a_stride and c_stride: elements between rows. Products are rounded before they are added, in
// the order of k, on every CPU.
using MultiplyStrip = void (*)(const double* a, int64_t a_stride, const double* strip, int64_t k, double* c, int64_t c_stride,
                               int64_t m);
void multiply_strip_any(const double*, int64_t, const double*, int64_t, double*, int64_t, int64_t);
void multiply_strip_avx2(const double*, int64_t, const double*, int64_t, double*, int64_t, int64_t);
void multiply_strip_avx512(const double*, int64_t, const double*, int64_t, double*, int64_t, int64_t);

namespace {  // one copy per source file

template <int Bytes, int Rows>
void multiply_rows(const double* a, int64_t a_stride, const double* strip, int64_t k, double* c, int64_t c_stride) {
  typedef double Vector __attribute__((vector_size(Bytes), aligned(8), may_alias));
  constexpr int kLanes = Bytes / 8, kVectors = kStrip / kLanes;
  Vector sum[Rows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[r][v] = *reinterpret_cast<const Vector*>(c + r * c_stride + v * kLanes);
  for (int64_t p = 0; p < k; ++p) {
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const double x = a[r * a_stride + p];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[r][v] += *reinterpret_cast<const Vector*>(strip + p * kStrip + v * kLanes) * x;
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(c + r * c_stride + v * kLanes) = sum[r][v];
}

template <int Bytes, int Rows>
void multiply_strip(const double* a, int64_t a_stride, const double* strip, int64_t k, double* c, int64_t c_stride, int64_t m) {
  int64_t i = 0;
  for (; i + Rows <= m; i += Rows) multiply_rows<Bytes, Rows>(a + i * a_stride, a_stride, strip, k, c + i * c_stride, c_stride);
  for (; i < m; ++i) multiply_rows<Bytes, 1>(a + i * a_stride, a_stride, strip, k, c + i * c_stride, c_stride);
}

}  // namespace
}  // namespace rlxc::eval
