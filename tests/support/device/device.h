// The declarations of CUDA's and HIP's headers that kernels use. clang compiles .cu and .hip.cpp files for devices (PTX, AMDGCN)
// without either toolkit. Nothing is linked: functions are declared only.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __align__(n) __attribute__((aligned(n)))
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

extern "C" {
__device__ size_t __cvta_generic_to_shared(const void*);
__device__ float expf(float);
__device__ double exp(double);
__device__ float expm1f(float);
__device__ double expm1(double);
__device__ float logf(float);
__device__ double log(double);
__device__ float log1pf(float);
__device__ double log1p(double);
__device__ float sqrtf(float);
__device__ double sqrt(double);
__device__ float rsqrtf(float);
__device__ double rsqrt(double);
__device__ float __fmul_rn(float, float);
__device__ double __dmul_rn(double, double);
__device__ float sinf(float);
__device__ double sin(double);
__device__ float cosf(float);
__device__ double cos(double);
__device__ float tanf(float);
__device__ double tan(double);
__device__ float asinf(float);
__device__ double asin(double);
__device__ float acosf(float);
__device__ double acos(double);
__device__ float atanf(float);
__device__ double atan(double);
__device__ float sinhf(float);
__device__ double sinh(double);
__device__ float coshf(float);
__device__ double cosh(double);
__device__ float tanhf(float);
__device__ double tanh(double);
__device__ float asinhf(float);
__device__ double asinh(double);
__device__ float acoshf(float);
__device__ double acosh(double);
__device__ float atanhf(float);
__device__ double atanh(double);
__device__ float erff(float);
__device__ double erf(double);
__device__ float floorf(float);
__device__ double floor(double);
__device__ float ceilf(float);
__device__ double ceil(double);
__device__ float truncf(float);
__device__ double trunc(double);
__device__ float rintf(float);
__device__ double rint(double);
__device__ float fabsf(float);
__device__ double fabs(double);
__device__ float powf(float, float);
__device__ double pow(double, double);
__device__ float fmodf(float, float);
__device__ double fmod(double, double);
__device__ float atan2f(float, float);
__device__ double atan2(double, double);
__device__ float fminf(float, float);
__device__ double fmin(double, double);
__device__ float fmaxf(float, float);
__device__ double fmax(double, double);
__device__ float fmaf(float, float, float);
__device__ double fma(double, double, double);
}
__device__ bool isnan(float);
__device__ bool isnan(double);
__device__ bool isinf(float);
__device__ bool isinf(double);
extern "C" __device__ void* memcpy(void*, const void*, __SIZE_TYPE__);

// Storage types; kernels compute in float.
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
