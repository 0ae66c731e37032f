#include "backend/c/cpu_matrix.h"

#include "backend/c/cpu_half.h"

namespace rlxc::target {
namespace {

using kernel::FragmentLayout;
using kernel::MatrixUnit;
using kernel::Step;

struct PairInstruction {
  DType a, b;
  std::string_view condition, body;
};
constexpr PairInstruction kPairInstructions[] = {
    {DType::U8, DType::I8, "defined(__ARM_FEATURE_MATMUL_INT8)",
     "  __asm__ volatile(\"usmmla %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n  return c;\n"},
    {DType::BF16, DType::BF16, "defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)",
     "  __asm__ volatile(\"bfmmla %0.4s, %1.8h, %2.8h\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n  return c;\n"},
};

int element_of(const FragmentLayout& layout, Step at) {
  for (int e = 0; e < layout.elements(); ++e)
    if (layout.of_element(e) == at) return e;
  return -1;
}

// Computes the sums of products element by element. Integers wrap.
std::string element_by_element(const MatrixUnit& u, Helpers& h) {
  const auto number = [&](DType t, const std::string& element) {
    if (is_half(t))
      return scalar_half_cast(DType::F32, t, std::string("rlxc_f32_from_") + std::string(name(t)), h) + "(" + element + ")";
    return u.accumulator == DType::I32 ? "(uint32_t)" + element : element;
  };
  std::string text;
  for (int e = 0; e < u.c.elements(); ++e) {
    const Step at = u.c.of_element(e);
    const std::string to = "c[" + std::to_string(e) + "]";
    text += "  " + to + " = " + number(u.accumulator, to);
    for (int p = 0; p < u.k; ++p) {
      const int of_a = element_of(u.a, {at.row, static_cast<int8_t>(p)}),
                of_b = element_of(u.b, {static_cast<int8_t>(p), at.column});
      text += " + " + number(u.operand, "a[" + std::to_string(of_a) + "]") + " * " +
              number(u.of_b(), "b[" + std::to_string(of_b) + "]");
    }
    text += ";\n";
  }
  return text + "  return c;\n";
}

}  // namespace

std::string cpu_matrix_multiply(const CLike& t, const MatrixUnit& u, Helpers& h) {
  const Type a(u.operand, u.a.elements()), b(u.of_b(), u.b.elements()), c(u.accumulator, u.c.elements());
  const std::string name = "rlxc_matrix_" + suffix(a) + "_" + suffix(b) + "_" + suffix(c);
  if (!h.needs(name)) return name;
  const std::string type_a = t.type(a, h), type_b = t.type(b, h), type_c = t.type(c, h), plain = element_by_element(u, h);
  std::string text = "static inline " + type_c + " " + name + "(" + type_a + " a, " + type_b + " b, " + type_c + " c) {\n";
  bool has = false;
  for (const PairInstruction& i : kPairInstructions) {
    if (i.a != u.operand || i.b != u.of_b()) continue;
    text += (has ? "#elif " : "#if ") + std::string(i.condition) + "\n" + std::string(i.body);
    has = true;
  }
  h.add(text + (has ? "#else\n" + plain + "#endif\n" : plain) + "}\n");
  return name;
}

}  // namespace rlxc::target
