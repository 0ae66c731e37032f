#include "target/cuda.h"

#include "target/gpu_cxx.h"

namespace rlxc::target {
namespace {

using kernel::Access;
using kernel::Buffer;
using kernel::Launch;
using kernel::LoopKind;
using kernel::Space;

struct Row {
  std::string_view prelude;
  std::string_view bf16;
  std::string_view shuffle;  // $V value, $M mask
};

constexpr Row kCuda = {R"(#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>
#include <stdint.h>

)",
                       "__nv_bfloat16", "__shfl_xor_sync(0xffffffffu, $V, $M)"};
constexpr Row kRocm = {R"(#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <stdint.h>

)",
                       "hip_bfloat16", "__shfl_xor($V, $M)"};

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
  explicit CudaLike(const Row& row) : row_(row) {}

  std::string_view prelude() const override { return row_.prelude; }
  std::string_view shared_qualifier() const override { return "alignas(16) __shared__ "; }
  std::string_view barrier() const override { return "__syncthreads();"; }
  std::string_view unroll() const override { return "#pragma unroll"; }

  std::string launch_index(LoopKind kind, int axis) const override {
    return std::string(kind == LoopKind::Grid ? "blockIdx." : "threadIdx.") + "xyz"[axis];
  }

  // bool & bool is int in C++: vectors of bools and narrow integers go through helpers.
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

  std::string shuffle_xor(Type, const std::string& value, int64_t mask, Helpers&) const override {
    return expand(row_.shuffle, {{"V", value}, {"M", std::to_string(mask)}});
  }

  std::string atomic_add(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers&) const override {
    bool wide = t.dtype == DType::I64 || t.dtype == DType::U64;
    std::string at = "&" + b.name + "[" + index + "]";
    if (wide) return "atomicAdd((unsigned long long*)" + at + ", (unsigned long long)(" + value + "));";
    return "atomicAdd(" + at + ", " + value + ");";
  }

  std::string open(const Kernel& k, const Launch& launch, Helpers& h) const override {
    int64_t lanes = kernel::lane_count(k);
    std::string s = "extern \"C\" __global__ void " +
                    (launch.lanes[0].valid() ? "__launch_bounds__(" + std::to_string(lanes) + ") " : "") + k.name + "(";
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
        std::string s(rlxc::name(t));
        return (s[0] == 'u' ? "uint" : "int") + s.substr(1) + "_t";
      }
    }
  }

  std::string vector(Type t, Helpers& h) const override {
    if (h.needs("vec")) h.add(std::string(kVector));
    return "vec<" + scalar(t.dtype) + ", " + std::to_string(t.lanes) + ">";
  }

  std::string library(ExprOp op, DType t) const override {
    if (!is_float(t)) return "";
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
  const Row& row_;
};

}  // namespace

const CLike& cuda() {
  static const CudaLike target(kCuda);
  return target;
}

const CLike& rocm() {
  static const CudaLike target(kRocm);
  return target;
}

}  // namespace rlxc::target
