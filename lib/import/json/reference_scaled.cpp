// Scaled low-precision types of the reference vocabulary: one quantized value per byte, with a scale per tensor or per block of
// the last axis.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "import/compose/packed.h"
#include "import/json/reference_rows.h"
#include "ir/term.h"
#include "support/half.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::make, transform::Term;

// A format with sign, exponent and mantissa, from the top bit down.
struct Format {
  int bits = 8;
  std::vector<float> values;  // of each bit pattern
  std::optional<DType> own;   // the element type with this format, if there is one
  float largest() const {
    float top = 0;
    for (float v : values)
      if (std::isfinite(v)) top = std::max(top, v);
    return top;
  }
};

// No infinities or NaN; subnormal numbers at exponent 0.
Format small_float(int exponent, int mantissa, int bias) {
  Format f;
  f.bits = 1 + exponent + mantissa;
  for (int code = 0; code < 1 << f.bits; ++code) {
    const int m = code & ((1 << mantissa) - 1), e = code >> mantissa & ((1 << exponent) - 1);
    const double size = std::ldexp(e == 0 ? m : m + (1 << mantissa), std::max(e, 1) - bias - mantissa);
    f.values.push_back(static_cast<float>(code >> (f.bits - 1) ? -size : size));
  }
  return f;
}

std::optional<Format> format_of(Node& n, std::string_view field) {
  static constexpr std::pair<std::string_view, DType> kBytes[] = {{"f8e4m3", DType::F8E4M3FN},
                                                                  {"f8e5m2", DType::F8E5M2},
                                                                  {"f8e4m3fnuz", DType::F8E4M3FNUZ},
                                                                  {"f8e5m2fnuz", DType::F8E5M2FNUZ}};
  const ReferenceTag tag = reference_tag(n, field);
  std::string name;
  for (char c : tag.name) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const auto& [known, t] : kBytes)
    if (known == name) {
      Format f;
      f.own = t;
      for (uint32_t code = 0; code < 256; ++code) f.values.push_back(static_cast<float>(decode_float(t, code)));
      return f;
    }
  if (name == "f6e2m3") return small_float(2, 3, 1);
  if (name == "f6e3m2") return small_float(3, 2, 3);
  if (name == "f4e2m1") return small_float(2, 1, 1);
  const int64_t e = tag.number("exp"), m = tag.number("mant"), bias = tag.number("bias");
  if (name == "custom" && e >= 1 && m >= 0 && e + m <= 7 && std::abs(bias) <= 128)
    return small_float(static_cast<int>(e), static_cast<int>(m), static_cast<int>(bias));
  if (n.good) n.fail(Code::UnsupportedAttribute, "\"" + std::string(field) + "\" is no number format of at most 8 bits");
  return std::nullopt;
}

enum class ScaleType { Real, PowerOfTwo, Fp8 };
struct Layout {
  ScaleType type = ScaleType::Real;
  int64_t block = 0;  // 0: one scale
};
std::optional<Layout> layout_of(Node& n) {
  const ReferenceTag tag = reference_tag(n, "layout");
  const auto block = [&](std::string_view field, int64_t otherwise) { return tag.has(field) ? tag.number(field) : otherwise; };
  Layout l;
  if (tag.name == "BlockMxE8M0") l = {ScaleType::PowerOfTwo, block("block", 32)};
  else if (tag.name == "Nvfp4") l = {ScaleType::Fp8, block("group", 16)};
  else if (tag.name != "PerTensor") n.fail(Code::BadAttribute, "\"layout\" must be PerTensor, BlockMxE8M0 or Nvfp4");
  if (n.good && l.type != ScaleType::Real && (l.block < 1 || l.block > 1 << 20))
    n.fail(Code::BadAttribute, "the size of a block is out of range");
  return n.good ? std::optional(l) : std::nullopt;
}

// Reshapes [.., k] to [.., k/block, block].
Term in_blocks(Node& n, Term x, const Layout& l) {
  auto d = x.dims();
  if (!x.valid() || d.empty() || !n.b.dims().divides(Dim(l.block), d.back()))
    return n.fail(Code::BadShape, "rows must be whole blocks of " + std::to_string(l.block)), x.with({});
  d.back() = n.b.dims().floor_div(d.back(), Dim(l.block));
  d.emplace_back(l.block);
  return reshape(x, d);
}
Term real_scale(Term s, const Layout& l) {
  Builder& b = *s.b;
  if (l.type == ScaleType::Real) return reshape(s.with(b.cast(s.v, kReal)), {});
  if (l.type == ScaleType::Fp8) return s.with(compose::decode_scale_bytes(b, s.v));
  return s.with(b.cast(b.create(OpKind::BitCast, {s.v}, CastAttrs{DType::F8E8M0, true}), kReal));
}
// Multiplies x by its scale, or divides.
Term scaled(Node& n, Term x, Term s, const Layout& l, OpKind how) {
  const Term scale = real_scale(s, l);
  if (l.type == ScaleType::Real) return make(how, {x, scale});
  auto d = scale.dims();
  d.emplace_back(1);
  return reshape(make(how, {in_blocks(n, x, l), reshape(scale, d)}), x.dims());
}
Term decoded(Node& n, size_t codes, size_t scale, const Format& f, const Layout& l) {
  std::vector<float> table;
  for (size_t i = 0; i < 256; ++i) table.push_back(f.values[i % f.values.size()]);
  return scaled(n, {&n.b, compose::look_up(n.b, table, n.in[codes])}, {&n.b, n.in[scale]}, l, OpKind::Mul);
}

ValueId scaled_dequantize(Node& n) {  // codes, scale
  const auto f = n.count(2, 2) ? format_of(n, "format") : std::nullopt;
  const auto l = f ? layout_of(n) : std::nullopt;
  return l ? decoded(n, 0, 1, *f, *l).v : ValueId();
}

// Returns the nearest bit pattern, ties to even. Larger values saturate.
ValueId nearest_code(Node& n, Term x, const Format& f) {
  Builder& b = n.b;
  if (f.own)
    return b.create(OpKind::BitCast, {b.create(OpKind::Cast, {x.v}, CastAttrs{*f.own, true})}, CastAttrs{DType::U8, true});
  // Positive bit patterns are ordered by value: the bit pattern is the number of midpoints below the value.
  std::vector<float> even, odd;
  for (size_t i = 0; i + 1 < f.values.size() / 2; ++i) (i % 2 ? odd : even).push_back((f.values[i] + f.values[i + 1]) / 2);
  auto column = x.dims();
  column.emplace_back(1);
  const Term size = reshape(abs(x), column);
  const auto above = [&](const std::vector<float>& middles, OpKind compare) {
    const ValueId list = b.constant(make_data(kReal, {static_cast<int64_t>(middles.size())}, middles));
    const Term is = size.with(b.cast(make(compare, {size, size.with(list)}).v, DType::I32));
    return sum(is, {static_cast<int64_t>(column.size()) - 1}, false);
  };
  Term code = above(even, OpKind::Gt);
  if (!odd.empty()) code = code + above(odd, OpKind::Ge);
  return b.cast((code + select(x < 0, code.number(static_cast<double>(f.values.size() / 2)), code.number(0))).v, DType::U8);
}

ValueId scaled_quantize(Node& n) {  // x, scale
  const auto f = n.count(2, 2) ? format_of(n, "format") : std::nullopt;
  const auto l = f ? layout_of(n) : std::nullopt;
  if (!l) return {};
  const Term x = scaled(n, {&n.b, n.b.cast(n.in[0], kReal)}, {&n.b, n.in[1]}, *l, OpKind::Div);
  return x.valid() ? nearest_code(n, x, *f) : ValueId();
}

// Returns the scale that maps the largest element of the tensor or block to the format's largest value; power-of-two scales map
// its exponent to the largest exponent.
ValueId scaled_quant_scale(Node& n) {
  const auto f = n.count(1, 1) ? format_of(n, "format") : std::nullopt;
  const auto l = f ? layout_of(n) : std::nullopt;
  if (!l) return {};
  Builder& b = n.b;
  Term x{&b, b.cast(n.in[0], kReal)};
  if (l->block) x = in_blocks(n, x, *l);
  if (!x.valid()) return {};
  std::vector<int64_t> axes{x.rank() - 1};
  for (int64_t i = 0; !l->block && i + 1 < x.rank(); ++i) axes.push_back(i);
  std::ranges::sort(axes);
  const Term top = reduce(ReduceOp::Max, abs(x), axes, false);
  if (l->type == ScaleType::PowerOfTwo) {
    const Term bits = x.with(b.create(OpKind::BitCast, {top.v}, CastAttrs{DType::I32, true}));
    const Term exponent = make(OpKind::Shr, {bits, bits.number(23)}) - std::ilogb(f->largest());
    return b.cast(make(OpKind::Clamp, {exponent}, ClampAttrs{0, 254}).v, DType::U8);
  }
  const Term scale = top / static_cast<double>(f->largest());
  if (l->type == ScaleType::Real) return reshape(max(scale, 1e-12), n.type.dims).v;
  const ValueId narrow = b.create(OpKind::Cast, {scale.v}, CastAttrs{DType::F8E4M3FN, true});
  return b.create(OpKind::BitCast, {narrow}, CastAttrs{DType::U8, true});
}

// Quantized values [m,k] and [n,k] (experts: [E,n,k]), their scales, [the expert of each row,] [bias].
template <bool kExperts>
ValueId scaled_matmul(Node& n) {
  const size_t count = (kExperts ? 5 : 4) + n.flag("has_bias");
  if (!n.count(count, count)) return {};
  const auto lhs = format_of(n, "lhs_format"), rhs = format_of(n, "rhs_format");
  const auto l = lhs && rhs ? layout_of(n) : std::nullopt;
  if (!l) return {};
  const Term x = decoded(n, 0, 2, *lhs, *l), w = decoded(n, 1, 3, *rhs, *l);
  if (!x.valid() || !w.valid()) return {};
  Term y = x;
  if (kExperts) {
    if (x.rank() != 2 || w.rank() != 3) return n.fail(Code::BadShape, "needs codes [m,k] and [experts,n,k]"), ValueId();
    y = y.with(reference_by_expert(n, x.v, n.b.transpose(w.v, {0, 2, 1}), n.in[4]));
  } else {
    y = matmul(x, w, false, true);
  }
  return n.flag("has_bias") ? (y + Term{&n.b, n.in.back()}).v : y.v;
}

}  // namespace

std::span<const ReferenceRow> reference_scaled_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"ScaledMatMul", scaled_matmul<false>},   {"ScaledGroupedMatMul", scaled_matmul<true>},
      {"ScaledQuantScale", scaled_quant_scale}, {"ScaledQuantize", scaled_quantize},
      {"ScaledDequantize", scaled_dequantize},
  };
  return kRows;
}

}  // namespace rlxc::import_json
