// What CUDA's and HIP's own headers declare, as far as kernels use it: with it clang compiles .cu and .hip.cpp files for real
// devices (PTX, AMDGCN) on a machine that has neither toolkit. Nothing is linked, so functions are declared only.
#pragma once
#include <stdint.h>

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")

struct dim_type {
  unsigned x, y, z;
};
extern const __device__ dim_type blockIdx, threadIdx, blockDim, gridDim;

#define DECLARE1(name)            \
  extern "C" __device__ float name##f(float); \
  extern "C" __device__ double name(double);
#define DECLARE2(name)                   \
  extern "C" __device__ float name##f(float, float); \
  extern "C" __device__ double name(double, double);
#define DECLARE3(name)                          \
  extern "C" __device__ float name##f(float, float, float); \
  extern "C" __device__ double name(double, double, double);
DECLARE1(exp) DECLARE1(expm1) DECLARE1(log) DECLARE1(log1p) DECLARE1(sqrt) DECLARE1(rsqrt) DECLARE1(sin) DECLARE1(cos) DECLARE1(tan)
DECLARE1(asin) DECLARE1(acos) DECLARE1(atan) DECLARE1(sinh) DECLARE1(cosh) DECLARE1(tanh) DECLARE1(asinh) DECLARE1(acosh)
DECLARE1(atanh) DECLARE1(erf) DECLARE1(floor) DECLARE1(ceil) DECLARE1(trunc) DECLARE1(rint) DECLARE1(fabs) DECLARE2(pow)
DECLARE2(fmod) DECLARE2(atan2) DECLARE2(fmin) DECLARE2(fmax) DECLARE3(fma)
#undef DECLARE1
#undef DECLARE2
#undef DECLARE3
__device__ bool isnan(float);
__device__ bool isnan(double);
__device__ bool isinf(float);
__device__ bool isinf(double);
extern "C" __device__ void* memcpy(void*, const void*, __SIZE_TYPE__);

// Element types that are stored; kernels compute with float.
template <int kind>
struct narrow_float {
  uint16_t bits;
  narrow_float() = default;
  __device__ narrow_float(float);
  __device__ operator float() const;
};
using __half = narrow_float<0>;
using __nv_bfloat16 = narrow_float<1>;
using hip_bfloat16 = narrow_float<1>;

template <class T>
__device__ T __shfl_xor_sync(unsigned, T, int);
template <class T>
__device__ T __shfl_xor(T, int);
__device__ void __syncthreads();
template <class T>
__device__ T atomicAdd(T*, T);
