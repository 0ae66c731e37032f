#include "backend/gpu/gpu_cxx.h"

#include "backend/c/scalar_helpers.h"
#include "kernel/math.h"

namespace rlxc::target {

using kernel::Buffer;

std::string GpuCxx::type(Type t, Helpers& h) const { return t.lanes == 1 ? scalar(t.dtype) : vector(t, h); }

// Uses the library's function, a definition of kernel/math.h, or a helper; on vectors lane by lane if there is no vector form.
std::string GpuCxx::function(ExprOp op, Type t, Helpers& h) const {
  std::string from_library = library(op, t.dtype);
  if (!from_library.empty() && (t.lanes == 1 || vector_functions())) return from_library;
  if (from_library.empty() && kernel::has_definition(op) && t.dtype == DType::F32)
    return defined_function(*this, op, t, std::string(function_qualifiers()) + "$R $F($P) {\n", h);
  if (t.lanes == 1)
    return from_library.empty() ? add_scalar_function(*this, function_qualifiers(), op, t.dtype, h) : from_library;

  std::string name = "rlxc_" + std::string(kernel::name(op)) + "_" + suffix(t), v = type(t, h);
  if (!h.needs(name)) return name;
  ExprOp combine = op == ExprOp::ReduceAdd   ? ExprOp::Add
                   : op == ExprOp::ReduceMul ? ExprOp::Mul
                   : op == ExprOp::ReduceMax ? ExprOp::Max
                                             : ExprOp::Min;
  bool reduces = op == ExprOp::ReduceAdd || op == ExprOp::ReduceMul || op == ExprOp::ReduceMax || op == ExprOp::ReduceMin;
  std::string n = std::to_string(t.lanes);
  if (reduces) {
    bool plus = combine == ExprOp::Add, times = combine == ExprOp::Mul;
    std::string call = plus    ? "a[i] + a[i + w]"
                       : times ? "a[i] * a[i + w]"
                               : function(combine, t.scalar(), h) + "(a[i], a[i + w])";
    h.add(std::string(function_qualifiers()) + scalar(t.dtype) + " " + name + "(" + v + " a) {\n  for (int w = " + n +
          " / 2; w > 0; w /= 2)\n" + "    for (int i = 0; i < w; ++i) a[i] = " + call + ";\n  return a[0];\n}\n");
    return name;
  }
  int operands = kernel::operand_count(op);
  std::string call = function(op, t.scalar(), h) + (operands == 1   ? "(a[i])"
                                                    : operands == 2 ? "(a[i], b[i])"
                                                                    : "(a[i], b[i], c[i])");
  std::string parameters = v + " a" + (operands > 1 ? ", " + v + " b" : "") + (operands > 2 ? ", " + v + " c" : "");
  std::string result = type(result_type(op, t), h);
  h.add(std::string(function_qualifiers()) + result + " " + name + "(" + parameters + ") {\n  " + result +
        " r;\n  for (int i = 0; i < " + n + "; ++i) r[i] = " + call + ";\n  return r;\n}\n");
  return name;
}

// Casts half literals: a conditional between a half and a float is ambiguous, because each converts to the other.
std::string GpuCxx::literal(const ExprNode& e) const {
  const DType t = e.type.dtype;
  const std::string s = CLike::literal(e);
  return t == DType::F16 || t == DType::BF16 ? scalar(t) + "(" + s + ")" : s;
}

std::string GpuCxx::cast(Type to, Type from, const std::string& value, Helpers& h) const {
  bool half_to = to.dtype == DType::F16 || to.dtype == DType::BF16,
       half_from = from.dtype == DType::F16 || from.dtype == DType::BF16;
  bool saturates = is_float(from.dtype) && is_integer(to.dtype);
  bool via_float = (half_to && from.dtype != DType::F32) || (half_from && to.dtype != DType::F32);
  Type f32(DType::F32, from.lanes);
  if (via_float) return cast(to, f32, cast(f32, from, value, h), h);
  if (to.lanes == 1 && saturates)
    return add_saturating_cast(*this, function_qualifiers(), to.dtype, from.dtype, h) + "(" + value + ")";
  if (to.lanes == 1) return to.dtype == DType::Bool ? "(" + value + " != 0)" : scalar(to.dtype) + "(" + value + ")";
  std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from), v = type(from, h), r = type(to, h);
  if (h.needs(name)) {
    std::string one = cast(to.scalar(), from.scalar(), "a[i]", h);
    h.add(std::string(function_qualifiers()) + r + " " + name + "(" + v + " a) {\n  " + r + " r;\n  for (int i = 0; i < " +
          std::to_string(to.lanes) + "; ++i) r[i] = " + one + ";\n  return r;\n}\n");
  }
  return name + "(" + value + ")";
}

std::string GpuCxx::select(Type t, Type condition, const std::string& c, const std::string& a, const std::string& b,
                           Helpers& h) const {
  if (condition.lanes == 1) return CLike::select(t, condition, c, a, b, h);
  std::string name = "rlxc_select_" + suffix(t), v = type(t, h);
  if (h.needs(name))
    h.add(std::string(function_qualifiers()) + v + " " + name + "(" + type(condition, h) + " c, " + v + " a, " + v +
          " b) {\n  for (int i = 0; i < " + std::to_string(t.lanes) + "; ++i) b[i] = c[i] ? a[i] : b[i];\n  return b;\n}\n");
  return name + "(" + c + ", " + a + ", " + b + ")";
}

std::string GpuCxx::ramp(Type t, const std::string& base, int64_t stride, Helpers& h) const {
  std::string name = "rlxc_ramp_" + suffix(t), v = type(t, h), s = scalar(t.dtype);
  if (h.needs(name))
    h.add(std::string(function_qualifiers()) + v + " " + name + "(" + s + " base, " + s + " stride) {\n  " + v +
          " r;\n  for (int i = 0; i < " + std::to_string(t.lanes) + "; ++i) r[i] = base + i * stride;\n  return r;\n}\n");
  return name + "(" + base + ", " + std::to_string(stride) + ")";
}

std::string GpuCxx::load(Type t, const Buffer& b, const std::string& index, bool gather, Helpers& h) const {
  if (t.lanes == 1) return b.name + "[" + index + "]";
  if (!gather) return "*(" + pointer(b, "const " + type(t, h)) + ")(" + b.name + " + " + index + ")";
  bool shared = b.space == kernel::Space::Shared;
  std::string name = std::string("rlxc_gather_") + (shared ? "shared_" : "") + suffix(t), v = type(t, h),
              at = type({DType::I64, t.lanes}, h);
  if (h.needs(name))
    h.add(std::string(function_qualifiers()) + v + " " + name + "(" + pointer(b, "const " + scalar(t.dtype)) + " p, " + at +
          " at) {\n  " + v + " r;\n  for (int i = 0; i < " + std::to_string(t.lanes) +
          "; ++i) r[i] = p[at[i]];\n  return r;\n}\n");
  return name + "(" + b.name + ", " + index + ")";
}

std::string GpuCxx::dot(Type a, Type b, Type c, Helpers& h) const {
  const std::string name = "rlxc_dot_" + suffix(a) + "_" + suffix(b), sum = scalar(c.dtype);
  const auto byte = [&](const char* word, Type t) { return scalar(t.dtype) + "(" + word + " >> i)"; };
  if (h.needs(name))
    h.add(std::string(function_qualifiers()) + sum + " " + name + "(" + sum + " a, " + sum + " b, " + sum + " c) {\n" +
          "  for (int i = 0; i < 32; i += 8) c += " + byte("a", a) + " * " + byte("b", b) + ";\n  return c;\n}\n");
  return name;
}

// Vectors are loaded from and stored to arrays of scalars.
std::string GpuCxx::registers(const Buffer& b, int64_t extent, const std::string& value, Helpers& h) const {
  return (extent > 1 ? "alignas(16) " : "") + CLike::registers(b, extent, value, h);
}

std::string GpuCxx::store(Type t, const Buffer& b, const std::string& index, const std::string& value, Helpers& h) const {
  if (t.lanes == 1) return b.name + "[" + index + "] = " + value + ";";
  return "*(" + pointer(b, type(t, h)) + ")(" + b.name + " + " + index + ") = " + value + ";";
}

}  // namespace rlxc::target
