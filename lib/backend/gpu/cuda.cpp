// CUDA C++ and HIP: one class, two rows.
#include <algorithm>
#include <array>

#include "backend/gpu/cuda_tiles.h"
#include "backend/gpu/cuda_units.h"
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/gpu_cxx.h"

namespace rlxc::target {
namespace {

using kernel::Access;
using kernel::Buffer;
using kernel::FragmentLayout;
using kernel::Launch;
using kernel::LoopKind;
using kernel::Space;

constexpr uint64_t kMostStaticShared = 48 << 10;

// A matrix instruction for operands of a type.
struct Instruction {
  DType operand;
  std::string_view name, words;  // words: the operands' type, or the register of the sums
};

struct DialectRow {
  std::string_view prelude;
  std::string_view bf16;
  std::string_view shuffle;   // $V value, $M mask
  std::string_view multiply;  // $N element type, $C type of sums, $Z bytes of an operand, $I and $W: of the instruction
  std::span<const Instruction> instructions;
  std::string_view dot;                // the function $F of words of a and b and a sum: $A, $B: s or u
  std::string_view pool;               // shared memory whose size the launch gives
  std::string_view copy_later, await;  // of $N bytes, with the cache operator $C; of all groups but `pending`
  std::string_view exp2 = {};          // of an f32, cheaper than the library's
  std::string_view f8 = {};            // products of 8-bit floats: $N element type, $T that of PTX, $H its f16 from high bytes
};

constexpr Instruction kTensorCoreInstructions[] = {{DType::F16, "k16.row.col.f32.f16.f16.f32", "f"},
                                                   {DType::BF16, "k16.row.col.f32.bf16.bf16.f32", "f"},
                                                   {DType::I8, "k32.row.col.s32.s8.s8.s32", "r"},
                                                   {DType::U8, "k32.row.col.s32.u8.s8.s32", "r"}};
constexpr Instruction kMatrixCoreInstructions[] = {
    {DType::F16, "__builtin_amdgcn_mfma_f32_16x16x16f16", "_Float16 __attribute__((ext_vector_type(4)))"},
    {DType::BF16, "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", "short __attribute__((ext_vector_type(4)))"},
    {DType::I8, "rlxc_mfma_i8", "rlxc_bytes"}};

// Multiplies 8-bit floats. From sm_89 on, tensor cores do. They keep 14 bits of a sum, so only the products of one instruction
// are summed there. Earlier ones multiply f16, which represents the operands exactly.
constexpr std::string_view kF8 = R"(#ifndef rlxc_mma_$N
// Four values as f16, in pairs.
__device__ inline void rlxc_halves_$N(uint32_t* to, uint32_t from) {
#if __CUDA_ARCH__ >= 890
  asm("{.reg .b16 low, high;\n  mov.b32 {low, high}, %2;\n  cvt.rn.f16x2.$Tx2 %0, low;\n  cvt.rn.f16x2.$Tx2 %1, high;}"
      : "=r"(to[0]), "=r"(to[1]) : "r"(from));
#else
  for (int i = 0; i < 2; ++i) {
    uint32_t x;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(from), "r"(0), "r"(i ? 0x3424 : 0x1404));
    $H
  }
#endif
}
__device__ inline void rlxc_mma_$N(float* c, const uint32_t* a, const uint32_t* b) {
#if __CUDA_ARCH__ >= 890
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.$T.$T.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  for (int i = 0; i < 4; ++i) c[i] += d[i];
#else
  for (int s = 0; s < 2; ++s) {
    uint32_t x[4], y[2];
    rlxc_halves_$N(x, a[s]);
    rlxc_halves_$N(x + 2, a[s + 2]);
    rlxc_halves_$N(y, b[s]);
    rlxc_mma_f16(c, x, y);
  }
#endif
}
#endif
#ifndef rlxc_dot4_$N
__device__ inline float rlxc_dot4_$N(uint32_t a, uint32_t b, float c) {
  uint32_t x[2], y[2];
  __half p[4], q[4];
  rlxc_halves_$N(x, a);
  rlxc_halves_$N(y, b);
  memcpy(p, x, sizeof p);
  memcpy(q, y, sizeof q);
  for (int i = 0; i < 4; ++i) c = fmaf(float(p[i]), float(q[i]), c);
  return c;
}
#endif
)";
// The exponent of E4M3 has another bias. NaN has all bits set.
constexpr std::string_view kHalvesOfE4M3 =
    R"(const uint32_t half = x & 0x80008000 | (x & 0x7f007f00) >> 1, nan = ((x & 0x7f007f00) + 0x01000100 & 0x80008000) >> 15;
    asm("mul.f16x2 %0, %1, %2;" : "=r"(to[i]) : "r"(half), "r"(0x5c005c00));
    to[i] |= nan * 0x7e00;)";

constexpr DialectRow kCuda = {R"(#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

)",
                              "__nv_bfloat16",
                              "__shfl_xor_sync(0xffffffffu, $V, $M)",
                              R"(#ifndef rlxc_mma_$N
__device__ inline void rlxc_mma_$N($C* c, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8$I {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+$W"(c[0]), "+$W"(c[1]), "+$W"(c[2]), "+$W"(c[3])
               : "r"(a[0]), "r"(a[2]), "r"(a[1]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
)",
                              kTensorCoreInstructions,
                              R"(#ifndef $F
__device__ inline int32_t $F(int32_t a, int32_t b, int32_t c) {
  asm("dp4a.$A32.$B32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
  return c;
}
#endif
)",
                              R"(#ifndef RLXC_SHARED_POOL
#define RLXC_SHARED_POOL(name) extern __shared__ __align__(1024) unsigned char name[]
#endif
)",
                              R"(#ifndef rlxc_copy_later_$N
__device__ inline void rlxc_copy_later_$N(void* to, const void* from, bool reads) {
  asm volatile("cp.async.$C.shared.global [%0], [%1], $N, %2;"
               :: "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(reads ? $N : 0) : "memory");
}
#endif
)",
                              R"(#ifndef rlxc_await
template <int pending>
__device__ inline void rlxc_await() {
  asm volatile("cp.async.commit_group;\n  cp.async.wait_group %0;" :: "n"(pending) : "memory");
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the matrix unit reads what was copied
#endif
}
#endif
)",
                              R"(#ifndef rlxc_exp2
__device__ inline float rlxc_exp2(float a) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
#endif
)",
                              kF8};
// From gfx940 on, the instruction of bytes has twice the steps of k, half of which are 0 here.
constexpr DialectRow kRocm = {
    R"(#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdint.h>

)",
    "hip_bfloat16",
    "__shfl_xor($V, $M)",
    R"(#ifndef rlxc_mma_$N
#if defined __gfx908__ || defined __gfx90a__
#define rlxc_mfma_i8 __builtin_amdgcn_mfma_i32_16x16x16i8
typedef int32_t rlxc_bytes;
#else
#define rlxc_mfma_i8 __builtin_amdgcn_mfma_i32_16x16x32_i8
typedef int64_t rlxc_bytes;
#endif
__device__ inline void rlxc_mma_$N($C* c, const uint32_t* a, const uint32_t* b) {
  typedef $C sums __attribute__((ext_vector_type(4)));
  typedef $W operand;
  operand x = {}, y = {};
  sums z;
  memcpy(&x, a, $Z);
  memcpy(&y, b, $Z);
  memcpy(&z, c, sizeof z);
  z = $I(x, y, z, 0, 0, 0);
  memcpy(c, &z, sizeof z);
}
#endif
)",
    kMatrixCoreInstructions,
    R"(__device__ inline int32_t $F(int32_t a, int32_t b, int32_t c) {
  return __builtin_amdgcn_$Adot4(a, b, c, false);
}
)",
    "",
    "",
    ""};

// Divisors in parts, and their quotients (kernel/divisor.h).
constexpr std::string_view kQuotient =
    R"(__device__ inline float rlxc_divisor(float a) { return __fmul_rn(1.0f / a, 0x1.fffffep-1f); }
__device__ inline float rlxc_divisor_rest(float a) {
  const float high = rlxc_divisor(a);
  return __fmul_rn(fmaf(-a, high, 1.0f), high);
}
__device__ inline float rlxc_quotient(float a, float high, float rest) { return fmaf(a, high, __fmul_rn(a, rest)); }
)";

constexpr std::string_view kVector = R"(template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) vec {
  T at[N];
  vec() = default;
  __device__ explicit vec(T s) {
    for (int i = 0; i < N; ++i) at[i] = s;
  }
  __device__ T& operator[](int i) { return at[i]; }
  __device__ const T& operator[](int i) const { return at[i]; }
};
#define RLXC_VECTOR_OPERATOR(op)                                                     \
  template <class T, int N>                                                          \
  __device__ inline auto operator op(const vec<T, N>& a, const vec<T, N>& b) {       \
    vec<decltype(a[0] op b[0]), N> r;                                                \
    for (int i = 0; i < N; ++i) r[i] = a[i] op b[i];                                 \
    return r;                                                                        \
  }
RLXC_VECTOR_OPERATOR(+)
RLXC_VECTOR_OPERATOR(-)
RLXC_VECTOR_OPERATOR(*)
RLXC_VECTOR_OPERATOR(/)
RLXC_VECTOR_OPERATOR(&)
RLXC_VECTOR_OPERATOR(|)
RLXC_VECTOR_OPERATOR(^)
RLXC_VECTOR_OPERATOR(<)
RLXC_VECTOR_OPERATOR(<=)
RLXC_VECTOR_OPERATOR(==)
RLXC_VECTOR_OPERATOR(!=)
template <class T, int N>
__device__ inline vec<T, N> operator-(vec<T, N> a) {
  for (int i = 0; i < N; ++i) a[i] = -a[i];
  return a;
}
)";

class CudaLike : public GpuCxx {
 public:
  explicit CudaLike(const DialectRow& row) : row_(row) {}

  std::string_view prelude() const override { return row_.prelude; }
  std::string_view shared_qualifier() const override { return "alignas(16) __shared__ "; }
  // Arrays in shared memory are limited to 48 KiB.
  std::string shared_pool(uint64_t bytes, Helpers& h) const override {
    if (row_.pool.empty() || bytes <= kMostStaticShared) return {};
    if (h.needs("rlxc_pool")) h.add(std::string(row_.pool));
    return "RLXC_SHARED_POOL(rlxc_shared);";
  }
  std::string in_shared_pool(const Buffer& b, uint64_t offset, Helpers&) const override {
    const std::string t = scalar(b.type.dtype);
    return t + "* const " + b.name + " = (" + t + "*)(rlxc_shared + " + std::to_string(offset) + ");";
  }
  std::string_view barrier(bool) const override { return "__syncthreads();"; }
  std::string_view unroll() const override { return "#pragma unroll"; }

  std::string launch_index(LoopKind kind, int axis) const override {
    return std::string(kind == LoopKind::Grid ? "blockIdx." : "threadIdx.") + "xyz"[axis];
  }

  // bool & bool is int in C++: vectors of bools and narrow integers use helpers.
  bool infix(ExprOp op, Type t) const override {
    bool compares = op == ExprOp::Lt || op == ExprOp::Le || op == ExprOp::Eq || op == ExprOp::Ne;
    return CLike::infix(op, t) && (compares || t.lanes == 1 || rlxc::bits(t.dtype) >= 32);
  }

  std::string bitcast(Type to, Type from, const std::string& value, Helpers& h) const override {
    std::string name = "rlxc_" + suffix(to) + "_bits_" + suffix(from), r = type(to, h);
    if (h.needs(name))
      h.add("__device__ inline " + r + " " + name + "(" + type(from, h) + " a) {\n  " + r +
            " r;\n  memcpy(&r, &a, sizeof r);\n  return r;\n}\n");
    return name + "(" + value + ")";
  }

  // One instruction rounds two floats.
  std::string cast(Type to, Type from, const std::string& value, Helpers& h) const override {
    const bool half = to.dtype == DType::F16;
    if (row_.pool.empty() || from.dtype != DType::F32 || (!half && to.dtype != DType::BF16) || to.lanes % 2 != 0)
      return GpuCxx::cast(to, from, value, h);
    const std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from), r = type(to, h);
    if (h.needs(name))
      h.add("__device__ inline " + r + " " + name + "(" + type(from, h) + " a) {\n  " + r + " r;\n  for (int i = 0; i < " +
            std::to_string(to.lanes) +
            "; i += 2) {\n    const auto two = " + (half ? "__floats2half2_rn" : "__floats2bfloat162_rn") +
            "(a[i], a[i + 1]);\n    memcpy(r.at + i, &two, sizeof two);\n  }\n  return r;\n}\n");
    return name + "(" + value + ")";
  }

  std::string function(ExprOp op, Type t, Helpers& h) const override {
    if (t == Type(DType::F32) && (op == ExprOp::Divisor || op == ExprOp::DivisorRest || op == ExprOp::Quotient)) {
      if (h.needs("rlxc_quotient")) h.add(std::string(kQuotient));
      return "rlxc_" + std::string(kernel::name(op));
    }
    if (op != ExprOp::Exp2 || t != Type(DType::F32) || row_.exp2.empty()) return GpuCxx::function(op, t, h);
    if (h.needs("rlxc_exp2")) h.add(std::string(row_.exp2));
    return "rlxc_exp2";
  }

  std::string shuffle_xor(Type, const std::string& value, int64_t mask, Helpers&) const override {
    return expand(row_.shuffle, {{"V", value}, {"M", std::to_string(mask)}});
  }

  std::string matrix_multiply(const kernel::MatrixUnit& u, Helpers& h) const override {
    if (u.reads_tiles()) return rlxc::bits(u.operand) == 8 ? multiply_byte_tiles(u, h) : multiply_tiles(u, h);
    const std::string t(rlxc::name(u.operand)), name = "rlxc_multiply_" + t;
    if (!h.needs(name)) return name;
    const std::string a = type({u.operand, u.a.elements()}, h), b = type({u.of_b(), u.b.elements()}, h),
                      c = type({u.accumulator, u.c.elements()}, h);
    const auto words = [&](const FragmentLayout& s) { return std::to_string(s.elements() * rlxc::bits(u.operand) / 32); };
    need_multiply(u, u.a.elements(), h);
    h.add("__device__ inline " + c + " " + name + "(" + a + " a, " + b + " b, " + c + " c) {\n  uint32_t x[" + words(u.a) +
          "], y[" + words(u.b) + "];\n  memcpy(x, &a, sizeof x);\n  memcpy(y, &b, sizeof y);\n  rlxc_mma_" + t +
          "(c.at, x, y);\n  return c;\n}\n");
    return name;
  }

  std::string dot(Type a, Type b, Type, Helpers& h) const override {
    if (is_narrow(a.dtype)) {
      need_f8(a.dtype, h);
      return "rlxc_dot4_" + std::string(rlxc::name(a.dtype));
    }
    const std::string x = sign(a), y = sign(b), name = "rlxc_dot4_" + x + y;
    if (h.needs(name)) h.add(expand(row_.dot, {{"F", name}, {"A", x}, {"B", y}}));
    return name;
  }

  std::string store_later(Type t, const Buffer& to, const std::string& to_index, const Buffer& from, const std::string& index,
                          const std::string& condition, Helpers& h) const override {
    const int bytes = t.lanes * rlxc::bits(t.dtype) / 8;
    if (row_.copy_later.empty() || (bytes != 4 && bytes != 8 && bytes != 16)) return {};
    const std::string n = std::to_string(bytes), name = "rlxc_copy_later_" + n;
    if (h.needs(name)) h.add(expand(row_.copy_later, {{"N", n}, {"C", bytes == 16 ? "cg" : "ca"}}));
    return name + "(" + to.name + " + (" + to_index + "), " + from.name + " + (" + index + "), " + condition + ");";
  }
  std::string await(int pending, Helpers& h) const override {
    if (row_.await.empty()) return {};
    if (h.needs("rlxc_await")) h.add(std::string(row_.await));
    return "rlxc_await<" + std::to_string(pending) + ">();";
  }

  std::string settle(const Buffer& sums, Helpers& h) const override {
    if (row_.pool.empty()) return {};
    if (h.needs("rlxc_settle")) h.add(std::string(kSettle));
    return "rlxc_settle(" + sums.name + ");";
  }

  std::string atomic_add(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers&) const override {
    bool wide = t.dtype == DType::I64 || t.dtype == DType::U64;
    std::string at = "&" + b.name + "[" + index + "]";
    if (wide) return "atomicAdd((unsigned long long*)" + at + ", (unsigned long long)(" + value + "));";
    return "atomicAdd(" + at + ", " + value + ");";
  }

  std::string open(const Kernel& k, const Launch& launch, Helpers& h) const override {
    const int64_t lanes = kernel::workgroup_size(k);
    // While a workgroup waits at a barrier, a second one keeps the multiprocessor busy. Without a number of workgroups, compilers
    // spill registers to have more of them.
    const bool waits = kernel::shared_bytes(k) > 0;
    const char* groups = waits && lanes == 256 ? ", 2" : waits || !k.units.empty() ? ", 1" : "";
    std::string s = "extern \"C\" __global__ void " +
                    (launch.threads[0].valid() ? "__launch_bounds__(" + std::to_string(lanes) + groups + ") " : "") + k.name +
                    "(";
    for (size_t i = 0; i < k.argument_count(); ++i) {
      const Buffer& b = k.buffers[i];
      s += (i ? ", " : "") + std::string(b.access == Access::Read ? "const " : "") + scalar(b.type.dtype) + "* ";
      s += (b.may_alias ? "" : "__restrict__ ") + b.name;
    }
    for (kernel::VarId v : k.symbols) s += (s.back() == '(' ? "" : ", ") + type(k.var(v).type, h) + " " + k.var(v).name;
    return s + ") {\n";
  }

 protected:
  std::string_view function_qualifiers() const override { return "__device__ inline "; }

  std::string scalar(DType t) const override {
    switch (t) {
      case DType::F32: return "float";
      case DType::F64: return "double";
      case DType::F16: return "__half";
      case DType::BF16: return std::string(row_.bf16);
      case DType::Bool: return "bool";
      default: {
        std::string s(rlxc::name(storage_dtype(t)));
        return (s[0] == 'u' ? "uint" : "int") + s.substr(1) + "_t";
      }
    }
  }

  std::string vector(Type t, Helpers& h) const override {
    if (h.needs("vec")) h.add(std::string(kVector));
    return "vec<" + scalar(t.dtype) + ", " + std::to_string(t.lanes) + ">";
  }

  bool fuses_products() const override { return true; }
  bool splits_divisors() const override { return true; }
  std::string library(ExprOp op, DType t) const override {
    if (!is_float(t)) return "";
    if (op == ExprOp::Product) return t == DType::F64 ? "__dmul_rn" : "__fmul_rn";
    if (op == ExprOp::Fma || op == ExprOp::Rsqrt) return std::string(kernel::name(op)) + (t == DType::F64 ? "" : "f");
    switch (op) {
      case ExprOp::Min:
      case ExprOp::Max:
      case ExprOp::IsNan:
      case ExprOp::IsInf:
      case ExprOp::ReduceAdd:
      case ExprOp::ReduceMul:
      case ExprOp::ReduceMax:
      case ExprOp::ReduceMin:
      case ExprOp::Add:
      case ExprOp::Sub:
      case ExprOp::Mul:
      case ExprOp::Lt:
      case ExprOp::Le:
      case ExprOp::Eq:
      case ExprOp::Ne:
      case ExprOp::Neg: return "";
      default: break;
    }
    std::string base = op == ExprOp::Abs         ? "fabs"
                       : op == ExprOp::Mod       ? "fmod"
                       : op == ExprOp::RoundEven ? "rint"
                                                 : std::string(kernel::name(op));
    return t == DType::F64 ? base : base + "f";
  }

  std::string pointer(const Buffer&, const std::string& to) const override { return to + "*"; }

 private:
  // Adds rlxc_mma_<type>.
  void need_instruction(DType t, const std::string& sums, int elements, Helpers& h) const {
    const std::string n(rlxc::name(t));
    if (!h.needs("rlxc_mma_" + n)) return;
    const Instruction& i = *std::ranges::find(row_.instructions, t, &Instruction::operand);
    h.add(expand(row_.multiply, {{"N", n},
                                 {"C", sums},
                                 {"Z", std::to_string(elements * rlxc::bits(t) / 8)},
                                 {"I", std::string(i.name)},
                                 {"W", std::string(i.words)}}));
  }

  void need_multiply(const kernel::MatrixUnit& u, int elements, Helpers& h) const {
    is_narrow(u.operand) ? need_f8(u.operand, h) : need_instruction(u.operand, scalar(u.accumulator), elements, h);
  }

  // Adds rlxc_mma_<type> and rlxc_dot4_<type>.
  void need_f8(DType t, Helpers& h) const {
    const std::string n(rlxc::name(t));
    need_instruction(DType::F16, "float", 8, h);
    if (!h.needs("rlxc_mma_" + n)) return;
    const bool e4m3 = t == DType::F8E4M3FN;
    h.add(expand(row_.f8, {{"N", n}, {"T", e4m3 ? "e4m3" : "e5m2"}, {"H", e4m3 ? std::string(kHalvesOfE4M3) : "to[i] = x;"}}));
  }

  // On sm_90a, the matrix unit of a warpgroup reads shared memory. Elsewhere each warp computes 16 of 64 rows.
  std::string multiply_tiles(const kernel::MatrixUnit& u, Helpers& h) const {
    const bool lanes = u.a_from == kernel::Source::Lanes, across = u.b_from == kernel::Source::AcrossK;
    const std::string t(rlxc::name(u.operand)),
        shape = std::to_string(u.m) + ", " + std::to_string(u.n) + ", " + std::to_string(u.k), element = scalar(u.operand),
        sums = type({u.accumulator, u.c.elements()}, h),
        name = "rlxc_multiply_tiles_" + t + "_" + std::to_string(u.m) + "x" + std::to_string(u.n) + "x" + std::to_string(u.k) +
               (lanes ? "_lanes" : "") + (across ? "_across" : "");
    if (!h.needs(name)) return name;
    if (h.needs("rlxc_mma_tiles")) h.add(std::string(kTiles));
    const std::string arguments = "<" + element + ", " + shape + (across ? ", true>" : ", false>"),
                      left = lanes ? "const uint32_t*" : "const void*";
    const int words = lanes ? u.a.elements() * rlxc::bits(u.operand) / 32 : 0, registers = u.n / 2;
    std::string list, outputs;
    for (int i = 0; i < registers; ++i) {
      list += (i ? ", %" : "%") + std::to_string(i);
      outputs += (i ? ", \"+f\"(c[h + " : "\"+f\"(c[h + ") + std::to_string(i) + "])";
    }
    const auto argument = [&](int i) { return "%" + std::to_string(registers + i); };
    const std::string x = lanes ? "{" + argument(0) + ", " + argument(1) + ", " + argument(2) + ", " + argument(3) + "}"
                                : argument(0),
                      y = argument(lanes ? 4 : 1);
    h.add(expand(R"(#ifndef rlxc_mma_tiles
template <>
__device__ inline void rlxc_mma_tiles$A(float* c, $L a, const void* b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const uint64_t $Xy = rlxc_tile(b, $D);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  #pragma unroll
  for (int s = 0; s < $K / 16; ++s)
    #pragma unroll
    for (int h = 0; h < $M / 64 * $R; h += $R)
      asm volatile("wgmma.mma_async.sync.aligned.m64n$Nk16.f32.$T.$T {$C}, $P, $Q, 1, 1, 1, $F;"
                   : $O : $I, "l"(y + $S));
  asm volatile("wgmma.commit_group.sync.aligned;$W" ::: "memory");
#else
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  #pragma unroll
  for (int s = 0; s < $K / 16; ++s) {
    uint32_t x[$M / 64][4];
    #pragma unroll
    for (int h = 0; h < $M / 64; ++h) $G
    #pragma unroll
    for (int j = 0; j < $N; j += 16) {
      uint32_t y[4];
      $H
      #pragma unroll
      for (int h = 0; h < $M / 64; ++h)
        for (int v = 0; v < 2; ++v) {
          float* sum = c + h * $R + (j / 8 + v) * 4;
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.$T.$T.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                       : "r"(x[h][0]), "r"(x[h][1]), "r"(x[h][2]), "r"(x[h][3]), "r"(y[2 * v]), "r"(y[2 * v + 1]));
        }
    }
  }
#endif
}
#endif
)",
                 {{"A", arguments},
                  {"L", left},
                  {"M", std::to_string(u.m)},
                  {"N", std::to_string(u.n)},
                  {"K", std::to_string(u.k)},
                  {"R", std::to_string(registers)},
                  {"T", t},
                  {"C", list},
                  {"P", x},
                  {"Q", y},
                  {"F", std::string(lanes ? "" : "0, ") + (across ? "1" : "0")},
                  {"W", u.later ? "" : "\\n  wgmma.wait_group.sync.aligned 0;"},
                  {"O", outputs},
                  {"X", lanes ? "" : "x = rlxc_tile(a, 1), "},
                  {"D", across ? std::to_string(u.k * 8) : "1"},
                  {"I", lanes ? R"("r"(a[4 * s]), "r"(a[4 * s + 1]), "r"(a[4 * s + 2]), "r"(a[4 * s + 3]))"
                              : expand(R"("l"(x + s / 4 * $M * 8 + h / $R * 512 + s % 4 * 2))",
                                       {{"M", std::to_string(u.m)}, {"R", std::to_string(registers)}})},
                  {"S", across ? "s * 128" : "s / 4 * " + std::to_string(u.n * 8) + " + s % 4 * 2"},
                  {"G", lanes ? "for (int i = 0; i < 4; ++i) x[h][i] = a[4 * s + i];"
                              : "rlxc_fragment(x[h], a, s / 4 * " + std::to_string(u.m) +
                                    " + h * 64 + warp * 16 + lane % 16, 2 * (s % 4) + lane / 16);"},
                  {"H", across ? "rlxc_turned_fragment(y, b, j / 64 * " + std::to_string(u.k) +
                                     " + s * 16 + lane % 16, j % 64 / 8 + lane / 16);"
                               : "rlxc_fragment(y, b, s / 4 * " + std::to_string(u.n) +
                                     " + j + lane / 16 * 8 + lane % 8, 2 * (s % 4) + lane / 8 % 2);"}}));
    const std::string operand = lanes ? type({u.operand, u.a.elements()}, h) + " a" : "const " + element + "* a";
    h.add("__device__ inline " + sums + " " + name + "(" + operand + ", const " + element + "* b, " + sums + " c) {\n" +
          (lanes ? "  uint32_t x[" + std::to_string(words) + "];\n  memcpy(x, &a, sizeof x);\n" : "") + "  rlxc_mma_tiles" +
          arguments + "(c.at, " + (lanes ? "(const uint32_t*)x" : "(const void*)a") + ", b);\n  return c;\n}\n");
    return name;
  }

  std::string multiply_byte_tiles(const kernel::MatrixUnit& u, Helpers& h) const {
    const std::string t(rlxc::name(u.operand)), n = std::to_string(u.n),
                                                name = "rlxc_multiply_tiles_" + t + "_" + std::to_string(u.m),
                                                sums = type({u.accumulator, u.c.elements()}, h), sum = scalar(u.accumulator);
    if (!h.needs(name)) return name;
    need_multiply(u, 16, h);
    if (h.needs("rlxc_mma_tiles")) h.add(std::string(kTiles));
    const bool floats = is_float(u.accumulator);
    if (floats && h.needs("rlxc_" + t)) h.add("struct rlxc_" + t + ";\n");
    const std::string kind = floats ? "rlxc_" + t : scalar(u.operand), half = std::to_string(u.n / 2),
                      arguments = "<" + kind + ", " + std::to_string(u.m) + ", " + n + ", " + std::to_string(u.k) + ", false>";
    const std::string float8 = u.operand == DType::F8E4M3FN ? "e4m3" : "e5m2", byte = u.operand == DType::U8 ? "u8" : "s8";
    const std::string of_ptx = floats ? "f32." + float8 + "." + float8 : "s32." + byte + ".s8";
    std::string list, outputs;
    for (int i = 0; i < u.n / 2; ++i) {
      list += (i ? ", %" : "%") + std::to_string(i);
      outputs += std::string(i ? ", " : "") + (floats ? "\"+f\"(d[" : "\"+r\"(d[") + std::to_string(i) + "])";
    }
    h.add(
        expand(kByteTiles,
               {{"A", arguments},
                {"C", sum},
                {"M", std::to_string(u.m)},
                {"N", n},
                {"K", std::to_string(u.k)},
                {"R", half},
                {"T", of_ptx},
                {"L", list},
                {"O", outputs},
                {"I", t},
                {"X", half},
                {"Y", std::to_string(u.n / 2 + 1)},
                {"E", floats ? ", 1, 1" : ""},
                {"D", floats ? "float d[" + half + "] = {};" : "int32_t* const d = c + h * " + half + ";"},
                {"W", floats ? "asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n    #pragma unroll\n    for "
                               "(int i = 0; i < " +
                                   half + "; ++i) c[h * " + half + " + i] += d[i];"
                             : ""}}));
    h.add("__device__ inline " + sums + " " + name + "(const int32_t* a, const int32_t* b, " + sums + " c) {\n  rlxc_mma_tiles" +
          arguments + "(c.at, (const void*)a, b);\n  return c;\n}\n");
    return name;
  }

  static std::string sign(Type t) { return is_signed(t.dtype) ? "s" : "u"; }

  const DialectRow& row_;
};

}  // namespace

static const CLike& cuda() {
  static const CudaLike target(kCuda);
  return target;
}

static const CLike& rocm() {
  static const CudaLike target(kRocm);
  return target;
}

}  // namespace rlxc::target

namespace rlxc {
namespace {

constexpr std::string_view kCudaMakefile =
    R"(# make builds the kernels for the kinds of GPU in ARCHS (make ARCHS=90a for one of them) and, as PTX, for later ones than the last,
# and the runner `run`.
NVCC ?= nvcc
$MPI_FLAGSARCHS ?= 80 90a
LAST = $(patsubst %a,%,$(lastword $(ARCHS)))
KERNELS = $FILES

all: $(KERNELS) run

%.fatbin: %.cu
	$(NVCC) -std=c++17 -O3 $(foreach a,$(ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	  -gencode arch=compute_$(LAST),code=compute_$(LAST) -fatbin -o $@ $<

run: main.cpp device.hpp program.hpp$RANKS_HEADER
	$(NVCC) -std=c++17 -O2$CUDA_RANKS -o $@ main.cpp -lcuda$CUDA_LIBRARIES

clean:
	rm -f *.fatbin run

.PHONY: all clean
)";

constexpr std::string_view kRocmMakefile = R"(# make ARCH=gfx942 builds the kernels for one kind of GPU, and the runner `run`.
HIPCC ?= hipcc
$MPI_FLAGSARCH ?= gfx90a
KERNELS = $FILES

all: $(KERNELS) run

%.hsaco: %.hip.cpp
	$(HIPCC) -std=c++17 -O3 --genco --offload-arch=$(ARCH) -o $@ $<

run: main.cpp device.hpp program.hpp$RANKS_HEADER
	$(HIPCC) -std=c++17 -O2 -DRLXC_HIP --offload-arch=$(ARCH)$CUDA_RANKS -o $@ main.cpp$ROCM_LIBRARIES

clean:
	rm -f *.hsaco run

.PHONY: all clean
)";

constexpr auto kCudaHost = cxx_host("device_cuda.hpp");

constexpr GpuPackaging cuda_packaging(std::string_view object_extension, std::string_view makefile) {
  return {.host = kCudaHost,
          .link = "link_nccl.hpp",
          .object_extension = object_extension,
          .makefile = makefile,
          .command = "./run",
          .how = kMakeRun,
          .example = cxx_example};
}

}  // namespace

// sm_80 has 163 KiB of shared memory for a workgroup, sm_86 99 KiB.
static constexpr kernel::Mapping cuda_mapping() {
  kernel::Mapping m = grid_mapping(256, 1024, 32, 48 << 10, 16, cuda_units::kTensorCores, cuda_units::kDotsOfWords);
  m.pipeline_bytes = 96 << 10;
  m.tile_units = cuda_units::kTensorCoresOfTiles;
  m.warp_tile = 64;
  return m;
}

static constexpr TargetInfo kCuda = {.name = "cuda",
                                     .emits = "CUDA C++",
                                     .extension = "cu",
                                     .language = target::cuda,
                                     .supports = has_kernels,
                                     .dtypes = kKernelTypesAndF64,
                                     .mapping = cuda_mapping(),
                                     .region_steps = 128,
                                     .region_inputs = 64,
                                     .machine = {2000, 800, 20000, 128, 10e3},
                                     .alignment = 256,
                                     .max_arguments = 512,
                                     .collectives = true,
                                     .claims = 4,
                                     .host_run = {.how = HostRun::How::Emulated, .compiler = "g++"}};
static constexpr GpuPackaging kCudaPackaging = cuda_packaging(".fatbin", kCudaMakefile);

const Backend& cuda_backend() {
  static const GpuBackend backend(kCuda, kCudaPackaging);
  return backend;
}

static constexpr kernel::Mapping rocm_mapping() {
  kernel::Mapping m = grid_mapping(256, 1024, 64, 64 << 10, 16, cuda_units::kMatrixCores, kByteDotsOfOneSign);
  m.warp_tile = 64;
  return m;
}

static constexpr TargetInfo kRocm = {.name = "rocm",
                                     .emits = "HIP C++",
                                     .extension = "hip.cpp",
                                     .language = target::rocm,
                                     .supports = has_kernels,
                                     .dtypes = kKernelTypesAndF64,
                                     .mapping = rocm_mapping(),
                                     .region_steps = 128,
                                     .region_inputs = 64,
                                     .machine = {2000, 800, 20000, 128, 15e3},
                                     .alignment = 256,
                                     .max_arguments = 512,
                                     .collectives = true,
                                     .claims = 5,
                                     .host_run = {.how = HostRun::How::Emulated, .compiler = "g++"}};
static constexpr GpuPackaging kRocmPackaging = cuda_packaging(".hsaco", kRocmMakefile);

const Backend& rocm_backend() {
  static const GpuBackend backend(kRocm, kRocmPackaging);
  return backend;
}

}  // namespace rlxc
