#include "backend/c/cpu.h"

#include "backend/c/cpu_dot.h"
#include "backend/c/cpu_math.h"
#include "backend/c/cpu_matrix.h"
#include "backend/host_files.h"

namespace rlxc::target {
namespace {

using kernel::Buffer;
using kernel::Launch;

constexpr std::string_view kPrelude = R"(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpsabi"  // wide vectors are passed between static functions only
#pragma GCC diagnostic ignored "-Wunused-function"  // of halves of vectors, on processors with whole ones
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-predictive-commoning")  // registers hold sums: what it keeps for the next iteration goes to the stack
#if defined(__AVX512F__)
#pragma GCC target("tune=generic")  // tunings for Zen may read memory in every multiply-add of a tile
#elif defined(__FMA__)
#pragma GCC target("tune=skylake-avx512")  // others copy vectors of two registers by words, whose loads wait for the stores
#endif
#endif

void rlxc_parallel_for(int64_t count, int64_t grain, void (*body)(const void* args, int64_t begin, int64_t end), const void* args);

)";

std::string scalar_type(DType t) {
  switch (t) {
    case DType::F32: return "float";
    case DType::F64: return "double";
    case DType::F16:
    case DType::BF16: return "uint16_t";
    case DType::Bool: return "bool";
    default: {
      std::string s(rlxc::name(t));
      return (s[0] == 'u' ? "uint" : "int") + s.substr(1) + "_t";
    }
  }
}

class Cpu : public CLike {
 public:
  std::string_view prelude() const override { return kPrelude; }
  bool threads() const override { return true; }
  std::string element(DType t, Helpers&) const override { return t == DType::Bool ? "uint8_t" : scalar_type(t); }

  std::string type(Type t, Helpers& h) const override {
    if (t.lanes == 1) return scalar_type(t.dtype);
    if (t.dtype == DType::Bool) t.dtype = DType::I32;
    if (t.dtype == DType::F16 || t.dtype == DType::BF16) t.dtype = DType::U16;
    std::string name = suffix(t);
    if (h.needs(name)) {
      int size = rlxc::bits(t.dtype) / 8;
      h.add(
          expand("typedef $T $V __attribute__((vector_size($S)));\n"
                 "typedef $T $V_u __attribute__((vector_size($S), aligned($A), may_alias));\n",
                 {{"T", scalar_type(t.dtype)}, {"V", name}, {"S", std::to_string(size * t.lanes)}, {"A", std::to_string(size)}}));
    }
    return name;
  }

  bool infix(ExprOp op, Type t) const override {
    if (op == ExprOp::Fma) return true;
    if (t.lanes > 1 && (op == ExprOp::Lt || op == ExprOp::Le || op == ExprOp::Eq || op == ExprOp::Ne))
      return rlxc::bits(t.dtype) == 32 && t.lanes <= 4;  // see cpu_function() for longer vectors
    return CLike::infix(op, t);
  }

  bool scalar_operand(ExprOp, Type t) const override { return rlxc::bits(t.dtype) >= 32; }

  std::string function(ExprOp op, Type t, Helpers& h) const override { return cpu_function(*this, op, t, h); }

  std::string move_lanes(ExprOp op, Type t, int group, Helpers& h) const override {
    return cpu_move_lanes(*this, op, t, group, h);
  }

  std::string cast(Type to, Type from, const std::string& value, Helpers& h) const override {
    return cpu_cast(*this, to, from, h) + "(" + value + ")";
  }

  std::string cast_through(Type to, Type middle, Type from, const std::string& value, Helpers& h) const override {
    return cpu_cast_through(*this, to, middle, from, value, h);
  }

  bool fuses_products() const override { return true; }
  bool splits_divisors() const override { return true; }
  std::string rounding_cast(Type to, Type from, Helpers& h) const override { return cpu_rounding_cast(*this, to, from, h); }

  std::string matrix_multiply(const kernel::MatrixUnit& u, Helpers& h) const override { return cpu_matrix_multiply(*this, u, h); }
  std::string dot(Type a, Type b, Type c, Helpers& h) const override { return cpu_dot(*this, a, b, c, false, h); }
  std::string dot_instructions(int vector_bytes, Helpers& h) const override { return cpu_dot_instructions(vector_bytes, h); }
  std::string dot_of_small(Type a, Type b, Type c, Helpers& h) const override { return cpu_dot(*this, a, b, c, true, h); }

  std::string bitcast(Type to, Type from, const std::string& value, Helpers& h) const override {
    if (to.lanes > 1) return "((" + type(to, h) + ")(" + value + "))";
    std::string name = "rlxc_" + suffix(to) + "_bits_" + suffix(from);
    if (h.needs(name))
      h.add(expand("static inline $R $F($T a) {\n  $R r;\n  memcpy(&r, &a, sizeof r);\n  return r;\n}\n",
                   {{"R", type(to, h)}, {"F", name}, {"T", type(from, h)}}));
    return name + "(" + value + ")";
  }

  std::string select(Type t, Type condition, const std::string& c, const std::string& a, const std::string& b,
                     Helpers& h) const override {
    // Loads have a less aligned type, which `?:` treats as a different type.
    if (condition.lanes == 1 && t.lanes > 1)
      return CLike::select(t, condition, c, "(" + type(t, h) + ")(" + a + ")", "(" + type(t, h) + ")(" + b + ")", h);
    if (condition.lanes == 1) return CLike::select(t, condition, c, a, b, h);
    std::string name = "rlxc_select_" + suffix(t), v = type(t, h), mask = type(condition, h);
    if (h.needs(name)) {
      DType bits = rlxc::bits(t.dtype) == 64 ? DType::I64 : rlxc::bits(t.dtype) == 16 ? DType::I16 : DType::I8;
      if (t.dtype == DType::Bool || rlxc::bits(t.dtype) == 32) bits = DType::I32;
      std::string same = type({bits, t.lanes}, h),
                  widened = bits == DType::I32 ? "c" : "__builtin_convertvector(c, " + same + ")";
      h.add(expand("static inline $V $F($M c, $V a, $V b) {\n  const $I m = $W;\n  return ($V)((($I)a & m) | (($I)b & ~m));\n}\n",
                   {{"V", v}, {"F", name}, {"M", mask}, {"I", same}, {"W", widened}}));
    }
    return name + "(" + c + ", " + a + ", " + b + ")";
  }

  std::string larger(Type t, Helpers& h) const override { return cpu_larger(*this, t, h); }

  std::string broadcast(Type t, const std::string& scalar, Helpers& h) const override {
    std::string name = "rlxc_splat_" + suffix(t), v = type(t, h);
    std::string value = t.dtype == DType::Bool ? "-(int32_t)s + (" + v + "){0}" : "s - (" + v + "){0}";
    if (h.needs(name))
      h.add(expand("static inline $V $F($T s) { return $E; }\n",
                   {{"V", v}, {"F", name}, {"T", scalar_type(t.dtype)}, {"E", value}}));
    return name + "(" + scalar + ")";
  }

  std::string ramp(Type t, const std::string& base, int64_t stride, Helpers& h) const override {
    std::string steps;
    for (int i = 0; i < t.lanes; ++i) steps += (i ? ", " : "") + std::to_string(i * stride);
    return "(" + broadcast(t, base, h) + " + (" + type(t, h) + "){" + steps + "})";
  }

  // GCC may read memory in each multiply-add instead, which takes as long as the multiply-add.
  std::string hold(Type t, const std::string& value, Helpers& h) const override {
    constexpr int kMostBytes = 64;  // of vectors of which a processor has 32
    if (t.lanes * rlxc::bits(t.dtype) != 8 * kMostBytes) return value;
    const std::string name = "rlxc_held_" + suffix(t);
    if (h.needs(name))
      h.add(
          expand("static inline $V $F($V a) {\n#if defined(__AVX512F__) && !defined(__clang__)\n  __asm__(\"\" : \"+v\"(a));\n"
                 "#endif\n  return a;\n}\n",
                 {{"V", type(t, h)}, {"F", name}}));
    return name + "(" + value + ")";
  }

  std::string lane(const std::string& vector, int n) const override { return vector + "[" + std::to_string(n) + "]"; }

  std::string load(Type t, const Buffer& b, const std::string& index, bool gather, Helpers& h) const override {
    if (gather) return gather_function(t, h) + "(" + b.name + ", " + index + ")";
    if (t.lanes == 1) return t.dtype == DType::Bool ? "(" + b.name + "[" + index + "] != 0)" : b.name + "[" + index + "]";
    if (t.dtype == DType::Bool) {
      std::string bytes = type({DType::U8, t.lanes}, h);
      const std::string widened = cpu_cast(*this, {DType::I32, t.lanes}, {DType::I8, t.lanes}, h);
      return widened + "(*(const " + bytes + "_u*)(" + address(b, index) + ") != 0)";
    }
    return "*(const " + type(t, h) + "_u*)(" + address(b, index) + ")";
  }

  std::string strided_load(Type t, const Buffer& b, const std::string& index, int64_t stride, Helpers& h) const override {
    const std::string name = "rlxc_strided_" + suffix(t);
    if (h.needs(name)) {
      std::string all;
      for (int i = 0; i < t.lanes; ++i)
        all += (i ? ", " : "") + std::string(t.dtype == DType::Bool ? "-" : "") + "p[" + std::to_string(i) + " * step]";
      h.add(expand("static inline $V $F(const $E* p, int64_t step) {\n  return ($V){$A};\n}\n",
                   {{"V", type(t, h)}, {"F", name}, {"E", element(t.dtype, h)}, {"A", all}}));
    }
    return name + "(" + address(b, index) + ", " + std::to_string(stride) + ")";
  }

  std::string store(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const override {
    if (t.lanes == 1) return b.name + "[" + index + "] = " + value + ";";
    if (t.dtype == DType::Bool) {
      std::string bytes = type({DType::U8, t.lanes}, h);
      const std::string narrowed = cpu_cast(*this, {DType::U8, t.lanes}, {DType::I32, t.lanes}, h);
      return "*(" + bytes + "_u*)(" + address(b, index) + ") = " + narrowed + "(-(" + value + "));";
    }
    return "*(" + type(t, h) + "_u*)(" + address(b, index) + ") = " + value + ";";
  }

  std::string stream(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const override {
    const int bytes = t.lanes * rlxc::bits(t.dtype) / 8;
    if ((bytes != 32 && bytes != 64) || t.dtype == DType::Bool) return store(t, b, index, value, h);
    const std::string name = "rlxc_stream_" + suffix(t), v = type(t, h);
    if (h.needs(name))
      h.add(expand(R"(static inline void $F($T* p, $V v) {
#if defined($I)
  if (((uintptr_t)p & $M) == 0) {
    __asm__("vmovntps %1, %0" : "=m"(*($V*)p) : "v"(v));
    return;
  }
#endif
  *($V_u*)p = v;
}
)",
                   {{"V", v},
                    {"F", name},
                    {"T", scalar_type(t.dtype)},
                    {"I", bytes == 64 ? "__AVX512F__" : "__AVX__"},
                    {"M", std::to_string(bytes - 1)}}));
    return name + "(" + address(b, index) + ", " + value + ");";
  }

  // Streamed stores reach other threads in any order.
  std::string end_streams(Helpers& h) const override {
    if (h.needs("rlxc_end_streams"))
      h.add(
          "static inline void rlxc_end_streams(void) {\n#if defined(__AVX__)\n  __asm__ volatile(\"sfence\" : : : \"memory\");\n"
          "#endif\n}\n");
    return "rlxc_end_streams();";
  }

  std::string prefetch(const Buffer& b, const std::string& index, kernel::Cache cache) const override {
    return "__builtin_prefetch(" + address(b, index) + (cache == kernel::Cache::First ? ", 0, 3);" : ", 0, 2);");
  }

  std::string atomic_add(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const override {
    if (!is_float(t.dtype)) return "__atomic_fetch_add(&" + b.name + "[" + index + "], " + value + ", __ATOMIC_RELAXED);";
    std::string name = "rlxc_atomic_add_" + suffix(t);
    if (h.needs(name))
      h.add(
          expand("static inline void $F($T* p, $T v) {\n  $T old, sum;\n  __atomic_load(p, &old, __ATOMIC_RELAXED);\n"
                 "  do sum = old + v;\n  while (!__atomic_compare_exchange(p, &old, &sum, true, __ATOMIC_RELAXED, "
                 "__ATOMIC_RELAXED));\n}\n",
                 {{"F", name}, {"T", scalar_type(t.dtype)}}));
    return name + "(&" + b.name + "[" + index + "], " + value + ");";
  }

  // Vectors of arrays do not cross lines of the cache.
  std::string registers(const Buffer& b, int64_t extent, const std::string& value, Helpers& h) const override {
    constexpr int64_t kLine = 64;
    std::string s = CLike::registers(b, extent, value, h);
    if (extent * b.type.lanes * rlxc::bits(b.type.dtype) / 8 < kLine || extent == 1) return s;
    s.insert(s.size() - 1, " __attribute__((aligned(" + std::to_string(kLine) + ")))");
    return s;
  }

  std::string open(const Kernel& k, const Launch&, Helpers& h) const override {
    std::string s = "void " + k.name + "(";
    for (size_t i = 0; i < k.argument_count(); ++i) {
      const Buffer& b = k.buffers[i];
      s += (i ? ", " : "") + std::string(b.access == kernel::Access::Read ? "const " : "") + element(b.type.dtype, h) + "* ";
      s += (b.may_alias ? "" : "restrict ") + b.name;
    }
    for (kernel::VarId v : k.symbols) s += (s.back() == '(' ? "int64_t " : ", int64_t ") + k.var(v).name;
    return s + (s.back() == '(' ? "void) {\n" : ") {\n");
  }

 private:
  static std::string address(const Buffer& b, const std::string& index) { return index == "0" ? b.name : b.name + " + " + index; }

  std::string gather_function(Type t, Helpers& h) const {
    std::string name = "rlxc_gather_" + suffix(t), v = type(t, h), index = type({DType::I64, t.lanes}, h);
    std::string minus = t.dtype == DType::Bool ? "-" : "";
    if (h.needs(name))
      h.add(expand(
          "static inline $V $F(const $E* p, $I at) {\n  $V r;\n  for (int i = 0; i < $N; ++i) r[i] = $Mp[at[i]];\n  return "
          "r;\n}\n",
          {{"V", v}, {"F", name}, {"E", element(t.dtype, h)}, {"I", index}, {"N", std::to_string(t.lanes)}, {"M", minus}}));
    return name;
  }
};

}  // namespace

const CLike& cpu() {
  static const Cpu target;
  return target;
}

std::string_view parallel_runtime(bool threads) {
  for (const HostFile& h : host_files())
    if (h.name == (threads ? "parallel.c" : "serial.c")) return h.text;
  return {};
}

}  // namespace rlxc::target
