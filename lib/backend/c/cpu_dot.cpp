#include "backend/c/cpu_dot.h"

#include "backend/c/cpu_half.h"

namespace rlxc::target {
namespace {

// Instructions for c + a * b on registers of `bytes` bytes, exact for u8, i8, i16 and i32. `vpmaddubsw`, which saturates sums of
// two products, is exact for elements of a below 128 only. An asm operand stays in its register, while gcc 12 copies the
// accumulators of its intrinsics. $A, $B and $C are the types of a, b and c, $H is $A in 16-bit elements.
struct Instructions {
  enum Use : uint8_t { Always, Small, Large };  // Small: for elements of a below 128; Large: for others

  DType a;
  std::string_view condition;
  int bytes;
  std::string_view body;
  Use use = Always;
  int count = 1;  // of instructions, for elements of a below 128
};

// Widens even and odd bytes to 16-bit elements, whose products are added in pairs.
constexpr std::string_view kPairs = R"(    const $H even = (const $H)(($U)a & 255), odd = (const $H)(($U)a >> 8);
    $C low = ($C)(($H)b << 8 >> 8), high = ($C)(($H)b >> 8);
    __asm__("vpmaddwd %1, %0, %0" : "+v"(low) : "v"(even));
    __asm__("vpmaddwd %1, %0, %0" : "+v"(high) : "v"(odd));
    return c + low + high;
)";
constexpr std::string_view kSmallPairs = R"(    const $H ones = ($H){0} + 1;
    $H pairs;
    __asm__("vpmaddubsw %2, %1, %0" : "=v"(pairs) : "v"(a), "v"(b));
    __asm__("vpmaddwd %1, %0, %0" : "+v"(pairs) : "v"(ones));
    return c + ($C)pairs;
)";
// Products of 16-bit elements, added in pairs.
constexpr std::string_view kProducts = R"(    $C pairs;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(pairs) : "v"(a), "v"(b));
    return c + pairs;
)";
constexpr Instructions kInstructions[] = {
    {DType::U8, "defined(__AVX512VNNI__)", 64,
     "    __asm__(\"vpdpbusd %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n    return c;\n"},
    {DType::U8, "defined(__AVX512VNNI__) && defined(__AVX512VL__)", 32,
     "    __asm__(\"vpdpbusd %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n    return c;\n"},
    {DType::U8, "defined(__AVXVNNI__)", 32,
     "    __asm__(\"%{vex%} vpdpbusd %2, %1, %0\" : \"+x\"(c) : \"x\"(a), \"x\"(b));\n    return c;\n"},
    {DType::U8, "defined(__AVX512BW__)", 64, kSmallPairs, Instructions::Small, 3},
    {DType::U8, "defined(__AVX512BW__)", 64, kPairs, Instructions::Large},
    {DType::U8, "defined(__AVX2__)", 32, kSmallPairs, Instructions::Small, 3},
    {DType::U8, "defined(__AVX2__)", 32, kPairs, Instructions::Large},
    {DType::U8, "defined(__ARM_FEATURE_MATMUL_INT8)", 16,
     "    __asm__(\"usdot %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n    return c;\n"},
    {DType::U8, "defined(__ARM_FEATURE_DOTPROD)", 16,
     "    __asm__(\"sdot %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n    return c;\n", Instructions::Small},
    // a - 128 is signed. The difference depends on b alone.
    {DType::U8, "defined(__ARM_FEATURE_DOTPROD)", 16,
     "    const $A flipped = a ^ 128, lowest = ($A){0} + 128;\n    $C lack = {0};\n"
     "    __asm__(\"sdot %0.4s, %1.16b, %2.16b\" : \"+w\"(c) : \"w\"(flipped), \"w\"(b));\n"
     "    __asm__(\"sdot %0.4s, %1.16b, %2.16b\" : \"+w\"(lack) : \"w\"(lowest), \"w\"(b));\n    return c - lack;\n",
     Instructions::Large},
    {DType::I16, "defined(__AVX512VNNI__)", 64,
     "    __asm__(\"vpdpwssd %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n    return c;\n"},
    {DType::I16, "defined(__AVX512VNNI__) && defined(__AVX512VL__)", 32,
     "    __asm__(\"vpdpwssd %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n    return c;\n"},
    {DType::I16, "defined(__AVXVNNI__)", 32,
     "    __asm__(\"%{vex%} vpdpwssd %2, %1, %0\" : \"+x\"(c) : \"x\"(a), \"x\"(b));\n    return c;\n"},
    {DType::I16, "defined(__AVX512BW__)", 64, kProducts},
    {DType::I16, "defined(__AVX2__)", 32, kProducts},
    {DType::BF16, "defined(__AVX512BF16__)", 64,
     "    __asm__(\"vdpbf16ps %2, %1, %0\" : \"+v\"(c) : \"v\"(a), \"v\"(b));\n    return c;\n"},
    {DType::BF16, "defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)", 16,
     "    __asm__(\"bfdot %0.4s, %1.8h, %2.8h\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n    return c;\n"},
};

// Widens the elements of each pair to f32.
constexpr std::string_view kBrainPairs = R"(static inline $C $F($A a, $B b, $C c) {
  const $U x = ($U)a, y = ($U)b;
  return ($C)(x & 0xffff0000) * ($C)(y & 0xffff0000) + (($C)(x << 16) * ($C)(y << 16) + c);
}
)";

// Computes the sums of products element by element.
std::string element_by_element(const CLike& t, Type a, Type b, Type c, const std::string& name, Helpers& h) {
  const int group = a.lanes / c.lanes;
  if (a.dtype == DType::BF16 && c.lanes > 1)
    return expand(
        kBrainPairs,
        {{"C", t.type(c, h)}, {"F", name}, {"A", t.type(a, h)}, {"B", t.type(b, h)}, {"U", t.type({DType::U32, c.lanes}, h)}});
  const std::string number = a.dtype == DType::BF16 ? scalar_half_cast(DType::F32, DType::BF16, "rlxc_f32_from_bf16", h) : "";
  std::string terms;
  for (int j = 0; j < group; ++j) {
    const std::string first = c.lanes > 1 ? std::to_string(group) + " * i + " : "", at = "[" + first + std::to_string(j) + "]";
    terms += (j ? " + " : "") + number + "(a" + at + ") * " + number + "(b" + at + ")";
  }
  const std::string each = "for (int i = 0; i < " + std::to_string(c.lanes) + "; ++i) c[i] += ";
  return expand("static inline $C $F($A a, $B b, $C c) {\n  $Y;\n  return c;\n}\n",
                {{"C", t.type(c, h)},
                 {"F", name},
                 {"A", t.type(a, h)},
                 {"B", t.type(b, h)},
                 {"Y", (c.lanes > 1 ? each : "c += ") + terms}});
}

bool has_instructions(Type a, Type b, Type c) {
  if (a.dtype == DType::BF16) return a.lanes == 2 * c.lanes && a.lanes >= 8;
  if (a.dtype == DType::I16) return b == a && c.dtype == DType::I32 && a.lanes == 2 * c.lanes && a.lanes >= 16;
  return a.dtype == DType::U8 && b.dtype == DType::I8 && c.dtype == DType::I32 && a.lanes == 4 * c.lanes && a.lanes >= 16;
}

// The operands and sums of one register.
struct Registers {
  Type a, b, c;
};
Registers registers(const Instructions& i) {
  if (i.a == DType::BF16) return {{DType::BF16, i.bytes / 2}, {DType::BF16, i.bytes / 2}, {DType::F32, i.bytes / 4}};
  if (i.a == DType::I16) return {{DType::I16, i.bytes / 2}, {DType::I16, i.bytes / 2}, {DType::I32, i.bytes / 4}};
  return {{DType::U8, i.bytes}, {DType::I8, i.bytes}, {DType::I32, i.bytes / 4}};
}

// Returns a function for one register of the instruction.
std::string piece(const CLike& t, const Instructions& i, const std::string& name, Helpers& h) {
  const auto [a, b, c] = registers(i);
  const std::string u16 = t.type({DType::U16, i.bytes / 2}, h);
  return expand(
      "static inline $C $F($A a, $B b, $C c) {\n$Y}\n",
      {{"Y", expand(i.body, {{"H", t.type({DType::I16, i.bytes / 2}, h)}, {"U", u16}, {"A", t.type(a, h)}, {"C", t.type(c, h)}})},
       {"C", t.type(c, h)},
       {"F", name},
       {"A", t.type(a, h)},
       {"B", t.type(b, h)}});
}

}  // namespace

std::string cpu_dot(const CLike& t, Type a, Type b, Type c, bool small, Helpers& h) {
  const std::string name = (small ? "rlxc_small_dot_" : "rlxc_dot_") + suffix(a) + "_" + suffix(b) + "_" + suffix(c);
  if (!h.needs(name)) return name;
  const std::string otherwise = element_by_element(t, a, b, c, name, h);
  if (!has_instructions(a, b, c)) {
    h.add(otherwise);
    return name;
  }
  const std::string type_a = t.type(a, h), type_b = t.type(b, h), type_c = t.type(c, h);
  std::string text;
  for (const Instructions& i : kInstructions) {
    const auto [piece_a, piece_b, piece_c] = registers(i);
    if (i.a != a.dtype || piece_a.lanes > a.lanes || i.use == (small ? Instructions::Large : Instructions::Small)) continue;
    text += (text.empty() ? "#if " : "#elif ") + std::string(i.condition) + "\n";
    const std::string call = name + "_piece";
    text += piece(t, i, call, h);
    text += "static inline " + type_c + " " + name + "(" + type_a + " a, " + type_b + " b, " + type_c + " c) {\n";
    if (piece_a.lanes == a.lanes) {
      text += "  return " + call + "(a, b, c);\n}\n";
      continue;
    }
    text += expand(
        "  $A x[$N];\n  $B y[$N];\n  $C z[$N];\n  memcpy(x, &a, sizeof a), memcpy(y, &b, sizeof b), memcpy(z, &c, sizeof c);\n"
        "  for (int i = 0; i < $N; ++i) z[i] = $F(x[i], y[i], z[i]);\n  memcpy(&c, z, sizeof c);\n  return c;\n}\n",
        {{"A", t.type(piece_a, h)},
         {"B", t.type(piece_b, h)},
         {"C", t.type(piece_c, h)},
         {"N", std::to_string(a.lanes / piece_a.lanes)},
         {"F", call}});
  }
  text += "#else\n" + otherwise + "#endif\n";
  h.add(std::move(text));
  return name;
}

std::string cpu_dot_instructions(int vector_bytes, Helpers& h) {
  const std::string name = "rlxc_dot_instructions_" + std::to_string(vector_bytes);
  if (!h.needs(name)) return name;
  std::string text;
  const auto constant = [&](int count) { text += "enum { " + name + " = " + std::to_string(count) + " };\n"; };
  for (const Instructions& i : kInstructions) {
    if (i.a != DType::U8 || i.bytes > vector_bytes || i.use == Instructions::Large) continue;
    text += (text.empty() ? "#if " : "#elif ") + std::string(i.condition) + "\n";
    constant(i.count * (vector_bytes / i.bytes));
  }
  if (text.empty()) constant(0);
  else {
    text += "#else\n";
    constant(0);
    text += "#endif\n";
  }
  h.add(std::move(text));
  return name;
}

}  // namespace rlxc::target
