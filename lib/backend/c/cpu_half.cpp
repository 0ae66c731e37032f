#include "backend/c/cpu_half.h"

#include "backend/c/scalar_helpers.h"

namespace rlxc::target {
namespace {

constexpr std::string_view kHalf = R"(static inline float rlxc_f32_from_f16(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  uint32_t u = rest >= 0x7c00u ? 0x7f800000u | (rest & 0x3ffu) << 13 : (rest << 13) + 0x38000000u;
  float f;
  if (rest < 0x400u) {
    f = (float)rest * 0x1p-24f;
    memcpy(&u, &f, sizeof u);
  }
  u |= sign;
  memcpy(&f, &u, sizeof f);
  return f;
}
)";
constexpr std::string_view kToHalf = R"(static inline uint16_t rlxc_f16_from_f32(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  const uint32_t sign = u >> 16 & 0x8000u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (u >> 13 & 0x3ffu));
  if (u >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
  if (u < 0x38800000u) {
    float a;
    memcpy(&a, &u, sizeof a);
    a += 0.5f;
    memcpy(&u, &a, sizeof u);
    return (uint16_t)(sign | (u - 0x3f000000u));
  }
  return (uint16_t)(sign | ((u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13));
}
)";
constexpr std::string_view kBrain = R"(static inline float rlxc_f32_from_bf16(uint16_t h) {
  const uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
)";
constexpr std::string_view kToBrain = R"(static inline uint16_t rlxc_bf16_from_f32(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
)";

// An instruction that converts `lanes` elements: its condition and its text, widening and narrowing.
struct HalfInstruction {
  std::string_view condition;
  int lanes;
  std::string_view widen, narrow;
};
constexpr HalfInstruction kHalfInstructions[] = {
    {"defined(__AVX512F__)", 16, R"("vcvtph2ps %1, %0" : "=v"(r) : "v"(a))", R"("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(a))"},
    {"defined(__F16C__)", 8, R"("vcvtph2ps %1, %0" : "=x"(r) : "x"(a))", R"("vcvtps2ph $0, %1, %0" : "=x"(r) : "x"(a))"},
    {"defined(__aarch64__)", 4, R"("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(a))", R"("fcvtn %0.4h, %1.4s" : "=w"(r) : "w"(a))"},
};

// Returns the C function for vectors of this instruction, in one piece or several.
std::string half_pieces(const CLike& t, const HalfInstruction& i, Type to, Type from, const std::string& name, Helpers& h) {
  const Type part_to(to.dtype, i.lanes), part_from(from.dtype, i.lanes);
  const std::string call = to.lanes == i.lanes ? name : name + "_piece", r = t.type(part_to, h), v = t.type(part_from, h);
  std::string s = expand("static inline $R $F($V a) {\n  $R r;\n  __asm__($I);\n  return r;\n}\n",
                         {{"R", r}, {"F", call}, {"V", v}, {"I", std::string(from.dtype == DType::F16 ? i.widen : i.narrow)}});
  if (to.lanes == i.lanes) return s;
  return s + expand(
                 "static inline $R $F($V a) {\n  $P x[$N];\n  $Q y[$N];\n  $R r;\n  memcpy(x, &a, sizeof a);\n"
                 "  for (int i = 0; i < $N; ++i) y[i] = $C(x[i]);\n  memcpy(&r, y, sizeof r);\n  return r;\n}\n",
                 {{"R", t.type(to, h)},
                  {"F", name},
                  {"V", t.type(from, h)},
                  {"P", v},
                  {"Q", r},
                  {"N", std::to_string(to.lanes / i.lanes)},
                  {"C", call}});
}

void add_f16_cast(const CLike& t, Type to, Type from, const std::string& name, const std::string& scalar, Helpers& h) {
  const std::string loop =
      expand("static inline $R $F($V a) {\n  $R r;\n  for (int i = 0; i < $N; ++i) r[i] = $S(a[i]);\n  return r;\n}\n",
             {{"R", t.type(to, h)}, {"F", name}, {"V", t.type(from, h)}, {"N", std::to_string(to.lanes)}, {"S", scalar}});
  std::string text;
  for (const HalfInstruction& i : kHalfInstructions)
    if (i.lanes <= to.lanes)
      text += (text.empty() ? "#if " : "#elif ") + std::string(i.condition) + "\n" + half_pieces(t, i, to, from, name, h);
  h.add(text.empty() ? loop : text + "#else\n" + loop + "#endif\n");
}

void add_bf16_cast(const CLike& t, Type to, Type from, const std::string& name, Helpers& h) {
  const std::string_view widen = "static inline $F $N($H a) { return ($F)(__builtin_convertvector(a, $U) << 16); }\n";
  const std::string_view narrow =
      "static inline $H $N($F a) {\n  const $U u = ($U)a, nan = ($U)(a != a);\n"
      "  const $U rounded = u + 0x7fff + (u >> 16 & 1), quiet = u | 0x400000;\n"
      "  return __builtin_convertvector(((quiet & nan) | (rounded & ~nan)) >> 16, $H);\n}\n";
  h.add(expand(from.dtype == DType::BF16 ? widen : narrow, {{"F", t.type({DType::F32, to.lanes}, h)},
                                                            {"U", t.type({DType::U32, to.lanes}, h)},
                                                            {"H", t.type({DType::BF16, to.lanes}, h)},
                                                            {"N", name}}));
}

}  // namespace

std::string scalar_half_cast(DType to, DType from, const std::string& name, Helpers& h) {
  if (h.needs(name))
    h.add(std::string(to == DType::F16 ? kToHalf : to == DType::BF16 ? kToBrain : from == DType::F16 ? kHalf : kBrain));
  return name;
}

void add_vector_half_cast(const CLike& t, Type to, Type from, const std::string& name, const std::string& scalar, Helpers& h) {
  if (to.dtype == DType::BF16 || from.dtype == DType::BF16) add_bf16_cast(t, to, from, name, h);
  else add_f16_cast(t, to, from, name, scalar, h);
}

}  // namespace rlxc::target
