// Metal Shading Language 3.1 (bfloat, atomic_float). Compile with -fno-fast-math, to preserve NaN and infinities.
#include "backend/gpu/gpu_backend.h"
#include "backend/gpu/gpu_cxx.h"

namespace rlxc::target {
namespace {

using kernel::Access;
using kernel::Buffer;
using kernel::Launch;
using kernel::LoopKind;
using kernel::Space;

constexpr std::string_view kMultiply = R"(inline float2 $F($T2 a, $T2 b, float2 c) {
  simdgroup_matrix<$T, 8, 8> x, y;
  simdgroup_matrix<float, 8, 8> z;
  reinterpret_cast<thread $T2&>(x.thread_elements()) = a;
  reinterpret_cast<thread $T2&>(y.thread_elements()) = b;
  reinterpret_cast<thread float2&>(z.thread_elements()) = c;
  simdgroup_multiply_accumulate(z, x, y, z);
  return reinterpret_cast<thread float2&>(z.thread_elements());
}
)";

class Metal : public GpuCxx {
 public:
  std::string_view prelude() const override { return "#include <metal_stdlib>\n\nusing namespace metal;\n\n"; }
  std::string_view shared_qualifier() const override { return "alignas(16) threadgroup "; }
  std::string_view barrier(bool global) const override {
    return global ? "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);"
                  : "threadgroup_barrier(mem_flags::mem_threadgroup);";
  }
  std::string_view unroll() const override { return "#pragma unroll"; }

  std::string launch_index(LoopKind kind, int axis) const override {
    return std::string(kind == LoopKind::Grid ? "rlxc_group." : "rlxc_thread.") + "xyz"[axis];
  }

  std::string bitcast(Type to, Type, const std::string& value, Helpers& h) const override {
    return "as_type<" + type(to, h) + ">(" + value + ")";
  }

  std::string select(Type t, Type condition, const std::string& c, const std::string& a, const std::string& b,
                     Helpers& h) const override {
    return condition.lanes == 1 ? CLike::select(t, condition, c, a, b, h) : "select(" + b + ", " + a + ", " + c + ")";
  }

  std::string shuffle_xor(Type, const std::string& value, int64_t mask, Helpers&) const override {
    return "simd_shuffle_xor(" + value + ", ushort(" + std::to_string(mask) + "))";
  }

  // The language does not say whether its extremes of a simdgroup keep NaN.
  std::string warp_reduce(Type t, const kernel::WarpReduction& r, const std::string& value, Helpers& h) const override {
    const std::string what = r.combine == ExprOp::Add ? "sum" : r.combine == ExprOp::Max ? "max" : "min";
    if (r.combine == ExprOp::Add || !is_float(t.dtype)) return "simd_" + what + "(" + value + ")";
    const std::string name = "rlxc_simd_" + what, v = type(t, h);
    if (h.needs(name))
      h.add("inline " + v + " " + name + "(" + v + " a) {\n  return simd_any(isnan(a)) ? NAN : simd_" + what + "(a);\n}\n");
    return name + "(" + value + ")";
  }

  std::string matrix_multiply(const kernel::MatrixUnit& u, Helpers& h) const override {
    const std::string name = "rlxc_multiply_" + std::string(rlxc::name(u.operand));
    if (h.needs(name)) h.add(expand(kMultiply, {{"F", name}, {"T", scalar(u.operand)}}));
    return name;
  }

  std::string atomic_add(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers&) const override {
    std::string type = "atomic_" + std::string(is_float(t.dtype)                          ? "float"
                                               : dtype_class(t.dtype) == DTypeClass::UInt ? "uint"
                                                                                          : "int");
    return "atomic_fetch_add_explicit((" + pointer(b, type) + ")(" + b.name + " + " + index + "), " + value +
           ", memory_order_relaxed);";
  }

  std::string open(const Kernel& k, const Launch& launch, Helpers& h) const override {
    std::string s = "kernel void " + k.name + "(";
    int slot = 0;
    for (; slot < static_cast<int>(k.argument_count()); ++slot) {
      const Buffer& b = k.buffers[slot];
      s += (slot ? ", " : "") + pointer(b, (b.access == Access::Read ? "const " : "") + scalar(b.type.dtype)) + " " + b.name +
           attribute(slot);
    }
    for (kernel::VarId v : k.symbols) {
      s += (slot ? ", " : "") + ("constant " + type(k.var(v).type, h)) + "& " + k.var(v).name + attribute(slot);
      ++slot;
    }
    bool grid = launch.grid[0].valid() || launch.grid[1].valid(), lanes = launch.threads[0].valid() || launch.threads[1].valid();
    if (grid) s += (slot++ ? ", " : "") + std::string("uint3 rlxc_group [[threadgroup_position_in_grid]]");
    if (lanes) s += (slot++ ? ", " : "") + std::string("uint3 rlxc_thread [[thread_position_in_threadgroup]]");
    return s + ") {\n";
  }

 protected:
  std::string_view function_qualifiers() const override { return "inline "; }
  bool vector_functions() const override { return true; }

  std::string scalar(DType t) const override {
    switch (t) {
      case DType::F32: return "float";
      case DType::F64: return "double";
      case DType::F16: return "half";
      case DType::BF16: return "bfloat";
      case DType::Bool: return "bool";
      case DType::I8: return "char";
      case DType::I16: return "short";
      case DType::I32: return "int";
      case DType::I64: return "long";
      case DType::U8: return "uchar";
      case DType::U16: return "ushort";
      case DType::U32: return "uint";
      default: return "ulong";
    }
  }

  std::string vector(Type t, Helpers&) const override { return scalar(t.dtype) + std::to_string(t.lanes); }

  std::string library(ExprOp op, DType t) const override {
    if (!is_float(t)) return "";
    switch (op) {
      case ExprOp::Exp:
      case ExprOp::Exp2:
      case ExprOp::Log:
      case ExprOp::Sqrt:
      case ExprOp::Rsqrt:
      case ExprOp::Sin:
      case ExprOp::Cos:
      case ExprOp::Tan:
      case ExprOp::Asin:
      case ExprOp::Acos:
      case ExprOp::Atan:
      case ExprOp::Sinh:
      case ExprOp::Cosh:
      case ExprOp::Tanh:
      case ExprOp::Asinh:
      case ExprOp::Acosh:
      case ExprOp::Atanh:
      case ExprOp::Floor:
      case ExprOp::Ceil:
      case ExprOp::Trunc:
      case ExprOp::Pow:
      case ExprOp::Atan2:
      case ExprOp::Fma:
      case ExprOp::IsNan:
      case ExprOp::IsInf: return std::string(kernel::name(op));
      case ExprOp::Abs: return "fabs";
      case ExprOp::Mod: return "fmod";
      case ExprOp::RoundEven: return "rint";
      default: return "";
    }
  }

  std::string pointer(const Buffer& b, const std::string& to) const override {
    return (b.space == Space::Shared ? "threadgroup " : b.space == Space::Register ? "thread " : "device ") + to + "*";
  }

 private:
  static std::string attribute(int slot) { return " [[buffer(" + std::to_string(slot) + ")]]"; }
};

}  // namespace

static const CLike& metal() {
  static const Metal target;
  return target;
}

}  // namespace rlxc::target

namespace rlxc {
namespace {

using kernel::columns;
using kernel::FragmentLayout;
using kernel::MatrixUnit;
using kernel::rows;

// simdgroup_matrix: each thread has two elements of a row per operand. MLX (steel/gemm/mma.h) relies on this layout, too.
constexpr MatrixUnit simdgroup(DType t) {
  constexpr FragmentLayout layout = {{columns(2), rows(1), rows(2), columns(4), rows(4)}, {columns(1)}, 1};
  return {8, 8, 8, 32, t, DType::F32, layout, layout, layout};
}
constexpr MatrixUnit kSimdgroups[] = {simdgroup(DType::F16), simdgroup(DType::BF16), simdgroup(DType::F32)};

constexpr kernel::Mapping metal_mapping() {
  kernel::Mapping m = grid_mapping(256, 1024, 32, 32 << 10, 4, kSimdgroups, kByteDots);
  m.warp_reduces = true;
  m.shared_bytes_of_several = 16 << 10;
  return m;
}

constexpr std::string_view kMetalMakefile = R"(# make builds the kernels and the runner `run` (needs Xcode's command line tools).
KERNELS = $FILES

all: $(KERNELS) run

%.metallib: %.metal
	xcrun -sdk macosx metal -std=metal3.1 -fno-fast-math -O2 -o $@ $<

run: main.cpp device.hpp program.hpp
	clang++ -std=c++17 -O2 -fobjc-arc -x objective-c++ -o $@ main.cpp -framework Foundation -framework Metal

clean:
	rm -f *.metallib run

.PHONY: all clean
)";

constexpr auto kMetalHost = cxx_host("device_metal.hpp");

}  // namespace

static constexpr TargetInfo kMetal = {.name = "metal",
                                      .emits = "Metal Shading Language",
                                      .extension = "metal",
                                      .language = target::metal,
                                      .supports = has_kernels,
                                      .dtypes = kKernelTypes,
                                      .mapping = metal_mapping(),
                                      .region_steps = 128,
                                      .region_inputs = 25,
                                      .machine = {500, 200, 4000, 64, 100e3},
                                      .alignment = 256,
                                      .max_arguments = 31,
                                      .claims = 1,
                                      .host_run = {.how = HostRun::How::Emulated, .compiler = "clang++", .msl_arguments = true}};
static constexpr GpuPackaging kMetalPackaging = {.host = kMetalHost,
                                                 .object_extension = ".metallib",
                                                 .makefile = kMetalMakefile,
                                                 .command = "./run",
                                                 .how = kMakeRun,
                                                 .example = cxx_example};

const Backend& metal_backend() {
  static const GpuBackend backend(kMetal, kMetalPackaging);
  return backend;
}

}  // namespace rlxc
