#include "backend/c/cpu_math.h"

#include <algorithm>
#include <array>
#include <optional>

#include "backend/c/cpu_half.h"
#include "backend/c/scalar_helpers.h"
#include "kernel/math.h"

namespace rlxc::target {
namespace {

using Values = std::vector<std::pair<std::string_view, std::string>>;

// Returns the name in math.h without the float suffix.
std::string libm(ExprOp op) {
  switch (op) {
    case ExprOp::Abs: return "fabs";
    case ExprOp::Mod: return "fmod";
    case ExprOp::RoundEven: return "rint";
    default: return std::string(kernel::name(op));
  }
}

std::string scalar_function(const CLike& target, ExprOp op, Type t, Helpers& h) {
  if (!scalar_definition(op, t.dtype)) return t.dtype == DType::F64 ? libm(op) : libm(op) + "f";
  return add_scalar_function(target, "static inline ", op, t.dtype, h);
}

DType mask_dtype(DType t) {
  switch (rlxc::bits(t)) {
    case 64: return DType::I64;
    case 16: return DType::I16;
    case 8: return t == DType::Bool ? DType::I32 : DType::I8;
    default: return DType::I32;
  }
}

std::string vector_function(const CLike& target, ExprOp op, Type t, Helpers& h);

constexpr int kShortBytes = 16;  // of vectors that are registers everywhere

Type half_of(Type t) { return {t.dtype, t.lanes / 2}; }

int bytes_of(Type t) { return t.lanes * rlxc::bits(t.dtype == DType::Bool ? DType::I32 : t.dtype) / 8; }

bool is_long(Type result, Type parameter) { return std::max(bytes_of(result), bytes_of(parameter)) > kShortBytes; }

// gcc computes comparisons, shuffles and most functions of vectors that are longer than registers lane by lane. Returns first
// lines of such a function, which compute each half of the result by a call instead. The calls name the halves of a parameter `a`
// aa.half[0] and aa.half[1]. Requires is_long().
std::string in_halves(const CLike& target, Type result, Type parameter, std::string_view names,
                      const std::array<std::string, 2>& calls, Helpers& h) {
  const int widest = std::max(bytes_of(result), bytes_of(parameter));
  const auto both = [&](Type t) {
    return "union { " + target.type(t, h) + " whole; " + target.type(half_of(t), h) + " half[2]; } ";
  };
  std::string text = "#if defined(__GNUC__) && !defined(__clang__)";
  if (widest <= 64) text += widest > 32 ? " && !defined(__AVX512F__)" : " && !defined(__AVX__)";
  text += "\n  " + both(parameter);
  for (size_t i = 0; i < names.size(); ++i)
    text += std::string(i > 0 ? ", " : "") + names[i] + names[i] + " = {" + names[i] + "}";
  text += ";\n  " + both(result) + "both;\n  both.half[0] = " + calls[0] + ";\n  both.half[1] = " + calls[1] + ";\n";
  return text + "  return both.whole;\n#endif\n";
}

// The same for a function that computes each lane from the same lane of its parameters. `half` adds the function of a half and
// returns its name. Empty for short vectors.
template <class Half>
std::string by_halves(const CLike& target, Type result, Type parameter, std::string_view names, Helpers& h, const Half& half) {
  if (!is_long(result, parameter)) return "";
  const std::string function = half();
  std::array<std::string, 2> calls;
  for (size_t k = 0; k < 2; ++k) {
    for (char name : names)
      calls[k] += (calls[k].empty() ? "(" : ", ") + std::string(2, name) + ".half[" + std::to_string(k) + "]";
    calls[k] = function + calls[k] + ")";
  }
  return in_halves(target, result, parameter, names, calls, h);
}

// Inserts lines at the begin of the body of a function.
std::string with_first_lines(std::string function, const std::string& lines) {
  const size_t body = function.find('{') + 1;
  if (lines.empty()) return function;
  return function.insert(body, "\n" + lines + (function[body] == '\n' ? "" : " "));
}

// Reduces the lanes of a vector by halves.
std::string reduction(const CLike& target, ExprOp op, Type t, const std::string& name, Helpers& h) {
  const Type half(t.dtype, t.lanes / 2);
  const ExprOp combine = op == ExprOp::ReduceMax ? ExprOp::Max : ExprOp::Min;
  const std::string low = half.lanes == 1 ? "a[0]" : "low", high = half.lanes == 1 ? "a[1]" : "high";
  std::string both = low + (op == ExprOp::ReduceAdd ? " + " : " * ") + high;
  if (op == ExprOp::ReduceMax || op == ExprOp::ReduceMin)
    both = cpu_function(target, combine, half, h) + "(" + low + ", " + high + ")";
  std::string first, second;
  for (int i = 0; i < half.lanes; ++i) {
    first += (i ? ", " : "") + std::to_string(i);
    second += (i ? ", " : "") + std::to_string(half.lanes + i);
  }
  const std::vector<std::pair<std::string_view, std::string>> values = {{"T", target.type(t.scalar(), h)},
                                                                        {"F", name},
                                                                        {"V", target.type(t, h)},
                                                                        {"H", target.type(half, h)},
                                                                        {"C", both},
                                                                        {"L", first},
                                                                        {"G", second}};
  if (half.lanes == 1) return expand("static inline $T $F($V a) { return ($T)($C); }\n", values);
  const std::string rest = vector_function(target, op, half, h);
  return expand(
      "static inline $T $F($V a) {\n  $H low, high;\n#if defined(__clang__) || __GNUC__ >= 12\n"
      "  low = __builtin_shufflevector(a, a, $L);\n  high = __builtin_shufflevector(a, a, $G);\n#else\n"
      "  memcpy(&low, &a, sizeof low);\n  memcpy(&high, (const char*)&a + sizeof low, sizeof high);\n#endif\n  return " +
          rest + "($C);\n}\n",
      values);
}

// Adds a function that selects lanes of two vectors. Lane i of the result is lane from[i] of the concatenation of a and b. Each
// half of the result reads at most two of the four halves.
void add_chosen_lanes(const CLike& target, Type t, const std::vector<int>& from, const std::string& name, Helpers& h) {
  const int half = t.lanes / 2;
  std::array<std::string, 2> calls;
  for (int k = 0; k < 2 && is_long(t, t); ++k) {
    int first = from[static_cast<size_t>(k * half)] / half, second = first;
    std::vector<int> lanes;
    for (int i = 0; i < half; ++i) {
      const int lane = from[static_cast<size_t>(k * half + i)];
      if (lane / half != first) second = lane / half;
      lanes.push_back(lane % half + (lane / half == first ? 0 : half));
    }
    const std::string part = name + (k == 0 ? "_low" : "_high");
    add_chosen_lanes(target, half_of(t), lanes, part, h);
    const auto source = [](int n) { return std::string(n < 2 ? "aa" : "bb") + ".half[" + std::to_string(n % 2) + "]"; };
    calls[static_cast<size_t>(k)] = part + "(" + source(first) + ", " + source(second) + ")";
  }
  std::string lanes;
  for (int lane : from) lanes += (lanes.empty() ? "" : ", ") + std::to_string(lane);
  const std::vector<std::pair<std::string_view, std::string>> values = {
      {"V", target.type(t, h)}, {"I", target.type(Type(mask_dtype(t.dtype), t.lanes), h)}, {"F", name}, {"L", lanes}};
  h.add(with_first_lines(
      expand("static inline $V $F($V a, $V b) {\n#ifdef __clang__\n  return __builtin_shufflevector(a, b, $L);\n#else\n"
             "  return __builtin_shuffle(a, b, ($I){$L});\n#endif\n}\n",
             values),
      is_long(t, t) ? in_halves(target, t, t, "ab", calls, h) : ""));
}

// The preprocessor's condition for vectors of a type to be registers of x86; null if none are.
const char* register_condition(Type t) {
  const int bytes = t.lanes * rlxc::bits(t.dtype) / 8;
  return bytes == 64 ? "defined(__AVX512F__)" : bytes == 32 || bytes == 16 ? "defined(__AVX__)" : nullptr;
}

// The suffix of x86 instructions for a vector of floats, and the asm constraint of its registers.
std::string float_suffix(Type t) { return t.dtype == DType::F32 ? "ps" : "pd"; }
std::string register_constraint(Type t) { return t.lanes * rlxc::bits(t.dtype) == 512 ? "v" : "x"; }

// The instruction of x86 for the larger or smaller of integers, "pmaxsd", and the condition under which a vector has it.
// Compilers compare and choose instead.
std::string integer_bound(ExprOp op, DType t) {
  const int bits = rlxc::bits(t);
  return std::string(op == ExprOp::Max ? "pmax" : "pmin") + (is_signed(t) ? "s" : "u") +
         (bits == 8    ? "b"
          : bits == 16 ? "w"
                       : "d");
}
const char* integer_condition(Type t) {
  const int bits = rlxc::bits(t.dtype);
  if (t.dtype == DType::Bool || bits > 32) return nullptr;
  switch (t.lanes * bits) {
    case 512: return bits == 32 ? "defined(__AVX512F__)" : "defined(__AVX512BW__)";
    case 256: return "defined(__AVX2__)";
    case 128: return "defined(__AVX__)";
    default: return nullptr;
  }
}

std::string vector_function(const CLike& target, ExprOp op, Type t, Helpers& h) {
  std::string name = "rlxc_" + std::string(kernel::name(op)) + "_" + suffix(t);
  if (!h.needs(name)) return name;
  Type mask(mask_dtype(t.dtype), t.lanes), result = result_type(op, t);
  std::string v = target.type(t, h), r = target.type(result, h), m = target.type(mask, h);
  std::string n = std::to_string(t.lanes);
  auto define = [&](std::string_view text, Values extra = {}) {
    Values values = {{"V", v}, {"R", r}, {"I", m}, {"F", name}, {"N", n}};
    values.insert(values.begin(), extra.begin(), extra.end());
    const std::string_view names = std::string_view("abc").substr(0, static_cast<size_t>(kernel::operand_count(op)));
    const bool bitwise = op == ExprOp::Not || op == ExprOp::BitNot || op == ExprOp::Abs;
    const auto half = [&] { return vector_function(target, op, half_of(t), h); };
    h.add(with_first_lines(expand(text, values), bitwise ? "" : by_halves(target, result, t, names, h, half)));
    return name;
  };
  bool bools = t.dtype == DType::Bool;
  switch (op) {
    case ExprOp::ReduceAdd:
    case ExprOp::ReduceMul:
    case ExprOp::ReduceMax:
    case ExprOp::ReduceMin: h.add(reduction(target, op, t, name, h)); return name;
    case ExprOp::Lt:
    case ExprOp::Le:
    case ExprOp::Eq:
    case ExprOp::Ne: {
      std::string symbol = op == ExprOp::Lt ? "<" : op == ExprOp::Le ? "<=" : op == ExprOp::Eq ? "==" : "!=";
      return define("static inline $R $F($V a, $V b) { return __builtin_convertvector(a $S b, $R); }\n", {{"S", symbol}});
    }
    case ExprOp::IsNan:
      return define(t.dtype == DType::F32 ? "static inline $R $F($V a) { return a != a; }\n"
                                          : "static inline $R $F($V a) { return __builtin_convertvector(a != a, $R); }\n");
    case ExprOp::Not: return define("static inline $R $F($V a) { return ~a; }\n");
    case ExprOp::BitNot: return define("static inline $R $F($V a) { return ~a; }\n");
    case ExprOp::Min:
    case ExprOp::Max: {
      const std::string head = "static inline $V $F($V a, $V b) {\n", less = op == ExprOp::Min ? "<" : ">";
      const std::string choice = "  return ($V)((($I)a & m) | (($I)b & ~m));\n";
      if (!is_float(t.dtype)) {
        const char* const condition = integer_condition(t);
        const std::string by_mask = "  const $I m = ($I)(a $S b);\n" + choice;
        const std::string by_bound = "  __asm__(\"v$O %1, %0, %0\" : \"+$C\"(b) : \"$C\"(a));\n  return b;\n";
        const std::string body =
            condition ? "#if " + std::string(condition) + "\n" + by_bound + "#else\n" + by_mask + "#endif\n" : by_mask;
        return define(head + body + "}\n", {{"S", less}, {"O", integer_bound(op, t.dtype)}, {"C", register_constraint(t)}});
      }
      // The instruction of x86, which compilers do not find, returns its second source for a NaN and for equal values. Where
      // masks are vectors, all bits are a NaN.
      const char* const condition = register_condition(t);
      const bool wide = t.lanes * rlxc::bits(t.dtype) == 512;
      const std::string by_masks = "  const $I m = (a $S b) | (a != a);\n" + choice;
      const std::string by_bound = "  __asm__(\"v$O %0, %1, %0\" : \"+$C\"(b) : \"$C\"(a));\n" +
                                   (wide ? "  const $I m = a != a;\n" + choice : "  return ($V)(($I)b | (a != a));\n");
      return define(
          head + (condition ? "#if " + std::string(condition) + "\n" + by_bound + "#else\n" + by_masks + "#endif\n" : by_masks) +
              "}\n",
          {{"S", less}, {"O", std::string(kernel::name(op)) + float_suffix(t)}, {"C", register_constraint(t)}});
    }
    case ExprOp::Abs:
      if (!is_float(t.dtype)) break;
      return define("static inline $V $F($V a) { return ($V)(($I)a & $M); }\n",
                    {{"M", t.dtype == DType::F32 ? "INT32_MAX" : "INT64_MAX"}});
    default: break;
  }
  int operands = kernel::operand_count(op);
  std::string scalar = scalar_function(target, op, t.scalar(), h);
  bool tests = result.dtype == DType::Bool;
  const std::string by_lanes = "  $R r;\n  for (int i = 0; i < $N; ++i) r[i] = $C;\n  return r;\n";
  std::string body = by_lanes;
  if (op == ExprOp::Sqrt && register_condition(t))  // compilers call sqrt for each lane, which may set errno
    body = "#if " + std::string(register_condition(t)) + "\n  __asm__(\"vsqrt$O %0, %0\" : \"+$X\"(a));\n  return a;\n#else\n" +
           by_lanes + "#endif\n";
  std::string call = scalar + (operands == 1 ? "(a[i])" : operands == 2 ? "(a[i], b[i])" : "(a[i], b[i], c[i])");
  return define("static inline $R $F($P) {\n" + body + "}\n",
                {{"O", float_suffix(t)},
                 {"X", register_constraint(t)},
                 {"P", v + " a" + (operands > 1 ? ", " + v + " b" : "") + (operands > 2 ? ", " + v + " c" : "")},
                 {"C", tests || bools ? "-(int32_t)" + call : call}});
}

std::string scalar_cast(const CLike& target, DType to, DType from, Helpers& h) {
  std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from), r = target.type(to, h), t = target.type(from, h);
  if ((is_half(to) && from == DType::F32) || (is_half(from) && to == DType::F32)) {
    return scalar_half_cast(to, from, name, h);
  }
  if (is_half(to) || is_half(from)) {
    if (!h.needs(name)) return name;
    DType via = DType::F32;
    std::string inner = from == via ? "a" : scalar_cast(target, via, from, h) + "(a)";
    std::string outer = to == via ? inner : scalar_cast(target, to, via, h) + "(" + inner + ")";
    h.add(expand("static inline $R $F($T a) { return $E; }\n", {{"R", r}, {"F", name}, {"T", t}, {"E", outer}}));
    return name;
  }
  if (to == DType::Bool) return "(bool)";
  if (!is_float(from) || is_float(to)) return "(" + r + ")";
  return add_saturating_cast(target, "static inline ", to, from, h);
}

// Sine or cosine by the polynomial, which loses digits of large arguments, or for these by the library.
std::string periodic_function(const CLike& target, ExprOp op, Type t, Helpers& h) {
  const std::string name = "rlxc_any_" + std::string(kernel::name(op)) + "_" + suffix(t);
  if (!h.needs(name)) return name;
  const std::string near = defined_function(target, op, t, "static inline $R $F($P) {\n", h, kernel::Periods::Near);
  h.add(
      expand("static inline $V $F($V a) {\n  int near = 1;\n  for (int i = 0; i < $N; ++i) near &= a[i] >= -8192.0f && a[i] <= "
             "8192.0f;\n"
             "  if (near) return $P(a);\n  for (int i = 0; i < $N; ++i) a[i] = $S(a[i]);\n  return a;\n}\n",
             {{"V", target.type(t, h)},
              {"F", name},
              {"N", std::to_string(t.lanes)},
              {"P", near},
              {"S", scalar_function(target, op, t.scalar(), h)}}));
  return name;
}

// Adds a function that returns a product. The empty instruction keeps compilers from fusing it with the sum that reads it.
std::string product_function(const CLike& target, Type t, Helpers& h) {
  const std::string name = "rlxc_product_" + suffix(t);
  if (!h.needs(name)) return name;
  const std::string halves = by_halves(target, t, t, "ab", h, [&] { return product_function(target, half_of(t), h); });
  const bool pair = t.lanes == 2, fits = bytes_of(t) <= kShortBytes;  // clang has no registers for pairs, and does not fuse them
  std::string text;
  if (const char* const condition = pair   ? "defined(__SSE2__) && !defined(__clang__)"
                                    : fits ? "defined(__SSE2__)"
                                           : register_condition(t))
    text += "#if " + std::string(condition) + "\n  __asm__(\"\" : \"+$C\"(a));\n";
  if (fits) text += "#elif defined(__aarch64__)\n  __asm__(\"\" : \"+w\"(a));\n";
  if (!text.empty()) text += "#endif\n";
  h.add(expand("static inline $V $F($V a, $V b) {\n" + halves + "  a *= b;\n" + text + "  return a;\n}\n",
               {{"V", target.type(t, h)}, {"F", name}, {"C", register_constraint(t)}}));
  return name;
}

// Adds a function of a, b and c that returns a * b + c, rounded once; gcc fuses products and sums as it likes.
std::string fused(const CLike& target, Type t, Helpers& h) {
  if (t.lanes == 1) return "fmaf";
  const std::string name = "rlxc_fused_" + suffix(t);
  if (!h.needs(name)) return name;
  const std::string halves = by_halves(target, t, t, "abc", h, [&] { return fused(target, half_of(t), h); });
  std::string text = "static inline $V $F($V a, $V b, $V c) {\n" + halves;
  const char* const condition = register_condition(t);
  if (condition)
    text += "#if defined(__FMA__) && " + std::string(condition) +
            "\n  __asm__(\"vfmadd231ps %2, %1, %0\" : \"+$C\"(c) : \"$C\"(a), \"$C\"(b));\n  return c;\n";
  if (t.lanes == 4)
    text +=
        "#elif defined(__aarch64__)\n  __asm__(\"fmla %0.4s, %1.4s, %2.4s\" : \"+w\"(c) : \"w\"(a), \"w\"(b));\n  return c;\n";
  text += std::string(condition ? "#else\n" : "") +
          "  for (int i = 0; i < $N; ++i) c[i] = fmaf(a[i], b[i], c[i]);\n  return c;\n" + (condition ? "#endif\n" : "") + "}\n";
  h.add(expand(text, {{"V", target.type(t, h)}, {"F", name}, {"N", std::to_string(t.lanes)}, {"C", register_constraint(t)}}));
  return name;
}

// Adds the function of Divisor, DivisorRest or Quotient (kernel/divisor.h). Whether divisors are split is the same for scalars
// and vectors of all lengths: parts of scalars are broadcast.
std::string division_function(const CLike& target, ExprOp op, Type t, Helpers& h) {
  const std::string name = "rlxc_" + std::string(kernel::name(op)) + "_" + suffix(t);
  if (!h.needs(name)) return name;
  const std::string fma = fused(target, t, h), one = t.lanes == 1 ? "1.0f" : "1.0f - ($V){0}";
  std::string text;
  if (op == ExprOp::Divisor) text = "($V a) {\n$I  return 1.0f / a * 0x1.fffffep-1f;\n#else\n  return a;\n#endif\n}\n";
  else if (op == ExprOp::DivisorRest)
    text = "($V a) {\n$I  const $V high = " + division_function(target, ExprOp::Divisor, t, h) + "(a);\n  return " + fma +
           "(-a, high, " + one + ") * high;\n#else\n  return a - a;\n#endif\n}\n";
  else
    text = "($V a, $V high, $V rest) {\n$I  return " + fma +
           "(a, high, a * rest);\n#else\n  (void)rest;\n  return a / high;\n#endif\n}\n";
  h.add(expand("static inline $V " + name + text,
               {{"V", target.type(t, h)}, {"I", "#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)\n"}}));
  return name;
}

}  // namespace

std::string cpu_move_lanes(const CLike& target, ExprOp op, Type t, int group, Helpers& h) {
  const std::string name = "rlxc_" + std::string(kernel::name(op)) + (group > 0 ? std::to_string(group) : "") + "_" + suffix(t);
  if (!h.needs(name)) return name;
  const bool second = op == ExprOp::InterleaveHigh || op == ExprOp::OddLanes;
  const auto interleaved = [&](int i) {
    const int n = group > 0 ? group : t.lanes, lane = i % n;
    return i - lane + (second ? n / 2 : 0) + lane / 2 + lane % 2 * t.lanes;
  };
  const auto alternate = [&](int i) {
    const int n = std::max(group, 1);
    return (i / n * 2 + (second ? 1 : 0)) * n + i % n;
  };
  const bool interleaves = op == ExprOp::InterleaveLow || op == ExprOp::InterleaveHigh;
  std::vector<int> from;
  for (int i = 0; i < t.lanes; ++i) from.push_back(interleaves ? interleaved(i) : alternate(i));
  add_chosen_lanes(target, t, from, name, h);
  return name;
}

std::string cpu_larger(const CLike& target, Type t, Helpers& h) {
  const char* const condition = t.lanes > 1 && is_float(t.dtype) ? register_condition(t) : nullptr;
  if (!condition) return {};
  const std::string name = "rlxc_larger_" + suffix(t), v = target.type(t, h),
                    mask = target.type({mask_dtype(t.dtype), t.lanes}, h);
  if (h.needs(name)) {
    const std::string halves = by_halves(target, t, t, "ab", h, [&] { return cpu_larger(target, half_of(t), h); });
    h.add(with_first_lines(
        expand("static inline $V $F($V a, $V b) {\n#if $W\n  __asm__(\"vmax$O %1, %0, %0\" : \"+$C\"(b) : \"$C\"(a));\n  return "
               "b;\n#else\n"
               "  const $I m = a < b;\n  return ($V)((($I)b & m) | (($I)a & ~m));\n#endif\n}\n",
               {{"V", v}, {"F", name}, {"W", condition}, {"I", mask}, {"O", float_suffix(t)}, {"C", register_constraint(t)}}),
        halves));
  }
  return name;
}

std::string cpu_function(const CLike& target, ExprOp op, Type t, Helpers& h) {
  // Other functions of kernel/math.h are more precise (pow) or faster per lane.
  constexpr ExprOp kPolynomials[] = {ExprOp::Exp,   ExprOp::Exp2,  ExprOp::Log,  ExprOp::Tanh, ExprOp::Erf,
                                     ExprOp::Expm1, ExprOp::Log1p, ExprOp::Atan, ExprOp::Asin, ExprOp::Acos};
  const bool polynomial = t.lanes > 1 && t.dtype == DType::F32 &&
                          std::find(std::begin(kPolynomials), std::end(kPolynomials), op) != std::end(kPolynomials);
  if (op == ExprOp::Product) return product_function(target, t, h);
  if (op == ExprOp::Divisor || op == ExprOp::DivisorRest || op == ExprOp::Quotient) return division_function(target, op, t, h);
  if (t.lanes > 1 && t.dtype == DType::F32 && (op == ExprOp::Sin || op == ExprOp::Cos))
    return periodic_function(target, op, t, h);
  if (polynomial) {
    const std::string halves = by_halves(target, t, t, "x", h, [&] { return cpu_function(target, op, half_of(t), h); });
    return defined_function(target, op, t, "static inline $R $F($P) {\n" + halves, h);
  }
  return t.lanes == 1 ? scalar_function(target, op, t, h) : vector_function(target, op, t, h);
}

namespace {

// 8-bit integers are widened in two steps, because gcc scalarises vectors that grow fourfold at once.
std::optional<DType> step_between(DType from, DType to) {
  if (rlxc::bits(to) < 32 || to == DType::Bool) return {};
  if (from == DType::I8) return DType::I16;
  if (from == DType::U8) return DType::U16;
  if (is_float(to) && (from == DType::I16 || from == DType::U16)) return DType::I32;
  return {};
}

// The condition under which an instruction of x86 widens vectors of bytes to 32 bits, which gcc does not find.
const char* widening_condition(Type to, DType from) {
  const bool bytes = is_int8(from) && to.dtype == DType::I32;
  if (!bytes || (to.lanes != 8 && to.lanes != 16)) return nullptr;
  return to.lanes == 16 ? "defined(__AVX512F__) && !defined(__clang__)" : "defined(__AVX2__) && !defined(__clang__)";
}

// The body of a function that narrows words to bytes, in two steps where gcc scalarises one.
std::string narrowed(const CLike& target, Type to, Helpers& h) {
  return expand(
      "#if defined(__AVX512F__) || defined(__clang__)\n  return __builtin_convertvector(a, $R);\n#else\n"
      "  return __builtin_convertvector(__builtin_convertvector(a, $M), $R);\n#endif",
      {{"R", target.type(to, h)}, {"M", target.type({DType::I16, to.lanes}, h)}});
}

// Casts f32 to bytes. A word beyond 32 bits counts as 2^31, which the second instruction saturates.
constexpr std::string_view kBytes = R"(#if defined(__AVX512F__)
  const $V none = {0};
  $I words;
  $R bytes;
  __asm__("vmaxps %1, %0, %0" : "+v"(a) : "v"(none));
  __asm__("$X %1, %0" : "=v"(words) : "v"(a));
  __asm__("vpmovusdb %1, %0" : "=v"(bytes) : "v"(words));
  return bytes;
#else
  )";
constexpr const char *kTruncates = "vcvttps2dq", *kRounds = "vcvtps2dq";

bool is_bytes(Type t) { return t == Type(DType::U8, 16); }

// x86 has an instruction for each bound, which gcc does not find; the result for a NaN is the lower one.
constexpr std::string_view kBounds =
    "  __asm__(\"vmaxps %1, %0, %0\" : \"+$C\"(a) : \"$C\"(low));\n"
    "  __asm__(\"vminps %1, %0, %0\" : \"+$C\"(a) : \"$C\"(high));\n";

// The bounds of `range` in f32, and 0 for a NaN if it is signed.
std::string bounds_of(DType range) {
  return "const $V high = $U - ($V){0}, low = $L - ($V){0};\n" +
         std::string(is_signed(range) ? "  a = ($V)(($I)a & (a == a));\n" : "");
}

std::string expand_cast(const CLike& target, std::string_view text, Type to, DType range, Type from, const char* instruction,
                        Helpers& h) {
  const bool negative = is_signed(range);
  const int bits = rlxc::bits(range) - (negative ? 1 : 0);
  const auto number = [](int v) { return std::to_string(v) + ".0f"; };
  return expand(text, {{"V", target.type(from, h)},
                       {"I", target.type({DType::I32, from.lanes}, h)},
                       {"R", target.type(to, h)},
                       {"C", from.lanes == 16 ? "v" : "x"},
                       {"X", instruction},
                       {"U", number((1 << bits) - 1)},
                       {"L", number(negative ? -(1 << bits) : 0)}});
}

// Casts f32 to the range of an integer type of at most 16 bits through 32 bits, because gcc scalarises a loop of saturating
// casts.
std::string saturated(const CLike& target, Type to, DType range, Type from, Helpers& h) {
  const std::string words = "__builtin_convertvector(a, $I)";
  const std::string by_masks =
      "  $I m = a > low;\n  a = ($V)((($I)a & m) | (($I)low & ~m));\n  m = a < high;\n  a = ($V)((($I)a & m) | (($I)high & "
      "~m));\n";
  const char* const condition = register_condition(from);
  const bool bytes = range == DType::U8 && is_bytes(to);
  const std::string bounded =
      condition && !bytes ? "#if " + std::string(condition) + "\n" + std::string(kBounds) + "#else\n" + by_masks + "#endif\n"
                          : by_masks;
  const std::string converted =
      to.dtype == DType::I32 ? words : cpu_cast(target, to, {DType::I32, to.lanes}, h) + "(" + words + ")";
  const std::string text =
      (bytes ? std::string(kBytes) : "") + bounds_of(range) + bounded + "  return " + converted + ";" + (bytes ? "\n#endif" : "");
  return expand_cast(target, text, to, range, from, kTruncates, h);
}

// The same to other types: a NaN becomes 0, and no lane is converted that the type cannot hold. A loop over lanes would be
// slower, and gcc 12 fails on it for 64-bit integers (internal error in store_constructor).
std::string saturated_whole(const CLike& target, Type to, Type from, Helpers& h) {
  const Type mask(mask_dtype(from.dtype), from.lanes);
  const bool negative = is_signed(to.dtype);
  const CastBounds bounds = cast_bounds(target, to.dtype, from.dtype);
  const auto lanes_of = [&](const std::string& m) {
    return mask.dtype == to.dtype ? m : "__builtin_convertvector(" + m + ", $R)";
  };
  return expand(
      "const $I high = a >= $U, low = a < $L, held = (a == a) & ~high & ~low;\n  return __builtin_convertvector(($V)(($I)a & "
      "held), $R) | (" +
          lanes_of("high") + " & $X)" + (negative ? " | (" + lanes_of("low") + " & $N)" : "") + ";",
      {{"V", target.type(from, h)},
       {"I", target.type(mask, h)},
       {"R", target.type(to, h)},
       {"U", bounds.upper},
       {"L", bounds.lower},
       {"X", bounds.most},
       {"N", bounds.least}});
}

}  // namespace

std::string cpu_cast(const CLike& target, Type to, Type from, Helpers& h) {
  if (to.lanes == 1) return scalar_cast(target, to.dtype, from.dtype, h);
  std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from);
  if (!h.needs(name)) return name;
  if ((is_half(to.dtype) && from.dtype == DType::F32) || (is_half(from.dtype) && to.dtype == DType::F32)) {
    add_vector_half_cast(target, to, from, name, scalar_cast(target, to.dtype, from.dtype, h), h);
    return name;
  }
  if (is_half(to.dtype) || is_half(from.dtype)) {
    const Type middle(DType::F32, to.lanes);
    const std::string inner = cpu_cast(target, middle, from, h), outer = cpu_cast(target, to, middle, h);
    h.add("static inline " + target.type(to, h) + " " + name + "(" + target.type(from, h) + " a) { return " + outer + "(" +
          inner + "(a)); }\n");
    return name;
  }
  std::string r = target.type(to, h), v = target.type(from, h), body;
  const Type words(DType::I32, to.lanes);
  if (const auto step = step_between(from.dtype, to.dtype); step) {
    const char* const condition = widening_condition(words, from.dtype);
    const Type middle{condition && is_float(to.dtype) ? DType::I32 : *step, to.lanes};
    body = "return " + cpu_cast(target, to, middle, h) + "(" + cpu_cast(target, middle, from, h) + "(a));";
    if (condition && to == words)
      body = std::string("#if ") + condition + "\n  " + r + " r;\n  __asm__(\"vpmov" + (from.dtype == DType::U8 ? "z" : "s") +
             "xbd %1, %0\" : \"=" + register_constraint(to) + "\"(r) : \"" + register_constraint(to) +
             "\"(a));\n  return r;\n#else\n  " + body + "\n#endif";
  } else if (from.dtype == DType::I32 && is_int8(to.dtype)) body = narrowed(target, to, h);
  else if (from.dtype == DType::F32 && is_integer(to.dtype) && rlxc::bits(to.dtype) <= 16)
    body = saturated(target, to, to.dtype, from, h);
  else if (to.dtype == DType::Bool) body = "return __builtin_convertvector(a != 0, " + r + ");";
  else if (is_float(from.dtype) && is_integer(to.dtype)) body = saturated_whole(target, to, from, h);
  else body = std::string("return __builtin_convertvector(") + (from.dtype == DType::Bool ? "-a" : "a") + ", " + r + ");";
  const std::string halves = by_halves(target, to, from, "a", h, [&] { return cpu_cast(target, half_of(to), half_of(from), h); });
  h.add("static inline " + r + " " + name + "(" + v + " a) {\n" + halves + (body.starts_with('#') ? "" : "  ") + body + "\n}\n");
  return name;
}

namespace {

// Casts f32 to words within the range of `middle`.
std::string clamped_cast(const CLike& target, Type to, Type middle, Type from, Helpers& h) {
  const std::string name = "rlxc_" + suffix(to) + "_from_" + suffix(from) + "_as_" + suffix(middle.dtype);
  if (!h.needs(name)) return name;
  const std::string halves =
      by_halves(target, to, from, "a", h, [&] { return clamped_cast(target, half_of(to), half_of(middle), half_of(from), h); });
  h.add("static inline " + target.type(to, h) + " " + name + "(" + target.type(from, h) + " a) {\n" + halves + "  " +
        saturated(target, to, middle.dtype, from, h) + "\n}\n");
  return name;
}

}  // namespace

std::string cpu_cast_through(const CLike& target, Type to, Type middle, Type from, const std::string& value, Helpers& h) {
  const bool shorter = to.lanes > 1 && from.dtype == DType::F32 && is_integer(middle.dtype) && rlxc::bits(middle.dtype) <= 16 &&
                       (to.dtype == DType::I32 || to.dtype == DType::F32);
  if (!shorter) return {};
  const Type word(DType::I32, to.lanes);
  if (to.dtype == DType::F32)
    return cpu_cast(target, to, word, h) + "(" + cpu_cast_through(target, word, middle, from, value, h) + ")";
  return clamped_cast(target, to, middle, from, h) + "(" + value + ")";
}

std::string cpu_rounding_cast(const CLike& target, Type to, Type from, Helpers& h) {
  const bool narrow = is_integer(to.dtype) && rlxc::bits(to.dtype) <= 16;
  const char* const condition = register_condition(from);
  if (to.lanes == 1 || from.dtype != DType::F32 || !narrow || !condition) return {};
  const std::string name = "rlxc_" + suffix(to) + "_rounded_" + suffix(from);
  if (!h.needs(name)) return name;
  const std::string halves =
      by_halves(target, to, from, "a", h, [&] { return cpu_rounding_cast(target, half_of(to), half_of(from), h); });
  const std::string two_steps = cpu_cast(target, to, from, h) + "(" + cpu_function(target, ExprOp::RoundEven, from, h) + "(a))";
  std::string text = is_bytes(to) ? std::string(kBytes)
                                  : "#if " + std::string(condition) + "\n  " + bounds_of(to.dtype) + std::string(kBounds) +
                                        "  $I words;\n  __asm__(\"$X %1, %0\" : \"=$C\"(words) : \"$C\"(a));\n  return " +
                                        cpu_cast(target, to, {DType::I32, to.lanes}, h) + "(words);\n#else\n  ";
  text = expand_cast(target, text, to, to.dtype, from, kRounds, h);
  h.add("static inline " + target.type(to, h) + " " + name + "(" + target.type(from, h) + " a) {\n" + halves + text + "return " +
        two_steps + ";\n#endif\n}\n");
  return name;
}

}  // namespace rlxc::target
