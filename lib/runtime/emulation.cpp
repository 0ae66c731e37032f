#include "runtime/emulation.h"

namespace rlxc::target {
namespace {

constexpr std::string_view kFibers = R"(#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// All of it is local to the library that includes it: several are loaded at once.
namespace {
namespace emu {

struct uint3 {
  unsigned x, y, z;
};

struct Any {
  void* pointer;
  template <class T>
  operator T*() const { return static_cast<T*>(pointer); }
};

struct Thread {
  jmp_buf context;
  std::vector<char> stack;
  uint3 index;
  bool done;
  unsigned char exchange[128];
};

std::vector<Thread> threads;
jmp_buf scheduler;
size_t current;
uint3 group;
void (*body)();
void* const* buffers;
const int64_t* symbols;

// swapcontext would ask the system for the signal mask at each switch.
inline void jump(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

inline void barrier() { jump(threads[current].context, scheduler); }

// A fiber serves all launches, with a stop before each.
inline void thread_main() {
  for (;;) {
    barrier();
    body();
    threads[current].done = true;
  }
}

inline void start(Thread& t) {
  t.stack.resize(1 << 16);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = t.stack.data();
  context.uc_stack.ss_size = t.stack.size();
  context.uc_link = nullptr;
  makecontext(&context, thread_main, 0);
  if (_setjmp(scheduler) == 0) setcontext(&context);
}

// Copies to shared memory that a thread has begun. They are done when it waits for them, not earlier.
struct Copy {
  char bytes[16];
  void* to;
  size_t size, thread, group;
};
std::vector<Copy> copies;
std::vector<size_t> groups;  // of a thread: number of its groups

template <int n>
void copy_later(void* to, const void* from, bool reads) {
  groups.resize(threads.size());
  copies.push_back({{}, to, n, current, groups[current]});
  if (reads) memcpy(copies.back().bytes, from, n);
}
template <int pending>
void await() {
  groups.resize(threads.size());
  const size_t end = ++groups[current];
  std::vector<Copy> rest;
  for (const Copy& c : copies)
    if (c.thread == current && c.group + pending < end) memcpy(c.to, c.bytes, c.size);
    else rest.push_back(c);
  copies.swap(rest);
}

template <class T>
T shuffle_xor(T value, unsigned mask) {
  memcpy(threads[current].exchange, &value, sizeof value);
  barrier();
  memcpy(&value, threads[current ^ mask].exchange, sizeof value);
  barrier();
  return value;
}

// Between two barriers each thread runs alone. Threads that end while others wait at a barrier are an error of the kernel.
inline void run(const int64_t* grid, const int64_t* extents, void (*f)()) {
  size_t n = static_cast<size_t>(extents[0] * extents[1] * extents[2]);
  body = f;
  for (current = threads.size(); current < n; ++current) {
    threads.emplace_back();
    start(threads.back());
  }
  for (int64_t g = 0; g < grid[0] * grid[1] * grid[2]; ++g) {
    group = {unsigned(g % grid[0]), unsigned(g / grid[0] % grid[1]), unsigned(g / (grid[0] * grid[1]))};
    copies.clear();
    for (size_t i = 0; i < n; ++i) {
      threads[i].done = false;
      threads[i].index = {unsigned(i % extents[0]), unsigned(i / extents[0] % extents[1]), unsigned(i / (extents[0] * extents[1]))};
    }
    for (size_t done = 0; done < n;) {
      done = 0;
      for (current = 0; current < n; ++current) {
        jump(scheduler, threads[current].context);
        done += threads[current].done;
      }
      if (done != 0 && done != n) {
        fprintf(stderr, "a barrier that not all threads reach\n");
        abort();
      }
    }
  }
}

inline float half_to_float(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000u) << 16, rest = h & 0x7fffu, u;
  float f = float(rest) * 0x1p-24f;
  memcpy(&u, &f, 4);
  if (rest >= 0x7c00u) u = 0x7f800000u | (rest & 0x3ffu) << 13;
  else if (rest >= 0x400u) u = (rest << 13) + 0x38000000u;
  u |= sign;
  memcpy(&f, &u, 4);
  return f;
}

inline uint16_t float_to_half(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  uint32_t sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (u >= 0x47800000u) return uint16_t(sign | 0x7c00u);
  if (u < 0x38800000u) return uint16_t(sign | uint32_t(std::nearbyint(std::fabs(f) * 0x1p24f)));
  return uint16_t(sign | ((u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13));
}

struct half {
  uint16_t bits;
  half() = default;
  half(float f) : bits(float_to_half(f)) {}
  operator float() const { return half_to_float(bits); }
};

struct bfloat {
  uint16_t bits;
  bfloat() = default;
  bfloat(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    bits = uint16_t(f != f ? u >> 16 | 0x40u : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  operator float() const {
    uint32_t u = uint32_t(bits) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
};

// OCP 8-bit floating point: E4M3 with 3 bits of mantissa, E5M2 with 2.
template <int mantissa>
struct f8 {
  uint8_t bits;
  operator float() const {
    const int code = bits & 127, exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    const int least = (mantissa == 3 ? -6 : -14) - mantissa, infinity = mantissa == 3 ? 127 : 124;
    float r = exponent ? std::ldexp(float(fraction + (1 << mantissa)), exponent - 1 + least) : std::ldexp(float(fraction), least);
    if (code >= infinity) r = mantissa == 3 || code > infinity ? NAN : INFINITY;
    return bits & 128 ? -r : r;
  }
};

struct At {
  int lane, element;
};

// c += a * b by the threads of a warp, each with its elements of the matrices; Unit says which those are.
template <class T, class Unit, class Sum = float, class B = T>
void multiply(Sum* c, const void* a, const void* b) {
  memcpy(threads[current].exchange, a, Unit::a_elements * sizeof(T));
  memcpy(threads[current].exchange + 32, b, Unit::b_elements * sizeof(T));
  barrier();
  const size_t lane = current % Unit::warp;
  auto value = [&](auto t, At at, size_t offset) {
    memcpy(&t, threads[current - lane + at.lane].exchange + offset + at.element * sizeof t, sizeof t);
    return Sum(t);
  };
  for (int i = 0; i < Unit::c_elements; ++i)
    for (int p = 0; p < Unit::k; ++p)
      c[i] += value(T(), Unit::a(Unit::row(int(lane), i), p), 0) * value(B(), Unit::b(p, Unit::column(int(lane), i)), 32);
  barrier();
}

// PTX ISA, mma.m16n8k16; elements of a are passed row by row.
struct TensorCore {
  static constexpr int warp = 32, k = 16, a_elements = 8, b_elements = 4, c_elements = 4;
  static At a(int row, int p) { return {row % 8 * 4 + p % 8 / 2, row / 8 * 4 + p / 8 * 2 + p % 2}; }
  static At b(int p, int column) { return {column * 4 + p % 8 / 2, p / 8 * 2 + p % 2}; }
  static int row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  static int column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

// PTX ISA, mma.m16n8k32 of bytes, likewise.
struct TensorCoreOfBytes {
  static constexpr int warp = 32, k = 32, a_elements = 16, b_elements = 8, c_elements = 4;
  static At a(int row, int p) { return {row % 8 * 4 + p % 16 / 4, row / 8 * 8 + p / 16 * 4 + p % 4}; }
  static At b(int p, int column) { return {column * 4 + p % 16 / 4, p / 16 * 4 + p % 4}; }
  static int row(int lane, int i) { return TensorCore::row(lane, i); }
  static int column(int lane, int i) { return TensorCore::column(lane, i); }
};

// AMD CDNA 2 ISA, v_mfma_f32_16x16x16 and v_mfma_i32_16x16x16i8.
struct MatrixCore {
  static constexpr int warp = 64, k = 16, a_elements = 4, b_elements = 4, c_elements = 4;
  static At a(int row, int p) { return {row + p / 4 * 16, p % 4}; }
  static At b(int p, int column) { return {column + p / 4 * 16, p % 4}; }
  static int row(int lane, int i) { return lane / 16 * 4 + i; }
  static int column(int lane, int) { return lane % 16; }
};

// The elements of tiles, by the name of their kind, and the number that one is.
template <class T>
struct Elements {
  using A = T;
  using B = T;
};
template <>
struct Elements<uint8_t> {
  using A = uint8_t;
  using B = int8_t;
};
template <class T>
using Number = std::conditional_t<std::is_integral_v<T>, int, float>;

// PTX ISA, wgmma.m64nNk16: m / 64 of them in each of k / 16 steps. A tile has planes: 128 bytes of each row. Their 16-byte chunks
// are swizzled.
template <class T>
auto of_tile(const void* tile, int rows, int row, int at) {
  constexpr int all = 128 / sizeof(T), chunk = 16 / sizeof(T);
  return Number<T>(static_cast<const T*>(tile)[(at / all * rows + row) * all + (at % all / chunk ^ row % 8) * chunk + at % chunk]);
}
template <class T, class B, int m, int n, int k, bool across, class Sum, class Left>
void multiply_tiles_by(Sum* c, const Left& left, const void* b) {
  const int lane = int(current % 32), warp = int(current / 32 % 4);
  for (int i = 0; i < m * n / 128; ++i) {
    const int row = i / (n / 2) * 64 + warp * 16 + i / 2 % 2 * 8 + lane / 4, column = i % (n / 2) / 4 * 8 + lane % 4 * 2 + i % 2;
    for (int p = 0; p < k; ++p) c[i] += left(row, p) * (across ? of_tile<B>(b, k, p, column) : of_tile<B>(b, n, column, p));
  }
}
template <class Kind, int m, int n, int k, bool across, class Sum>
void multiply_tiles(Sum* c, const void* a, const void* b) {
  using A = typename Elements<Kind>::A;
  multiply_tiles_by<A, typename Elements<Kind>::B, m, n, k, across>(
      c, [=](int row, int p) { return of_tile<A>(a, m, row, p); }, b);
}
template <class T, int m, int n, int k, bool across>
void multiply_tiles(float* c, const uint32_t* a, const void* b) {
  memcpy(threads[current].exchange, a, m * k / 128 * sizeof(T));
  barrier();
  multiply_tiles_by<T, T, m, n, k, across>(
      c,
      [first = current / 128 * 128](int row, int p) {
        const size_t lane = size_t(row / 16 * 32 + row % 8 * 4 + p % 8 / 2), at = size_t(p / 8 * 4 + row / 8 % 2 * 2 + p % 2);
        T t;
        memcpy(&t, threads[first + lane].exchange + at * sizeof t, sizeof t);
        return float(t);
      },
      b);
  barrier();
}

// PTX ISA, dp4a, and AMD's V_DOT4: the bytes of a and b, lowest first, are multiplied, and their products added to c.
template <class T>
float dot4_f8(int a, int b, float c) {
  T x[4], y[4];
  memcpy(x, &a, 4);
  memcpy(y, &b, 4);
  for (int i = 0; i < 4; ++i) c += float(x[i]) * float(y[i]);
  return c;
}
template <class A, class B>
int dot4(int a, int b, int c) {
  A x[4];
  B y[4];
  memcpy(x, &a, 4);
  memcpy(y, &b, 4);
  unsigned sum = unsigned(c);
  for (int i = 0; i < 4; ++i) sum += unsigned(int(x[i]) * int(y[i]));
  return int(sum);
}

struct Simdgroup {
  static constexpr int warp = 32, k = 8, a_elements = 2, b_elements = 2, c_elements = 2;
  static At a(int row, int p) { return {p / 2 % 2 + row % 4 * 2 + p / 4 * 8 + row / 4 * 16, p % 2}; }
  static At b(int p, int column) { return a(p, column); }
  static int row(int lane, int) { return lane / 2 % 4 + lane / 16 * 4; }
  static int column(int lane, int i) { return lane % 2 * 2 + lane / 8 % 2 * 4 + i; }
};

}  // namespace emu
}  // namespace
)";

constexpr std::string_view kCuda = R"(#pragma once
#include <fibers.h>
#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
#define __syncthreads() emu::barrier()
#define RLXC_SHARED_POOL(name) alignas(16) static unsigned char name[256 << 10]
#define rlxc_copy_later_4 emu::copy_later<4>
#define rlxc_copy_later_8 emu::copy_later<8>
#define rlxc_copy_later_16 emu::copy_later<16>
#define rlxc_await emu::await
#define rlxc_exp2 std::exp2
#define __shfl_xor_sync(all, value, mask) emu::shuffle_xor(value, mask)
#define __shfl_xor(value, mask) emu::shuffle_xor(value, mask)
#define blockIdx emu::group
#define threadIdx emu::threads[emu::current].index
using __half = emu::half;
using __nv_bfloat16 = emu::bfloat;
template <class T>
struct emu_two {
  T x, y;
};
inline emu_two<emu::half> __floats2half2_rn(float x, float y) { return {x, y}; }
inline emu_two<emu::bfloat> __floats2bfloat162_rn(float x, float y) { return {x, y}; }
using hip_bfloat16 = emu::bfloat;
#ifdef RLXC_WARP_64
using MatrixUnit = emu::MatrixCore;
using MatrixUnitOfBytes = emu::MatrixCore;
#define __gfx90a__ 1
inline int __builtin_amdgcn_sdot4(int a, int b, int c, bool) { return emu::dot4<int8_t, int8_t>(a, b, c); }
inline unsigned __builtin_amdgcn_udot4(unsigned a, unsigned b, unsigned c, bool) {
  return unsigned(emu::dot4<uint8_t, uint8_t>(int(a), int(b), int(c)));
}
#else
using MatrixUnit = emu::TensorCore;
using MatrixUnitOfBytes = emu::TensorCoreOfBytes;
#define rlxc_dot4_ss emu::dot4<int8_t, int8_t>
#define rlxc_dot4_su emu::dot4<int8_t, uint8_t>
#define rlxc_dot4_us emu::dot4<uint8_t, int8_t>
#define rlxc_dot4_uu emu::dot4<uint8_t, uint8_t>
#define rlxc_dot4_f8e4m3fn emu::dot4_f8<emu::f8<3>>
#define rlxc_dot4_f8e5m2 emu::dot4_f8<emu::f8<2>>
#define rlxc_mma_f8e4m3fn emu::multiply<emu::f8<3>, MatrixUnitOfBytes>
#define rlxc_mma_f8e5m2 emu::multiply<emu::f8<2>, MatrixUnitOfBytes>
#endif
#define rlxc_mma_f16 emu::multiply<emu::half, MatrixUnit>
#define rlxc_mma_bf16 emu::multiply<emu::bfloat, MatrixUnit>
#define rlxc_mma_tiles emu::multiply_tiles
#define rlxc_settle(sums)
#define rlxc_mma_i8 emu::multiply<int8_t, MatrixUnitOfBytes, int32_t>
#define rlxc_mma_u8 emu::multiply<uint8_t, MatrixUnitOfBytes, int32_t, int8_t>
struct rlxc_f8e4m3fn;
struct rlxc_f8e5m2;
template <>
struct emu::Elements<rlxc_f8e4m3fn> {
  using A = emu::f8<3>;
  using B = emu::f8<3>;
};
template <>
struct emu::Elements<rlxc_f8e5m2> {
  using A = emu::f8<2>;
  using B = emu::f8<2>;
};
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline double __dmul_rn(double a, double b) { return a * b; }
template <class T, class V>
inline void atomicAdd(T* p, V v) { *p = T(*p + v); }
using std::isinf;
)";

constexpr std::string_view kMetal = R"(#pragma once
#include <fibers.h>
#define kernel extern "C"
#define device
#define constant const
#define thread
#define threadgroup
using emu::bfloat;
using emu::half;
using emu::uint3;
using uint = unsigned;
using uchar = unsigned char;
using ushort = unsigned short;
using ulong = unsigned long;

template <class T, int N>
struct alignas(sizeof(T) * N) vec {
  T at[N];
  vec() = default;
  explicit vec(T s) {
    for (T& t : at) t = s;
  }
  T& operator[](int i) { return at[i]; }
  const T& operator[](int i) const { return at[i]; }
};
#define EMU_OPERATOR(op)                                                             \
  template <class T, int N>                                                          \
  auto operator op(const vec<T, N>& a, const vec<T, N>& b) {                         \
    constexpr bool is_bool = sizeof(decltype(a[0] op b[0])) == 1 || sizeof(T) == 1;  \
    vec<std::conditional_t<is_bool, std::conditional_t<std::is_same_v<decltype(a[0] op b[0]), bool>, bool, T>, T>, N> r; \
    for (int i = 0; i < N; ++i) r[i] = a[i] op b[i];                                 \
    return r;                                                                        \
  }
EMU_OPERATOR(+) EMU_OPERATOR(-) EMU_OPERATOR(*) EMU_OPERATOR(/) EMU_OPERATOR(&) EMU_OPERATOR(|) EMU_OPERATOR(^)
EMU_OPERATOR(<) EMU_OPERATOR(<=) EMU_OPERATOR(==) EMU_OPERATOR(!=)
template <class T, int N>
vec<T, N> operator-(vec<T, N> a) {
  for (T& t : a.at) t = -t;
  return a;
}
#define EMU_TYPES(T) using T##2 = vec<T, 2>; using T##4 = vec<T, 4>;
EMU_TYPES(float) EMU_TYPES(half) EMU_TYPES(bfloat) EMU_TYPES(bool) EMU_TYPES(char) EMU_TYPES(short) EMU_TYPES(int) EMU_TYPES(long)
EMU_TYPES(uchar) EMU_TYPES(ushort) EMU_TYPES(uint) EMU_TYPES(ulong)

namespace metal {
enum class mem_flags { mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags) { return a; }
inline void threadgroup_barrier(mem_flags) { emu::barrier(); }
template <class T>
T simd_shuffle_xor(T v, ushort mask) { return emu::shuffle_xor(v, mask); }
template <class T, class F>
T emu_simd(T v, F combine) {
  for (ushort mask = 16; mask > 0; mask /= 2) v = combine(v, emu::shuffle_xor(v, mask));
  return v;
}
template <class T>
T simd_sum(T v) { return emu_simd(v, [](T a, T b) { return a + b; }); }
template <class T>
T simd_max(T v) { return emu_simd(v, [](T a, T b) { return a > b ? a : b; }); }
template <class T>
T simd_min(T v) { return emu_simd(v, [](T a, T b) { return a < b ? a : b; }); }
inline bool simd_any(bool v) { return emu_simd(v, [](bool a, bool b) { return a || b; }); }
template <class To, class From>
To as_type(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
template <class T, int N>
vec<T, N> select(vec<T, N> b, vec<T, N> a, vec<bool, N> c) {
  for (int i = 0; i < N; ++i) b[i] = c[i] ? a[i] : b[i];
  return b;
}
#define EMU_UNARY(f)                                                   \
  inline float f(float x) { return std::f(x); }                        \
  template <int N> vec<float, N> f(vec<float, N> x) {                  \
    for (float& t : x.at) t = std::f(t);                               \
    return x;                                                          \
  }
EMU_UNARY(exp) EMU_UNARY(log) EMU_UNARY(sqrt) EMU_UNARY(sin) EMU_UNARY(cos) EMU_UNARY(tan) EMU_UNARY(asin) EMU_UNARY(acos) EMU_UNARY(atan)
EMU_UNARY(sinh) EMU_UNARY(cosh) EMU_UNARY(tanh) EMU_UNARY(asinh) EMU_UNARY(acosh) EMU_UNARY(atanh) EMU_UNARY(floor) EMU_UNARY(ceil)
EMU_UNARY(trunc) EMU_UNARY(rint) EMU_UNARY(fabs)
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
template <int N>
vec<float, N> rsqrt(vec<float, N> x) {
  for (float& t : x.at) t = 1 / std::sqrt(t);
  return x;
}
#define EMU_BINARY(f)                                                  \
  inline float f(float x, float y) { return std::f(x, y); }            \
  template <int N> vec<float, N> f(vec<float, N> x, vec<float, N> y) { \
    for (int i = 0; i < N; ++i) x[i] = std::f(x[i], y[i]);             \
    return x;                                                          \
  }
EMU_BINARY(pow) EMU_BINARY(atan2) EMU_BINARY(fmod)
inline float fma(float a, float b, float c) { return std::fma(a, b, c); }
template <int N>
vec<float, N> fma(vec<float, N> a, vec<float, N> b, vec<float, N> c) {
  for (int i = 0; i < N; ++i) a[i] = std::fma(a[i], b[i], c[i]);
  return a;
}
#define EMU_TEST(f)                                                    \
  inline bool f(float x) { return std::f(x); }                         \
  template <int N> vec<bool, N> f(vec<float, N> x) {                   \
    vec<bool, N> r;                                                    \
    for (int i = 0; i < N; ++i) r[i] = std::f(x[i]);                   \
    return r;                                                          \
  }
EMU_TEST(isnan) EMU_TEST(isinf)
template <class T, int M, int N>
struct simdgroup_matrix {
  vec<T, 2> held;
  vec<T, 2>& thread_elements() { return held; }
};
template <class T>
void simdgroup_multiply_accumulate(simdgroup_matrix<float, 8, 8>& d, simdgroup_matrix<T, 8, 8>& a, simdgroup_matrix<T, 8, 8>& b,
                                   simdgroup_matrix<float, 8, 8>& c) {
  d = c;
  emu::multiply<T, emu::Simdgroup>(d.held.at, a.held.at, b.held.at);
}
using atomic_float = float;
using atomic_int = int;
using atomic_uint = uint;
enum memory_order { memory_order_relaxed };
template <class T, class V>
void atomic_fetch_add_explicit(T* p, V v, memory_order) { *p += v; }
}  // namespace metal
)";

}  // namespace

namespace {

// NCCL by MPI, whose processes hold what devices would.
constexpr std::string_view kNccl = R"(#pragma once
#include <mpi.h>

#include <vector>

enum ncclResult_t { ncclSuccess, ncclFailed };
enum ncclDataType_t { ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat32, ncclFloat64 };
enum ncclRedOp_t { ncclSum, ncclMax, ncclMin };
struct ncclUniqueId {
  int first;
};
using ncclComm_t = MPI_Comm;

inline std::vector<MPI_Request>& emulated_requests() {
  static std::vector<MPI_Request> requests;
  return requests;
}
inline MPI_Datatype emulated_type(ncclDataType_t t) {
  const MPI_Datatype types[] = {MPI_INT8_T, MPI_UINT8_T, MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE};
  return types[t];
}
inline MPI_Op emulated_op(ncclRedOp_t op) { return op == ncclMax ? MPI_MAX : op == ncclMin ? MPI_MIN : MPI_SUM; }
inline ncclResult_t emulated(int status) { return status == MPI_SUCCESS ? ncclSuccess : ncclFailed; }

inline const char* ncclGetErrorString(ncclResult_t) { return "an error of MPI"; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return emulated(MPI_Comm_rank(MPI_COMM_WORLD, &id->first)); }
inline ncclResult_t ncclCommInitRank(ncclComm_t* c, int, ncclUniqueId id, int rank) {
  return emulated(MPI_Comm_split(MPI_COMM_WORLD, id.first, rank, c));
}
inline ncclResult_t ncclCommDestroy(ncclComm_t c) { return emulated(MPI_Comm_free(&c)); }
inline ncclResult_t ncclAllReduce(const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, void*) {
  return emulated(MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, static_cast<int>(n), emulated_type(t), emulated_op(op), c));
}
inline ncclResult_t ncclReduceScatter(const void* in, void* out, size_t n, ncclDataType_t t, ncclRedOp_t op, ncclComm_t c, void*) {
  return emulated(MPI_Reduce_scatter_block(in, out, static_cast<int>(n), emulated_type(t), emulated_op(op), c));
}
inline ncclResult_t ncclAllGather(const void* in, void* out, size_t n, ncclDataType_t t, ncclComm_t c, void*) {
  return emulated(MPI_Allgather(in, static_cast<int>(n), emulated_type(t), out, static_cast<int>(n), emulated_type(t), c));
}
inline ncclResult_t ncclSend(const void* in, size_t n, ncclDataType_t t, int to, ncclComm_t c, void*) {
  emulated_requests().emplace_back();
  return emulated(MPI_Isend(in, static_cast<int>(n), emulated_type(t), to, 0, c, &emulated_requests().back()));
}
inline ncclResult_t ncclRecv(void* out, size_t n, ncclDataType_t t, int from, ncclComm_t c, void*) {
  emulated_requests().emplace_back();
  return emulated(MPI_Irecv(out, static_cast<int>(n), emulated_type(t), from, 0, c, &emulated_requests().back()));
}
inline ncclResult_t ncclGroupStart() { return ncclSuccess; }
inline ncclResult_t ncclGroupEnd() {
  const int status = MPI_Waitall(static_cast<int>(emulated_requests().size()), emulated_requests().data(), MPI_STATUSES_IGNORE);
  emulated_requests().clear();
  return emulated(status);
}
)";

}  // namespace

std::vector<std::pair<std::string, std::string>> emulation_headers() {
  std::vector<std::pair<std::string, std::string>> files = {{"fibers.h", std::string(kFibers)},
                                                            {"metal_stdlib", std::string(kMetal)}};
  for (const char* name : {"cuda_fp16.h", "cuda_bf16.h", "math_constants.h"}) files.push_back({name, "#include <cuda.h>\n"});
  for (const char* name : {"hip/hip_runtime.h", "hip/hip_fp16.h", "hip/hip_bfloat16.h"})
    files.push_back({name, "#define RLXC_WARP_64\n#include <cuda.h>\n"});
  files.push_back({"cuda.h", std::string(kCuda)});
  files.push_back({"nccl.h", std::string(kNccl)});
  return files;
}

std::string emulated(std::string source) {
  constexpr std::string_view declared = "alignas(16) threadgroup ";
  for (size_t at = 0; (at = source.find(declared, at)) != std::string::npos;)
    source.replace(at, declared.size(), "alignas(16) static ");
  return source;
}

std::string emulation_entry(const kernel::Kernel& k, size_t i, bool metal) {
  std::string n = std::to_string(i), s = "static void rlxc_call_" + n + "() {\n  " + k.name + "(";
  auto add = [&](const std::string& argument) { s += (s.back() == '(' ? "" : ", ") + argument; };
  for (size_t a = 0; a < k.argument_count(); ++a) add("emu::Any{emu::buffers[" + std::to_string(a) + "]}");
  for (size_t a = 0; a < k.symbols.size(); ++a) add("emu::symbols[" + std::to_string(a) + "]");
  kernel::Launch launch = kernel::launch_of(k);
  if (metal && (launch.grid[0].valid() || launch.grid[1].valid())) add("emu::group");
  if (metal && (launch.threads[0].valid() || launch.threads[1].valid())) add("emu::threads[emu::current].index");
  return s + ");\n}\nextern \"C\" void rlxc_entry_" + n +
         "(void* const* buffers, const int64_t* symbols, const int64_t* grid, const int64_t* threads) {\n" +
         "  emu::buffers = buffers, emu::symbols = symbols;\n  emu::run(grid, threads, rlxc_call_" + n + ");\n}\n";
}

}  // namespace rlxc::target
